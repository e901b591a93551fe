"""Generated transcripts have the form of real ones, and say what the model last saw."""

from __future__ import annotations

import json
from collections import defaultdict

import pytest

from tests.kit.transcripts import Layout, session_file
from ullage.testing import scenario, session_file as plain_session_file
from ullage.transcript import resume

LAYOUTS = {
    "usual": Layout(),
    "interleaved": Layout(interleave=100),
    "compacted": Layout(compactions=2),
    "kept": Layout(compactions=1, preserve=5),
    "kept_by_tail": Layout(compactions=1, preserve=5, linking="tail"),
    "old": Layout(version="2.1.34", progress=True, sidechains=True, errors=30, interleave=60),
    "everything": Layout(
        noise=100, progress=True, sidechains=True, errors=30, interleave=60, compactions=2,
        preserve=8, linking="tail",
    ),
    "cleared": Layout(microcompact=True),
    "bare": Layout(noise=0, errors=0, interleave=0, ui_copies=False),
}  # fmt: skip


def made(seed, layout="usual", **options):
    session = scenario(seed, tokens=40_000, style="mixed", **options)
    return session, session_file(session, layout=LAYOUTS[layout], seed=seed)


def turns(messages):
    """Roles and blocks, neighbours of one role joined, a string as one block."""
    out = []
    for message in messages:
        content = message["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else list(content)
        if out and out[-1][0] == message["role"]:
            out[-1][1].extend(blocks)
        else:
            out.append((message["role"], blocks))
    return out


@pytest.mark.parametrize("layout", LAYOUTS)
def test_resume_rebuilds_what_the_model_last_saw(layout):
    for seed in range(4):
        _, file = made(seed, layout)
        assert turns(resume(file.entries).messages) == turns(file.context)


def test_equal_arguments_equal_lines():
    assert made(3)[1].to_bytes() == made(3)[1].to_bytes()
    assert made(3)[1].to_bytes() != made(4)[1].to_bytes()


@pytest.mark.parametrize("layout", ["usual", "everything"])
def test_one_block_per_line_and_pieces_share_id_and_usage(layout):
    session, file = made(1, layout)
    groups = defaultdict(list)
    for row in file.entries:
        if row["type"] == "assistant" and not row["isSidechain"]:
            assert len(row["message"]["content"]) == 1
            groups[row["message"]["id"]].append(row)
    for rows in groups.values():
        assert len({json.dumps(row["message"]["usage"]) for row in rows}) == 1
        assert len({row.get("requestId") for row in rows}) == 1
    real = [rows for rows in groups.values() if rows[0]["message"]["model"] != "<synthetic>"]
    assert len(real) == sum(message["role"] == "assistant" for message in session.messages)
    assert any(len(rows) > 2 for rows in real)


@pytest.mark.parametrize("layout", ["usual", "interleaved", "everything"])
def test_each_result_hangs_on_the_line_of_its_call(layout):
    _, file = made(2, layout)
    lines = {row["uuid"]: row for row in file.entries if "uuid" in row}
    results = 0
    for row in file.entries:
        content = row["message"]["content"] if row["type"] == "user" else ""
        if not isinstance(content, list) or content[0]["type"] != "tool_result":
            continue
        call = lines[row["sourceToolAssistantUUID"]]["message"]["content"][0]
        assert call["id"] == content[0]["tool_use_id"]
        assert row["parentUuid"] == row["sourceToolAssistantUUID"]
        assert sum(block["type"] == "tool_result" for block in content) == 1
        assert "toolUseResult" in row
        results += 1
    assert results > 20


def test_results_stand_between_the_pieces_of_a_response():
    _, file = made(1, "interleaved")
    rows = [row for row in file.entries if row["type"] in ("user", "assistant")]
    names = [row["message"].get("id", "result") for row in rows]
    split = sum(
        a == c != b == "result" for a, b, c in zip(names, names[1:], names[2:], strict=False)
    )
    assert split > 3


def test_parallel_calls_make_the_tree_branch():
    _, file = made(1, "bare")
    children = defaultdict(list)
    for row in file.entries:
        children[row.get("parentUuid")].append(row["type"])
    assert any(sorted(kinds) == ["assistant", "user"] for kinds in children.values())
    seen = set()
    for row in file.entries:
        assert row["parentUuid"] in seen or row["parentUuid"] is None
        seen.add(row["uuid"])
    assert len(seen) == len(file.entries)


@pytest.mark.parametrize("layout", ["usual", "compacted"])
def test_usage_grows_with_the_conversation_and_falls_at_a_boundary(layout):
    _, file = made(5, layout)
    last, falls, boundary = 0, 0, False
    for row in file.entries:
        boundary = boundary or row.get("subtype") == "compact_boundary"
        usage = row["message"].get("usage") if row["type"] == "assistant" else None
        if not usage or row["message"]["model"] == "<synthetic>":
            continue
        total = sum(value for key, value in usage.items() if key.endswith("input_tokens"))
        assert total >= LAYOUTS[layout].overhead_tokens
        if total < last:
            assert boundary
            assert usage["cache_read_input_tokens"] == 0
            falls, boundary = falls + 1, False
        last = total
    assert falls == LAYOUTS[layout].compactions


def test_boundaries_have_the_metadata_of_real_ones():
    _, file = made(2, "kept")
    rows = {row["uuid"]: row for row in file.entries if "uuid" in row}
    at = next(n for n, row in enumerate(file.entries) if row.get("subtype") == "compact_boundary")
    boundary, summary = file.entries[at : at + 2]
    metadata = boundary["compactMetadata"]
    assert boundary["parentUuid"] is None
    assert boundary["logicalParentUuid"] in rows
    assert metadata["preTokens"] > metadata["postTokens"]
    assert summary["isCompactSummary"]
    assert summary["parentUuid"] == boundary["uuid"]
    assert "1. Primary Request and Intent" in summary["message"]["content"]
    kept = metadata["preservedMessages"]["uuids"]
    segment = metadata["preservedSegment"]
    assert (segment["headUuid"], segment["tailUuid"]) == (kept[0], kept[-1])
    assert segment["anchorUuid"] == summary["uuid"]
    assert all(rows[name]["type"] in ("user", "assistant") for name in kept)


@pytest.mark.parametrize(("layout", "parent"), [("kept", "summary"), ("kept_by_tail", "tail")])
def test_both_linkings(layout, parent):
    _, file = made(2, layout)
    at = next(n for n, row in enumerate(file.entries) if row.get("subtype") == "compact_boundary")
    tail = file.entries[at]["compactMetadata"]["preservedSegment"]["tailUuid"]
    after = next(row for row in file.entries[at + 2 :] if "uuid" in row)
    assert after["parentUuid"] == {"summary": file.entries[at + 1]["uuid"], "tail": tail}[parent]


def test_microcompact_clears_in_the_context_and_not_in_the_lines():
    _, file = made(0, "cleared")
    boundary = next(r for r in file.entries if r.get("subtype") == "microcompact_boundary")
    names = boundary["microcompactMetadata"]["compactedToolIds"]
    assert names
    cleared = "[Old tool result content cleared]"
    in_context = [
        block["content"]
        for message in file.context
        for block in (message["content"] if isinstance(message["content"], list) else [])
        if block.get("tool_use_id") in names
    ]
    assert in_context == [cleared] * len(names)
    assert cleared.encode() not in file.to_bytes()


def test_metadata_lines_errors_sidechains_and_progress_occur():
    found = set()
    for seed in range(3):
        for row in made(seed, "everything")[1].entries:
            found.add(row["type"] if "uuid" not in row else f"tree:{row['type']}")
            if row.get("isApiErrorMessage"):
                found.add("error")
            if row.get("isSidechain"):
                found.add("sidechain")
    assert found >= {
        "file-history-snapshot", "last-prompt", "mode", "queue-operation",
        "tree:progress", "tree:system", "tree:user", "tree:assistant", "error", "sidechain",
    }  # fmt: skip
    session = scenario(1, turns=6)
    lines = session_file(session, layout=Layout(attachments=100)).entries
    kinds = {row["attachment"]["type"] for row in lines if row["type"] == "attachment"}
    assert len(kinds) >= 2


def test_writing_and_a_incomplete_last_line(tmp_path):
    _, file = made(1)
    path = file.write(tmp_path)
    assert path.name == f"{file.session_id}.jsonl"
    lines = path.read_bytes().splitlines()
    assert [json.loads(line) for line in lines] == file.entries
    torn = file.to_bytes(torn=True)
    assert torn.startswith(file.to_bytes())
    with pytest.raises(ValueError, match=r"Unterminated|delimiter|Expecting"):
        json.loads(torn.splitlines()[-1])
    assert repr(file).startswith("SessionFile(")


def test_the_public_transcript_holds_the_session():
    """`ullage.testing.session_file`: one line per message, equal for equal sessions."""
    session = scenario(3, turns=4)
    file = plain_session_file(session)
    assert file.to_bytes() == plain_session_file(session).to_bytes()
    shown = resume(file.entries).messages
    assert [message["role"] for message in shown] == [each["role"] for each in session.messages]
    assert turns(shown) == turns(session.messages)

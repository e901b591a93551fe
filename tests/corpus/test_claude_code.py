"""Claude Code's real sessions: what stands after each boundary is rebuilt as the file says."""

from __future__ import annotations

import itertools
import json

import pytest

from ullage._engine import core
from ullage.transcript import Transcript, resume

pytestmark = pytest.mark.corpus


@pytest.fixture(scope="module")
def lines(claude_code_file):
    return [json.loads(line) for line in claude_code_file.read_bytes().splitlines() if line]


def boundaries(lines):
    return [at for at, line in enumerate(lines) if line.get("subtype") == "compact_boundary"]


# ---- an independent, naive reading -----------------------------------------------------------


def naive(lines):
    """Everything after the newest boundary, in file order, merged the plain way."""
    start = max(boundaries(lines), default=-1) + 1
    cleared = {
        name
        for line in lines
        for name in (line.get("microcompactMetadata") or {}).get("compactedToolIds", [])
    }
    talk = [line for line in lines[start:] if line["type"] in ("user", "assistant")]
    talk = [line for line in talk if not line.get("isSidechain") and not synthetic(line)]
    messages = []
    for line in talk:
        message = line["message"]
        if message["role"] == "assistant":
            known = next((m for m in messages if m.get("id") == message["id"]), None)
            if known is None:
                messages.append({"id": message["id"], "role": "assistant", "content": []})
                known = messages[-1]
            known["content"] += message["content"]
    results, texts = {}, {}
    last = None
    for line in talk:
        message = line["message"]
        if message["role"] == "assistant":
            last = message["id"]
            continue
        content = message["content"]
        for block in [{"type": "text", "text": content}] if isinstance(content, str) else content:
            if block["type"] != "tool_result":
                texts.setdefault(last, []).append(block)
                continue
            if block["tool_use_id"] in cleared:
                block = {**block, "content": "[Old tool result content cleared]"}
            results.setdefault(block["tool_use_id"], block)
    found = [("user", texts.get(None, []))]
    for message in messages:
        found.append(("assistant", message["content"]))
        calls = [b["id"] for b in message["content"] if b["type"] == "tool_use"]
        answers = [results[call] for call in calls if call in results]
        found.append(("user", answers + texts.get(message["id"], [])))
    return [(role, content) for role, content in found if content]


def synthetic(line):
    return line.get("isApiErrorMessage") or line["message"].get("model") == "<synthetic>"


def plain(messages, *, without=frozenset()):
    """Roles and blocks; answers in the order of their calls; without what attachments became."""
    found, calls = [], []
    for message in messages:
        content = message["content"]
        content = [{"type": "text", "text": content}] if isinstance(content, str) else content
        content = [block for block in content if block.get("text") not in without]
        if message["role"] == "assistant":
            calls = [b["id"] for b in content if b["type"] == "tool_use"]
        else:
            content = sorted(content, key=lambda block: place(block, calls))
        if content:
            found.append((message["role"], content))
    return found


def place(block, calls):
    return calls.index(block["tool_use_id"]) if block["type"] == "tool_result" else len(calls)


def attached(conversation, lines):
    uuids = {line["uuid"] for line in lines if line["type"] == "attachment"}
    return {e["message"]["content"] for e in conversation.entries if e["uuid"] in uuids}


# ---- the tests -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def views(lines):
    """(boundary, end, what a resume gives at that end) of each stretch that a boundary begins."""
    cuts = [*boundaries(lines), len(lines)]
    return [(start, cut, resume(lines[:cut])) for start, cut in itertools.pairwise(cuts)]


def test_the_corpus_has_the_boundaries_that_these_tests_are_about(claude_code_files):
    found = [line for file in claude_code_files for line in file.read_bytes().splitlines()]
    assert sum(b'"subtype":"compact_boundary"' in line for line in found) == 36


def test_the_view_after_each_boundary_is_what_the_file_says(lines, views):
    for _, cut, found in views or [(0, len(lines), resume(lines))]:
        part = lines[:cut]
        taken_back = {uuid for uuid, why in found.report.removed.items() if why == "rewound"}
        part = [line for line in part if line.get("uuid") not in taken_back]
        assert plain(found.messages, without=attached(found, part)) == naive(part)
        assert found.report.ignored == ()
        assert found.report.orphans == ()


NEWER = {  # how later versions tie kept messages to a boundary, and what the next line hangs on
    "segment, next line behind the kept ones": ("preservedSegment", "tail"),
    "listed, next line behind the summary": ("preservedMessages", "summary"),
}


def newer(lines, start, cut, *, key, link):
    """The stretch as a later version would have written it: the newest response kept, a file attached.

    Returns:
        All lines up to `cut`, and the lines of the context in its order.
    """
    before = [line for line in lines[:start] if line["type"] in ("user", "assistant")]
    before = [line for line in before if not line.get("isSidechain") and not synthetic(line)]
    newest = next(line["message"]["id"] for line in reversed(before) if "id" in line["message"])
    first = next(at for at, line in enumerate(before) if line["message"].get("id") == newest)
    kept, ids = before[first:], [line["uuid"] for line in before[first:]]
    rest = lines[start + 1 : cut]
    at = next(at for at, line in enumerate(rest) if line.get("isCompactSummary"))
    summary, following = rest[at], [dict(line) for line in rest[at + 1 :]]
    shown = {
        "filePath": "/w/a.py",
        "content": "x = 1",
        "numLines": 1,
        "startLine": 1,
        "totalLines": 1,
    }
    attached = {"type": "file", "filename": "/w/a.py", "content": {"type": "text", "file": shown}}
    file = {"type": "attachment", "uuid": f"file-{start}", "attachment": attached}
    file["parentUuid"] = summary["uuid"]
    if following:
        following[0]["parentUuid"] = ids[-1] if link == "tail" else file["uuid"]
    ends = {"headUuid": ids[0], "anchorUuid": summary["uuid"], "tailUuid": ids[-1]}
    listed = {"anchorUuid": summary["uuid"], "uuids": ids, "allUuids": ids}
    metadata = {**lines[start]["compactMetadata"], "preservedSegment": ends}
    metadata |= {"preservedMessages": listed} if key == "preservedMessages" else {}
    mark = {**lines[start], "compactMetadata": metadata}
    return [*lines[:start], mark, summary, file, *following], [mark, summary, *kept, *following]


@pytest.mark.parametrize("form", NEWER)
def test_the_same_boundaries_as_later_versions_write_them(lines, views, form):
    """None of these files keeps messages or attaches files after a boundary; their successors do."""
    key, link = NEWER[form]
    for start, cut, _ in views:
        rewritten, context = newer(lines, start, cut, key=key, link=link)
        found = resume(rewritten)
        taken_back = {uuid for uuid, why in found.report.removed.items() if why == "rewound"}
        context = [line for line in context if line.get("uuid") not in taken_back]
        texts = attached(found, rewritten)
        assert plain(found.messages, without=texts) == naive(context)
        assert sum("x = 1" in text for text in texts) == 1
        order = [uuid for source in found.sources for uuid in source]
        files, summaries = order.index(f"file-{start}"), order.index(context[1]["uuid"])
        assert summaries < order.index(context[2]["uuid"]) < files
        assert found.report.missing == ()


def test_each_boundary_is_followed_by_its_summary_and_nothing_older(lines, views):
    for start, cut, found in views:
        assert found.boundary is lines[start]
        summary = next(line for line in lines[start:] if line.get("isCompactSummary"))
        content = found.messages[0]["content"]
        first = content if isinstance(content, str) else content[0]["text"]
        assert first == summary["message"]["content"]
        here = {line.get("uuid") for line in lines[start:cut]}
        metadata = lines[start]["compactMetadata"].get("preservedMessages")
        kept = set(metadata["uuids"]) if metadata else set()
        assert {uuid for source in found.sources for uuid in source} <= here | kept
        before = [line for line in lines[:start] if line["type"] in ("user", "assistant")]
        assert {line["uuid"] for line in before} - kept <= set(found.report.removed)


def test_between_two_calls_the_view_grows_as_the_prompt_did(lines, views):
    """Characters / 4 is 20 to 50 % too low on these sessions; a view that lost or doubled something
    would be further off."""
    for start, cut, _ in views:
        talk = [n for n in range(start, cut) if lines[n]["type"] == "assistant"]
        calls = [n for n in talk if not synthetic(lines[n])]
        last = next((n for n in calls if response(lines[n]) == response(lines[calls[-1]])), 0)
        grown = prompt_tokens(lines[last]) - prompt_tokens(lines[calls[0]]) if calls else 0
        if grown:
            ends = (calls[0], last)
            rough = [core.Ledger(None, resume(lines[:n]).entries).tokens() for n in ends]
            assert 0.45 < (rough[1] - rough[0]) / grown < 1.0


def response(line):
    return line["message"]["id"]


def prompt_tokens(line):
    used = line["message"]["usage"]
    keys = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
    return sum(used.get(key) or 0 for key in keys)


def handed_over(lines, entries):
    """The lines with the user's entry in place of each that took a text from the queue, as a file gives them.

    A list is resumed as its entries say; which texts stand in the queue only is a question to the whole file.
    """
    changed = [
        at for at, (line, entry) in enumerate(zip(lines, entries, strict=True)) if line != entry
    ]
    queued = [line.get("content") for line in lines if line.get("operation") == "enqueue"]
    for at in changed:
        assert (lines[at]["type"], lines[at]["operation"]) == ("queue-operation", "remove")
        assert entries[at]["message"]["content"] in queued
        assert entries[at]["timestamp"] == lines[at]["timestamp"]
    return [entries[at] if at in changed else line for at, line in enumerate(lines)]


def test_the_file_gives_what_its_lines_give(claude_code_file, lines):
    transcript = Transcript.open(claude_code_file)
    found = transcript.conversation
    expected = resume(handed_over(lines, list(transcript.entries())))
    assert json.dumps(found.messages) == json.dumps(expected.messages)
    assert found.sources == expected.sources
    assert found.report == expected.report
    assert transcript.index.bad == []
    assert transcript.index.torn is None
    assert [transcript.rows()[at].uuid for at in transcript.boundaries] == [
        lines[at]["uuid"] for at in boundaries(lines)
    ]


def test_every_call_and_result_of_the_context_is_paired(lines):
    found = resume(lines)
    calls = []
    for message in found.messages:
        blocks = message["content"] if isinstance(message["content"], list) else []
        answered = [b["tool_use_id"] for b in blocks if b["type"] == "tool_result"]
        assert set(answered) <= set(calls)
        assert len(set(answered)) == len(answered)
        calls = [b["id"] for b in blocks if b["type"] == "tool_use"]


def test_a_resume_of_the_context_is_the_context(lines):
    found = resume(lines)
    assert resume(found.entries).messages == found.messages

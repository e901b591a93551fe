"""A compaction in the log: Claude Code's own format, and the same view again on resume (LOG-2)."""

from __future__ import annotations

import itertools
import json

import pytest

from ullage.exceptions import InvalidMessage
from ullage.transcript import Transcript, TranscriptLog, records, resume
from ullage.transcript.write import (
    KeptEntries,
    boundary_metadata,
    compaction_lines,
    session_lines,
)

NONE_KEPT = KeptEntries()
ENVELOPE = {"sessionId": "s", "cwd": "/w", "gitBranch": "main", "version": "9"}


@pytest.fixture
def log(tmp_path):
    count = itertools.count()
    with TranscriptLog.open(
        tmp_path / "s.jsonl",
        ids=lambda: f"id{next(count)}",
        clock=lambda: 0,
        envelope=ENVELOPE,
    ) as log:
        yield log


def talk(log, *numbers):
    for n in numbers:
        log.append({"role": "user", "content": f"question {n}"})
        blocks = [{"type": "tool_use", "id": f"t{n}", "name": "Bash", "input": {}}]
        log.append({"role": "assistant", "id": f"msg_{n}", "content": blocks})
        done = {"type": "tool_result", "tool_use_id": f"t{n}", "content": f"result {n}"}
        log.append({"role": "user", "content": [done]})
        said = [{"type": "text", "text": f"answer {n}"}]
        log.append({"role": "assistant", "id": f"msg_{n}b", "content": said})


def write_compaction(log, metadata, summaries, kept_entries=NONE_KEPT, attachments=()):
    """As a `ContextManager` writes one."""
    group = compaction_lines(
        log,
        metadata,
        summaries,
        parent=log.leaf,
        kept_entries=kept_entries,
        attachments=attachments,
    )
    repeated = session_lines(log.transcript(), group)
    log.write([*group, *(log.entry(line, parent=None) for line in repeated)])
    log.sync()
    return group


def kept_of(entries, **more):
    return KeptEntries(tuple(entry["uuid"] for entry in entries), **more)


def summary(content):
    return {"role": "user", "content": content}


def note(content):
    return {"type": "attachment", "attachment": {"type": "date_change", "newDate": content}}


def view(entries):
    return json.dumps(resume(entries).messages)


def flat(conversation):
    return [uuid for source in conversation.sources for uuid in source]


def test_lines_are_in_claude_codes_own_format(log):
    talk(log, 1, 2)
    last, kept = log.leaf, kept_of(log.resume().entries[-2:])
    metadata = boundary_metadata(
        "manual", 1000, post_tokens=50, messages_summarized=6, discovered_tools=["WebFetch"]
    )
    boundary, first, second, extra = write_compaction(
        log,
        metadata,
        [summary("one"), summary("two")],
        kept_entries=kept,
        attachments=[note("today")],
    )
    assert boundary["type"] == "system"
    assert boundary["subtype"] == "compact_boundary"
    assert boundary["parentUuid"] is None
    assert boundary["logicalParentUuid"] == last
    ends = {"headUuid": kept.uuids[0], "anchorUuid": second["uuid"], "tailUuid": kept.uuids[1]}
    uuids = list(kept.uuids)
    assert boundary["compactMetadata"] == {
        "trigger": "manual",
        "preTokens": 1000,
        "postTokens": 50,
        "messagesSummarized": 6,
        "preCompactDiscoveredTools": ["WebFetch"],
        "groupUuids": [first["uuid"], second["uuid"], extra["uuid"]],
        "preservedSegment": ends,
        "preservedMessages": {"anchorUuid": second["uuid"], "uuids": uuids, "allUuids": uuids},
    }
    assert first["parentUuid"] == boundary["uuid"]
    assert second["parentUuid"] == first["uuid"]
    assert extra["parentUuid"] == second["uuid"] == extra["parentUuid"]
    assert first["isCompactSummary"] is first["isVisibleInTranscriptOnly"] is True
    assert log.leaf == extra["uuid"]
    assert first.items() >= ENVELOPE.items()


@pytest.mark.parametrize("before_summary", [False, True], ids=["suffix", "prefix"])
def test_resume_gives_the_bytes_of_the_view_in_memory_again_and_again(log, before_summary):
    talk(log, 1, 2)
    for turn in range(3, 6):
        context = log.resume().entries
        part = context[:2] if before_summary else context[-2:]
        group = write_compaction(
            log,
            boundary_metadata("auto", 9),
            [summary(f"summary {turn}")],
            kept_entries=kept_of(part, before_summary=before_summary),
            attachments=[note(f"day {turn}")],
        )
        in_memory = [*context, *group]
        assert json.dumps(log.resume().messages) == view(in_memory)
        order = [e["uuid"] for e in log.resume().entries]
        uuids = [e["uuid"] for e in part]
        expected = [e["uuid"] for e in group[1:]]
        expected[1 - before_summary : 1 - before_summary] = uuids
        assert order == expected
        talk(log, turn)
        assert log.resume().report.missing == ()


def test_session_metadata_lies_in_the_last_16_kilobytes(log, tmp_path):
    log.append({"type": "custom-title", "customTitle": "old"})
    log.append({"type": "custom-title", "customTitle": "new"})
    log.append({"type": "tag", "tag": "blue"})
    log.append({"type": "file-history-snapshot", "snapshot": {}})
    talk(log, *range(200))
    write_compaction(log, boundary_metadata(), [summary("s")])
    tail = (tmp_path / "s.jsonl").read_bytes()[-16_384:].split(b"\n")[1:-1]
    found = [json.loads(line) for line in tail]
    assert [e for e in found if e["type"] == "custom-title"] == [
        {"type": "custom-title", "customTitle": "new", "sessionId": "s"}
    ]
    assert found[-1] == {"type": "tag", "tag": "blue", "sessionId": "s"}
    assert not [e for e in found if e["type"] == "file-history-snapshot"]


def test_crash_at_any_byte_leaves_the_log_before_or_after(log, tmp_path):
    path = tmp_path / "s.jsonl"
    talk(log, 1, 2)
    log.append({"type": "tag", "tag": "blue"})
    size, before = path.stat().st_size, log.resume().messages
    kept = kept_of(log.resume().entries[-2:])
    write_compaction(
        log, boundary_metadata(), [summary("s")], kept_entries=kept, attachments=[note("x")]
    )
    data, after = path.read_bytes(), log.resume().messages
    assert before != after
    seen = set()
    for cut in range(size, len(data) + 1):
        torn = tmp_path / "torn.jsonl"
        torn.write_bytes(data[:cut])
        found = resume(torn).messages
        assert found in (before, after)
        seen.add(found == after)
        if cut % 7 == 0:
            reply = {"role": "assistant", "content": [{"type": "text", "text": "next"}]}
            with TranscriptLog.open(torn) as again:
                again.append(reply)
            assert resume(torn).messages in ([*before, reply], [*after, reply])
    assert seen == {False, True}


def test_no_summary_no_compaction(log, tmp_path):
    talk(log, 1)
    before = (tmp_path / "s.jsonl").read_bytes()
    with pytest.raises(ValueError, match="needs a summary"):
        write_compaction(log, boundary_metadata(), [])
    with pytest.raises(InvalidMessage):
        write_compaction(log, boundary_metadata(), [summary("x")], attachments=[{"no": "type"}])
    assert (tmp_path / "s.jsonl").read_bytes() == before


def test_compaction_waits_for_the_disk(log, monkeypatch):
    synced = []
    monkeypatch.setattr("os.fsync", synced.append)
    talk(log, 1)
    assert synced == []
    write_compaction(log, boundary_metadata(), [summary("x")])
    assert synced


def test_entries_made_before_keep_their_uuids(log):
    talk(log, 1)
    made = {**records.compact_summary("s"), "uuid": "mine"}
    _, written = write_compaction(log, boundary_metadata(), [made])
    assert written["uuid"] == "mine"
    assert flat(log.resume()) == ["mine"]


def test_records_survive_a_resume(log, tmp_path):
    talk(log, 1, 2, 3)
    uuids = [e["uuid"] for e in log.resume().entries]
    log.append(records.content_replacement({"t1": "<persisted-output>"}))
    log.append(records.microcompact(["t2"]))
    snip = log.append(records.snip(uuids[:1], reason="old"))
    commit = records.CollapseCommit("c", "P", "<c>", "s", uuids[8], uuids[11])
    log.append(records.collapse_commit(commit))
    assert snip["parentUuid"]
    c = resume(Transcript.open(tmp_path / "s.jsonl"))
    assert c.replaced == {"t1": "<persisted-output>"}
    assert list(c.cleared) == ["t2"]
    assert c.report.removed[uuids[0]] == "snipped"
    assert [e["uuid"] for e in c.entries] == [*uuids[1:8], "P"]
    assert json.loads((tmp_path / "s.jsonl").read_bytes().splitlines()[-1])["sessionId"] == "s"

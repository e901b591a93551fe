"""Two ways to read a compacted Claude Code file find the same: along the parents, and by the boundary's list."""

from __future__ import annotations

import json
import random

import pytest

from tests.oracle.legality import assert_legal
from ullage import compact
from ullage.sessions import compact_session, open_session
from ullage.transcript import TranscriptLog

FILLER = "the parser drops the last row when the file has no line end "


class File:
    """A file as Claude Code links it: calls of one answer one after another, each result below its own call."""

    def __init__(self) -> None:
        self.lines: list[dict] = []
        self.last: str | None = None

    def put(self, role, content, parent, **more):
        uuid = f"u{len(self.lines)}"
        message = {"role": role, "content": content, **more}
        if role == "assistant":
            message["usage"] = {"input_tokens": 4_000, "output_tokens": 9}
        stamp = f"2026-01-01T00:{len(self.lines) // 60:02}:{len(self.lines) % 60:02}.000Z"
        line = {"type": role, "uuid": uuid, "parentUuid": parent, "sessionId": "s"}
        self.lines.append({**line, "timestamp": stamp, "isSidechain": False, "message": message})
        return uuid

    def talk(self, words=20):
        asked = self.put("user", f"{len(self.lines)} " + FILLER * words, self.last)
        said = [{"type": "text", "text": f"{len(self.lines)} " + FILLER * words}]
        self.last = self.put("assistant", said, asked, id=f"m{len(self.lines)}")

    def parallel(self, count):
        at, answer, calls = self.put("user", f"do {count}", self.last), f"m{len(self.lines)}", []
        for number in range(count):
            block = {"type": "tool_use", "id": f"c{len(self.lines)}", "name": "Bash"}
            block["input"] = {"command": f"ls {number}"}
            at = self.put("assistant", [block], at, id=answer)
            calls.append((at, block["id"]))
        for parent, call in calls:
            block = {"type": "tool_result", "tool_use_id": call, "content": FILLER * 4}
            self.last = self.put("user", [block], parent)

    def progress(self):
        uuid = f"u{len(self.lines)}"
        self.lines.append({"type": "system", "subtype": "turn_duration", "uuid": uuid})
        self.lines[-1] |= {"parentUuid": self.last, "content": "took 9 s", "sessionId": "s"}
        self.last = uuid

    def write(self, path):
        path.write_text("".join(json.dumps(line) + "\n" for line in self.lines))
        return path


def lines_of(path):
    return [json.loads(line) for line in path.read_bytes().splitlines() if line.strip()]


def along_parents(lines):
    """Uuids that a reader finds which walks from the newest entry up, through the preserved segment if there is one."""
    known = {line["uuid"]: line for line in lines if "uuid" in line}
    at = [line for line in lines if line["type"] in ("user", "assistant", "attachment")][-1]["uuid"]
    marks = [line for line in lines if line.get("subtype") == "compact_boundary"]
    segment = marks[-1]["compactMetadata"].get("preservedSegment") if marks else None
    summary = [line["uuid"] for line in lines if line.get("isCompactSummary")][-1]
    found = []
    if segment:  # its head is hung below the anchor, what followed the anchor below its tail
        at_tail, chain = segment["tailUuid"], []
        while at_tail:
            chain.append(at_tail)
            at_tail = at_tail != segment["headUuid"] and known[at_tail].get("parentUuid")
        found += chain
    while at and at not in found:
        found.append(at)
        at = known[at].get("parentUuid") if at in known else None
    assert summary in found
    talk = ("user", "assistant", "attachment")
    return {uuid for uuid in found if known[uuid]["type"] in talk}


def by_the_boundary(lines):
    """Uuids that a reader finds which takes the boundary's list, and what comes after the boundary."""
    place = max(at for at, line in enumerate(lines) if line.get("subtype") == "compact_boundary")
    kept = lines[place]["compactMetadata"].get("preservedMessages", {}).get("uuids", [])
    talk = ("user", "assistant", "attachment")
    return {*kept, *(line["uuid"] for line in lines[place:] if line["type"] in talk)}


def made(seed):
    rng, file = random.Random(seed), File()
    for _ in range(rng.randrange(12, 30)):
        rng.choice(
            [file.talk, file.talk, file.progress, lambda: file.parallel(rng.randrange(1, 5))]
        )()
    file.talk()
    return file


@pytest.mark.parametrize("where", ["in place", "elsewhere"])
@pytest.mark.parametrize("seed", range(12))
def test_both_ways_of_reading_find_the_same(seed, where, tmp_path):
    path = made(seed).write(tmp_path / "s.jsonl")
    target = path if where == "in place" else tmp_path / "out.jsonl"
    before = open_session(path)
    done = compact_session(before, output=target, keep=[600, 1_500, 3_000][seed % 3])
    assert done.result.compacted
    assert done.result.kept
    lines = lines_of(target)
    assert along_parents(lines) == by_the_boundary(lines)
    again = open_session(target)
    assert again.messages == done.messages
    assert {entry["uuid"] for entry in again.items} == by_the_boundary(lines)
    # Verbatim the newest part of what was there.
    kept = len(done.result.kept)
    said = [entry["message"]["content"] for entry in again.items[1 : 1 + kept]]
    assert said == [entry["message"]["content"] for entry in before.items[-kept:]]
    assert_legal("anthropic", [*again.messages, {"role": "user", "content": "go on"}])


@pytest.mark.parametrize("direction", ["full", "up_to", "from"])
@pytest.mark.parametrize("seed", range(4))
def test_a_compaction_into_an_open_log_is_read_both_ways(seed, direction, tmp_path):
    path = made(seed).write(tmp_path / "s.jsonl")
    with TranscriptLog.open(path) as log:
        before = log.resume()
        at = None if direction == "full" else len(before.entries) // 2
        keep = [600, 1_500, 3_000][seed % 3]
        done = compact(before.entries, log=log, keep=keep, direction=direction, at=at)
        assert done.compacted
        assert done.kept
        again = log.resume()
    lines = lines_of(path)
    assert along_parents(lines) == by_the_boundary(lines)
    assert len({line["uuid"] for line in lines}) == len(lines)
    assert [entry["uuid"] for entry in again.entries] == [
        entry["uuid"] for entry in done.messages[1:]
    ]
    kept = [entry["message"]["content"] for entry in done.kept]
    said = [entry["message"]["content"] for entry in before.entries]
    assert kept == (said[: len(kept)] if direction == "from" else said[-len(kept) :])
    assert not again.report.missing


@pytest.mark.parametrize("seed", range(3))
def test_usage_of_copies_is_not_taken_for_that_of_the_new_context(seed, tmp_path):
    pytest.importorskip("cyclopts")
    from ullage.cli.inspect import report_of
    from ullage.sessions import inspect_session

    path = made(seed).write(tmp_path / "s.jsonl")
    compact_session(open_session(path), output=path, keep=1_500)
    assert not report_of(inspect_session(path, model="claude-opus-4-5"))["window"]["from_usage"]
    file = [line for line in lines_of(path) if line.get("uuid")]
    assert len({line["uuid"] for line in file}) == len(file)


def test_a_kept_part_without_branches_stays_where_it_is(tmp_path):
    file = File()
    for _ in range(20):
        file.talk()
    file.progress()
    file.talk()
    path = file.write(tmp_path / "s.jsonl")
    before = len(lines_of(path))
    compact_session(open_session(path), output=path, keep=1_500)
    added = lines_of(path)[before:]
    assert [line["type"] for line in added] == ["system", "user"]
    assert added[0]["compactMetadata"]["preservedMessages"]["uuids"]


def test_a_compaction_of_copies_is_read_both_ways_too(tmp_path):
    file = made(5)
    path = file.write(tmp_path / "s.jsonl")
    compact_session(open_session(path), output=path, keep=3_000)
    file.lines = lines_of(path)
    file.last = [line for line in file.lines if line.get("uuid")][-1]["uuid"]
    for _ in range(8):
        file.talk()
        file.parallel(3)
    file.write(path)
    done = compact_session(open_session(path), output=path, keep=3_000)
    assert done.result.compacted
    lines = lines_of(path)
    assert along_parents(lines) == by_the_boundary(lines)


def test_a_session_of_another_tool_is_one_chain_as_well(tmp_path):
    lines = [{"type": "session", "id": "s1", "cwd": "/w", "timestamp": "t"}]
    for at in range(60):
        said = {"role": "user" if at % 2 == 0 else "assistant", "content": f"{at} " + FILLER * 20}
        lines.append({"type": "message", "timestamp": "t", "message": said})
    path = tmp_path / "pi.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    target = tmp_path / "out.jsonl"
    done = compact_session(open_session(path), output=target, keep=1_500, format="claude_code")
    assert done.result.kept
    written = lines_of(target)
    assert along_parents(written) == by_the_boundary(written)

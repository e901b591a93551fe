"""Every real session, replayed with session notes on: when they are updated, what they hold, and compactions without a call."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.oracle.legality import assert_legal
from ullage.counting.calibration import measure_of
from ullage.counting.window import WindowSettings
from ullage.facts import collect
from ullage.facts.words import blocks_of, is_standing
from ullage.manager import ContextManager
from ullage.memory.session import SessionMemory
from ullage.memory.session.session_memory import merged
from ullage.memory.session.template import DEFAULT_TEMPLATE, covered_end, item_key
from ullage.observe.events import SessionMemoryStarted
from ullage.policy import SessionMemoryPolicy
from ullage.sessions import open_session
from ullage.testing import ScriptedSummarizer

pytestmark = [pytest.mark.corpus, pytest.mark.slow, pytest.mark.timeout(600)]

WINDOW = WindowSettings(auto_compact_window=60_000)
"""Less than a third of the usual one: many compactions."""

POLICY = SessionMemoryPolicy(enabled=True)


class Replay:
    """One session, message by message, and the rule of SM-2 in separate words next to it."""

    def __init__(self, path: Path, folder: Path) -> None:
        opened = open_session(path)
        self.messages = opened.messages
        self.began: list[int] = []
        self.wanted: list[int] = []
        self.memory = SessionMemory(folder, mode="inline", policy=POLICY, listeners=(self._heard,))
        self.manager = ContextManager(
            model="claude-opus-4-5",
            memory=self.memory,
            summarizer=ScriptedSummarizer(),
            settings=WINDOW,
        )
        self.at, self.last, self.calls, self.first = 0, 0, 0, True

    def _heard(self, event: Any) -> None:
        if isinstance(event, SessionMemoryStarted):
            self.began.append(self.at)

    def run(self):
        for at, message in enumerate(self.messages):
            self.at = at
            if message["role"] != "assistant":
                self.manager.add(message)
                continue
            self.manager.observe(message)
            self._expect(message)
            if self.manager.decide().compact:
                found = self._compacted()
                if found[2].compaction is not None:  # the levels before may have made enough room
                    yield found

    def _expect(self, message: Any) -> None:
        tokens = self.manager.usage().tokens
        used = sum(block["type"] in ("tool_use", "server_tool_use") for block in blocks_of(message))
        self.calls += used
        grown = tokens >= self.last + 5_000 and (self.calls >= 3 or used == 0)
        if (tokens >= 10_000) if self.first else grown:
            self.wanted.append(self.at)
            self.first, self.last, self.calls = False, tokens, 0

    def _compacted(self):
        before = list(self.manager.machine.view.messages)
        pointer = covered_end(before, self._covered())
        asked = self.manager.host.summarizer.calls
        request = self.manager.prepare()
        if request.compaction is not None and request.compaction.compacted:
            self.last = self.manager.usage().tokens
        return before, pointer, request, self.manager.host.summarizer.calls - asked

    def _covered(self) -> str:
        return self.memory.state([]).covered


@pytest.fixture
def replay(corpus_file: Path, tmp_path: Path) -> Replay:
    return Replay(corpus_file, tmp_path / "session-memory")


def tool_ids(items: list[Any], kind: str, key: str) -> set[str]:
    return {b[key] for item in items for b in blocks_of(item) if b.get("type") == kind}


def check_compaction(before: list[Any], pointer: int | None, request: Any, calls: int) -> bool:
    result = request.compaction
    if result.report.summarizer != "session_memory":
        return False
    assert calls == 0
    assert result.report.attempts == 0
    kept, removed = list(result.report.kept), list(result.report.removed)
    assert sorted(removed + kept) == list(range(len(before)))
    # What a host put there to stand (HOST-1) is kept out of what the notes replace, the same object ahead of them.
    ahead = {id(item) for item in result.summary_messages}
    standing = [at for at in kept if at < removed[-1]]
    assert all(id(before[at]) in ahead and is_standing(before[at]) for at in standing)
    newest = kept[len(standing) :]
    # The same objects, but for results that a level shortened before: their names stay.
    pairs = list(zip(result.kept, newest, strict=True))
    assert all(item is before[at] or item_key(item) == item_key(before[at]) for item, at in pairs)
    # The notes stand for nothing that they have not absorbed.
    assert removed[-1] < pointer
    if not any(b.get("type") == "foreign" for item in request.messages for b in blocks_of(item)):
        assert_legal("anthropic", request.messages, model="claude-opus-4-5", window=0)
    return True


def test_replay_with_session_memory(replay):
    by_notes = compactions = 0
    passed: list[str] = []
    for before, pointer, request, calls in replay.run():
        compactions += 1
        if pointer is not None:
            # No result after the pointer answers a call before it.
            answered = tool_ids(before[pointer:], "tool_result", "tool_use_id")
            assert not answered & tool_ids(before[:pointer], "tool_use", "id")
        passed += [w for w in request.compaction.report.warnings if w.startswith("session_memory")]
        by_notes += check_compaction(before, pointer, request, calls)
    assert replay.began == replay.wanted
    assert not [
        r for r in replay.memory.reports if not r.absorbed_all and r.reason != "nothing new"
    ]
    print(f"{compactions} compactions, {by_notes} by notes, {len(replay.began)} updates, {passed}")


def test_the_notes_hold_exactly_what_the_pointer_says(replay):
    for _ in replay.run():
        pass
    history = replay.manager.history
    end = covered_end(history, replay._covered())
    if end is None:
        assert not replay.memory.path.exists()
        return
    fresh = merged(
        DEFAULT_TEMPLATE,
        collect(history[:end]),
        generated={},
        removed=(),
        section_tokens=POLICY.section_max_tokens,
        total_tokens=POLICY.total_max_tokens,
        measure=measure_of(None),
    )
    assert replay.memory.notes() == fresh.text

"""Session notes under any order of work, updates, compactions, edits by hand and crashes: nothing lost, nothing crossed."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from tests.oracle.legality import assert_legal
from ullage.compaction import compact
from ullage.facts.words import text_of
from ullage.memory.session import SessionMemory
from ullage.memory.session.notes_folder import NotesFolder
from ullage.memory.session.template import parse_notes, skeleton

FILLER = "The build prints many lines that nobody needs to see again. "


class Crash(Exception):
    """The process ends here."""


class Dying(NotesFolder):
    """A folder whose writer dies before or between its writes."""

    def __init__(self, path: Path, at: str) -> None:
        super().__init__(path)
        self._at = at

    def commit(self, text: str, **more: Any) -> bool:
        if self._at == "commit":
            raise Crash
        return super().commit(text, **more)

    def save(self, data: bytes, **more: Any) -> None:
        if self._at == "save":
            raise Crash
        super().save(data, **more)


class OneSession:
    """A conversation with its notes; each word that was said is known."""

    def __init__(self, folder: Path, name: str) -> None:
        self.folder, self.name = folder, name
        self.memory = SessionMemory(folder, session_id=name, mode="inline")
        self.items: list[dict[str, Any]] = []
        self.words: list[str] = []
        self.remarks: list[str] = []
        self.calls = 0

    def work(self, rounds: int) -> None:
        for _ in range(rounds):
            self.calls += 1
            word = f"{self.name}word{len(self.words)}."
            self.words.append(word)
            call = {
                "type": "tool_use",
                "id": f"{self.name}{self.calls}",
                "name": "Bash",
                "input": {"command": f"make {self.calls}"},
            }
            result = {"type": "tool_result", "tool_use_id": call["id"], "content": FILLER * 12}
            self.items += [
                {"role": "user", "content": f"Please mind {word}"},
                {"role": "assistant", "content": [call]},
                {"role": "user", "content": [result]},
                {"role": "assistant", "content": f"Done with number {self.calls}."},
            ]

    def remark(self) -> None:
        notes = self.memory.notes()
        if notes:
            remark = f"By hand: {self.name}remark{len(self.remarks)}."
            self.remarks.append(remark)
            about = parse_notes(notes)[7].about
            self.memory.path.write_text(notes.replace(about, f"{about}\n{remark}", 1))


class Sessions(RuleBasedStateMachine):
    @initialize()
    def begin(self) -> None:
        self._folder = tempfile.TemporaryDirectory()
        root = Path(self._folder.name)
        self.all = [OneSession(root / name / "session-memory", name) for name in ("ann", "bob")]

    def teardown(self) -> None:
        self._folder.cleanup()

    @rule(who=st.integers(0, 1), rounds=st.integers(1, 12))
    def work(self, who: int, rounds: int) -> None:
        self.all[who].work(rounds)

    @rule(who=st.integers(0, 1), waiting=st.booleans())
    def update(self, who: int, waiting: bool) -> None:
        session = self.all[who]
        if session.items:
            # With a call that waits, or without.
            session.memory.update(session.items[: len(session.items) - 2 * waiting])

    @rule(who=st.integers(0, 1), at=st.sampled_from(["commit", "save"]))
    def die(self, who: int, at: str) -> None:
        session = self.all[who]
        dying = SessionMemory(Dying(session.folder, at), session_id=session.name, mode="inline")
        try:
            dying.update(session.items)
        except Crash:
            pass

    @rule(who=st.integers(0, 1))
    def resume(self, who: int) -> None:
        session = self.all[who]
        session.memory = SessionMemory(session.folder, session_id=session.name, mode="inline")

    @rule(who=st.integers(0, 1))
    def wrong_session(self, who: int) -> None:
        other = SessionMemory(self.all[who].folder, session_id="carl", mode="inline")
        if self.all[who].memory.notes():
            assert not other.update([{"role": "user", "content": "carlword"}]).absorbed_all

    @rule(who=st.integers(0, 1))
    def edit_by_hand(self, who: int) -> None:
        self.all[who].remark()

    @rule(who=st.integers(0, 1), keep=st.sampled_from([0, 500, 3_000]), with_notes=st.booleans())
    def compact(self, who: int, keep: int, with_notes: bool) -> None:
        session = self.all[who]
        memory = session.memory if with_notes else None
        if not session.items:
            return
        result = compact(session.items, memory=memory, keep=keep)
        if result.compacted:
            kept = list(result.report.kept)
            assert all(a is session.items[at] for a, at in zip(result.kept, kept, strict=True))
            assert [*result.report.removed, *kept] == list(range(len(session.items)))
            session.items = list(result.messages)
            assert_legal("anthropic", session.items, model="claude-opus-4-5", window=0)

    @invariant()
    def nothing_is_lost_and_nothing_crosses(self) -> None:
        for session, other in (self.all, self.all[::-1]) if hasattr(self, "all") else ():
            context = "\n".join(map(text_of, session.items))
            assert [word for word in session.words if word not in context] == []
            notes = session.memory.notes()
            assert [remark for remark in session.remarks if remark not in notes] == []
            for text in (context, notes):
                assert other.name not in text
                assert "carl" not in text
            if notes:
                assert skeleton(notes)[1]
                assert len(skeleton(notes)[0]) == 10


TestSessions = Sessions.TestCase
TestSessions.settings = settings(
    max_examples=15,
    stateful_step_count=15,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)

"""Who may speak where (A01, A11, A12, A29)."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ullage._reference.digest import BlockFlag, BlockKind, MessageFlag, Role
from ullage._reference.rules.facts import Facts
from ullage._reference.rules.findings import Findings
from ullage._reference.rules.view import View

__all__ = ["Placement"]

MAX_MESSAGES = 100_000


@dataclass(slots=True)
class Placement:
    """The last turn that counts, and the system message that waits for what follows it."""

    messages: int = 0
    role: int = Role.NONE
    last: int = -1  # index of the last message that is no system message
    system: int = -1  # first system message of the run that is last, -1: none is last
    after_server_result: bool = False  # the last assistant block is a server tool's result
    trailing_space: bool = False
    uneven: int = -1  # first place where roles do not alternate
    uneven_places: int = 0

    def copy(self) -> Placement:
        return replace(self)

    def feed(self, index: int, role: int, view: View, facts: Facts, out: Findings) -> None:
        self.messages += 1
        if view.message.flags & MessageFlag.OPENAI_CHAT and role != Role.TOOL:
            out.error("A01", index, -1, "message of the chat form")
        if role == Role.SYSTEM:
            self._system(index, view, facts, out)
            return
        if role not in (Role.USER, Role.ASSISTANT):
            out.error("A01", index, -1, "role is not user, assistant or system")
            return
        if self.system >= 0 and role == Role.USER:
            out.error("A12", self.system, -1, "system message is followed by a user message")
        self._alternation(index, role)
        self.role, self.system, self.last = role, -1, index
        last = view.blocks[-1] if view.blocks else None
        self.after_server_result = last is not None and last.kind == BlockKind.SERVER_TOOL_RESULT
        self.trailing_space = last is not None and bool(last.flags & BlockFlag.TRAILING_SPACE)

    def _alternation(self, index: int, role: int) -> None:
        first_assistant = self.role == Role.NONE and role == Role.ASSISTANT
        if first_assistant or (self.role == role and self.system < 0):
            self.uneven = index if self.uneven < 0 else self.uneven
            self.uneven_places += 1

    def _system(self, index: int, view: View, facts: Facts, out: Findings) -> None:
        flags = view.message.flags
        empty = bool(flags & MessageFlag.EMPTY_CONTENT)
        if flags & MessageFlag.OUTPUT_CONFIG and empty:
            return  # sets the effort only: may stand anywhere
        if empty:
            out.error("A12", index, -1, "system message with neither content nor output_config")
        elif not facts.mid_system_ok:
            out.error(
                "A12", index, -1, "the model takes no system messages inside the conversation"
            )
        elif self.system < 0 and self.role == Role.NONE:
            out.error("A12", index, -1, "system message is first")
        elif self.system < 0 and self.role == Role.ASSISTANT and not self.after_server_result:
            out.error("A12", index, -1, "system message follows an assistant message")
        self.system = index if self.system < 0 else self.system

    def finish(self, facts: Facts, out: Findings) -> None:
        if self.messages == 0:
            out.error("A01", -1, -1, "there is no message")
        if self.messages > MAX_MESSAGES:
            out.error("A01", -1, -1, f"{self.messages} messages, the limit is {MAX_MESSAGES}")
        if self.role == Role.ASSISTANT and self.system < 0:
            self._last_word(facts, out)
        if self.uneven >= 0:
            report = out.error if facts.alternation else out.warning
            report(
                "A29",
                self.uneven,
                -1,
                f"roles do not alternate from user in {self.uneven_places} places",
            )

    def _last_word(self, facts: Facts, out: Findings) -> None:
        if facts.resume in ("pause_turn", "compaction"):
            return
        if not facts.prefill_ok:
            out.error("A11", self.last, -1, "the last message is an assistant message")
        elif self.trailing_space:
            out.error("A11", self.last, -1, "the last assistant message ends in white space")

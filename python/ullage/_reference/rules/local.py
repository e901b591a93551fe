"""Local servers and strict clones: what chat templates enforce (L01 to L03, O10)."""

from __future__ import annotations

from dataclasses import dataclass

from ullage._reference.digest import MessageFlag, Role
from ullage._reference.rules.findings import Findings
from ullage._reference.rules.view import View

__all__ = ["Local"]


@dataclass(slots=True)
class Local:
    """Who spoke last. Templates that know tools take anyone after a tool message."""

    speaker: int = Role.NONE
    started: bool = False
    last: int = -1

    def feed(self, index: int, view: View, local: bool, out: Findings) -> None:
        """`local` files under L01 and L02, else all is O10."""
        role = view.message.role
        if role == Role.SYSTEM and self.started:
            out.error(
                "L01" if local else "O10", index, -1, "system message is not the only first one"
            )
        if role in (Role.USER, Role.ASSISTANT):
            self._alternation(index, role, "L02" if local else "O10", out)
        flags = view.message.flags
        null = flags & MessageFlag.EMPTY_CONTENT and not flags & MessageFlag.STRING_CONTENT
        if not local and role == Role.ASSISTANT and null:
            out.error("O10", index, -1, "assistant content is null")
        self.started = True
        if role != Role.SYSTEM:
            self.speaker, self.last = role, index

    def _alternation(self, index: int, role: int, rule: str, out: Findings) -> None:
        if self.speaker == Role.NONE and role == Role.ASSISTANT:
            out.error(rule, index, -1, "the first message is not the user's")
        elif self.speaker == role:
            out.error(rule, index, -1, "two messages of one side in a row")

    def finish(self, out: Findings) -> None:
        if self.last >= 0 and self.speaker not in (Role.USER, Role.TOOL):
            out.error("L03", self.last, -1, "the last message is neither user nor tool")

"""Mistral: what it asks beyond the chat form (M02 to M05)."""

from __future__ import annotations

from dataclasses import dataclass

from ullage._reference.digest import MessageFlag, Role
from ullage._reference.rules.findings import Findings, short
from ullage._reference.rules.view import View

__all__ = ["Mistral", "mistral_call"]

ID_CHARS = 9


@dataclass(slots=True)
class Mistral:
    """The role before, and whether anyone but the system has spoken."""

    role: int = Role.NONE
    last: int = -1
    prefix: bool = False

    def feed(self, index: int, view: View, out: Findings) -> None:
        role = view.message.role
        if self.role == Role.TOOL and role not in (Role.ASSISTANT, Role.TOOL):
            out.error("M02", index, -1, "only assistant or tool may follow a tool message")
        if role == Role.SYSTEM and self.role != Role.NONE:
            out.error("M05", index, -1, "system message is not the only first one")
        self.role, self.last = role, index
        self.prefix = bool(view.message.flags & MessageFlag.PREFIX)

    def finish(self, out: Findings) -> None:
        if self.last >= 0 and self.role not in (Role.USER, Role.TOOL) and not self.prefix:
            out.error(
                "M04", self.last, -1, "the last message is neither user nor tool nor a prefix"
            )


def mistral_call(index: int, position: int, name: str, out: Findings) -> None:
    """M03: exactly nine letters or digits."""
    if len(name) != ID_CHARS or not (name.isascii() and name.isalnum()):
        detail = f"tool call id {short(name)} is not 9 letters or digits"
        out.error("M03", index, position, detail)

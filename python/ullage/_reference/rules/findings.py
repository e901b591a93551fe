"""What was found so far, and what must be remembered of all messages."""

from __future__ import annotations

from ullage._engine.digests import Violation

__all__ = ["Findings", "short"]

# A hostile id can be megabytes long; a report is for reading.
SHOWN_CHARS = 64


class Findings:
    """Violations in the order of reading, with the logs that grow with the conversation.

    Everything is noted together with the message that was being read (`at`), so that the notes of
    later messages can be taken back.
    """

    def __init__(self, skip: tuple[str, ...]) -> None:
        self.at = 0
        self.skip = frozenset(skip)
        self.found: list[tuple[int, Violation]] = []
        self.calls: dict[
            int, int
        ] = {}  # string index of a tool use id -> the message it was seen in
        self.call_log: list[tuple[int, int]] = []
        self.large: list[tuple[int, int]] = []  # images over the side limit of many-image requests

    def error(self, rule: str, message: int, block: int, detail: str) -> None:
        self._note(Violation(rule, "error", message, block, detail))

    def warning(self, rule: str, message: int, block: int, detail: str) -> None:
        self._note(Violation(rule, "warning", message, block, detail))

    def _note(self, violation: Violation) -> None:
        if violation.rule not in self.skip:
            self.found.append((self.at, violation))

    def first_call(self, tool_id: int) -> bool:
        """Notes a tool use id; False if it was there before."""
        if tool_id in self.calls:
            return False
        self.calls[tool_id] = self.at
        self.call_log.append((self.at, tool_id))
        return True

    def rewind(self, index: int) -> None:
        """Takes back what was noted while message `index` and later ones were read."""
        while self.found and self.found[-1][0] >= index:
            self.found.pop()
        while self.call_log and self.call_log[-1][0] >= index:
            del self.calls[self.call_log.pop()[1]]
        while self.large and self.large[-1][0] >= index:
            self.large.pop()


def short(text: str) -> str:
    """A hostile id, cut for a report; what a terminal could take amiss shows as `?`."""
    shown = "".join(char if " " < char <= "~" else "?" for char in text[:SHOWN_CHARS])
    return shown if len(text) <= SHOWN_CHARS else f"{shown}..."

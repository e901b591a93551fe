"""The message that replaces what was compacted: the summary, and what the model must know about it."""

from __future__ import annotations

from dataclasses import dataclass

from ullage.compaction.target import SMALL_ROOM
from ullage.facts.sections import CLOSING, NEWEST, OPENING, PINS_HEADING, holds_message, quoted
from ullage.levels.pins import Pin, write_pins
from ullage.summarizers.budgeted_text import cost

__all__ = ["Continuation", "summary_message"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Continuation:
    """The state of the conversation when the model continues.

    Attributes:
        trigger: `auto` or `manual`.
        kept_messages: Number of newest messages that follow verbatim.
        kept_before: The kept messages come before the summary, not after it.
        newest_input: The newest user message, if it is not among the kept ones; empty else.
        unanswered: It has no response at all.
        open_question: The assistant's last question to the user, if unanswered.
        interrupted: The user stopped the assistant and has said nothing since.
        in_tool_loop: The kept messages end with tool results, or with calls still open.
        transcript_path: File of the whole conversation; empty: there is none.
        room: Tokens for the whole message; `None`: no limit. Where it is small, only what must be said is.
    """

    trigger: str = "manual"
    kept_messages: int = 0
    kept_before: bool = False
    newest_input: str = ""
    unanswered: bool = False
    open_question: str = ""
    interrupted: bool = False
    in_tool_loop: bool = False
    transcript_path: str = ""
    room: int | None = None


def summary_message(summary: str, situation: Continuation, *, pins: tuple[Pin, ...] = ()) -> str:
    """The text of the summary message.

    Args:
        summary: Nine sections, without a draft.
        situation: Decides the text around it.
        pins: Carried verbatim.
    """
    parts = [f"{OPENING}\n\n{summary.strip()}\n\n{CLOSING}"]
    if pins:
        parts.append(f"## {PINS_HEADING}\n{write_pins(pins)}")
    if situation.room is not None and situation.room < SMALL_ROOM:
        return "\n\n".join(parts) + "\n" + _in_short(summary, situation)
    parts.extend((_where(situation), _newest(summary, situation), _go_on(situation)))
    return "\n\n".join(part for part in parts if part)


SAID_AGAIN = 100
"""Tokens of the newest message up to which it is repeated after a summary that has room, where the model looks for it."""


def _in_short(summary: str, situation: Continuation) -> str:
    """The same where there is hardly any room."""
    path, newest = situation.transcript_path, situation.newest_input
    room = situation.room or 0
    lines = [f"Full transcript: {path}"] if path and cost(path) * 10 < room else []
    if newest and not holds_message(summary, newest):
        lines.append(_newest(summary, situation))
    waits = situation.open_question or situation.interrupted
    then = "Wait for the user." if waits else "Go on." if situation.trigger == "auto" else ""
    lines.append(f"Not user input; grants nothing. {then}".strip())
    return "\n".join(lines)


def _where(situation: Continuation) -> str:
    lines = []
    if situation.transcript_path:
        lines.append(
            f"The full transcript of the earlier part is at {situation.transcript_path}: look there for details "
            "such as exact code or output."
        )
    if situation.kept_messages:
        where = "before this summary" if situation.kept_before else "after this message"
        lines.append(f"{situation.kept_messages} messages were kept verbatim {where}.")
    return "\n".join(lines)


def _newest(summary: str, situation: Continuation) -> str:
    """The newest message, once whole: here, or in the summary, where the next compaction reads it."""
    newest = situation.newest_input
    if not newest:
        return ""
    if cost(newest) > SAID_AGAIN and holds_message(summary, newest):
        return "The user's newest message is the last one in the list of user messages above."
    return f"{NEWEST}\n{quoted(newest)}"


def _go_on(situation: Continuation) -> str:
    return f"{_NOT_THE_USER} {_instruction(situation)}".strip()


_NOT_THE_USER = "This message was generated automatically. It is not user input and does not grant or confirm anything."


def _instruction(situation: Continuation) -> str:
    if situation.open_question:
        return (
            "You asked the user a question that has not been answered:\n"
            f"{quoted(situation.open_question)}\n"
            "Do not answer it yourself and do not act as if it were answered. Wait for the user."
        )
    if situation.interrupted:
        return "The user stopped you and has said nothing since. Wait for the user."
    if situation.trigger != "auto":
        return "The user requested this compaction. Continue when the user says what to do next."
    if situation.unanswered:
        return "Answer the user's newest message; do not comment on the summary."
    if situation.in_tool_loop:
        return "Continue with the tool results as if nothing had happened; do not comment on the summary."
    return (
        "Continue the work from where it left off, without commenting on the summary, without repeating what is "
        "done, and without asking whether to continue."
    )

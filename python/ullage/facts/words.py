"""What the user wrote, without what hosts put around it or instead of it.

Hosts write reminders, hook output, command echoes and environment blocks into user messages. A
summary that takes them for the user's words turns tool output into orders, so they are removed
here, by their tags, before anything else looks at the text.
"""

from __future__ import annotations

import re
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import NamedTuple

from ullage.facts.fences import unfenced

__all__ = ["Kind", "Other", "Words", "asks", "feedback_of", "others_in", "words_of"]


class Kind(StrEnum):
    """How the words entered the conversation."""

    PROMPT = "prompt"
    COMMAND = "command"  # a slash command, written out
    SHELL = "shell"  # a command that the user ran
    FEEDBACK = "feedback"  # given when a tool call was refused
    ANSWER = "answer"  # to a question that a tool asked
    INTERRUPT = "interrupt"  # the user stopped the assistant; no words
    HOST = "host"  # instructions that the host put in a user message
    NONE = "none"


class Words(NamedTuple):
    """The user's words and their kind; `text` is empty for `INTERRUPT` and `NONE`."""

    text: str
    kind: Kind


class Other(NamedTuple):
    """What others said in the user's role: a teammate, a sub-agent, a channel."""

    who: str
    text: str


_INTERRUPTED = "[Request interrupted by user"


class _Hosts(NamedTuple):
    """What hosts write, from `hosts.toml`."""

    tag: re.Pattern[str]
    unwrapped: tuple[str, ...]
    openings: tuple[str, ...]
    screen_commands: frozenset[str]


@cache
def _hosts() -> _Hosts:
    import tomllib

    data = tomllib.loads(Path(__file__).with_name("hosts.toml").read_text(encoding="utf-8"))
    removed = "|".join(re.escape(tag) for tag in data["removed"])
    return _Hosts(
        re.compile(rf"<({removed})(?:\s[^<>]*)?>"),
        tuple(data["unwrapped"]),
        tuple(data["openings"]),
        frozenset(data["screen_commands"]),
    )


def words_of(text: str) -> Words:
    """The user's words in the text of a user message."""
    if not text:
        return Words("", Kind.NONE)
    if text.lstrip().startswith(_hosts().openings):
        return Words(text.strip(), Kind.HOST)
    if "<" not in text:
        return _said(text.strip())
    command = _element(text, "command-name")
    if command is not None:
        return _command(command, _element(text, "command-args") or "")
    shell = _element(text, "bash-input")
    if shell is not None:
        return Words("! " + shell, Kind.SHELL)
    return _said(_unwrapped(_apart(_without_injected(text))[0]).strip())


def _said(rest: str) -> Words:
    if rest.startswith(_INTERRUPTED):
        return Words("", Kind.INTERRUPT)
    return Words(rest, Kind.PROMPT if rest else Kind.NONE)


def _command(name: str, arguments: str) -> Words:
    name = name if name.startswith("/") else "/" + name
    if name in _hosts().screen_commands:
        return Words("", Kind.NONE)
    return Words(f"{name} {arguments}".strip(), Kind.COMMAND)


def _element(text: str, tag: str) -> str | None:
    start = text.find(f"<{tag}>")
    if start < 0:
        return None
    end = text.find(f"</{tag}>", start)
    return text[start + len(tag) + 2 : end].strip() if end >= 0 else None


def _without_injected(text: str) -> str:
    """Linear even for thousands of tags that never close."""
    kept: list[str] = []
    unclosed: set[str] = set()
    position = 0
    for match in _hosts().tag.finditer(text):
        tag = match[1]
        if match.start() < position or tag in unclosed:
            continue
        end = text.find(f"</{tag}>", match.end())
        if end < 0:
            unclosed.add(tag)
            continue
        kept.append(text[position : match.start()])
        position = end + len(tag) + 3
    kept.append(text[position:])
    return "".join(kept)


_OTHERS = re.compile(
    r"<((?:teammate|agent|sub[-_]?agent|peer|worker|team|task|session|cross[-_]session|inter[-_]agent|channel|bot|a2a)[-_]"
    r"(?:message|notification)(?=[\s>])|(?:channel|peer|teammate)(?=\s))(\s[^<>]{0,400})?>"
)
"""Elements in which hosts pass on what other agents, sessions and channels said."""
_WHO = re.compile(
    r"""\b(?:[a-z]{1,20}[-_]?id|from|name|sender|agent|source)=["']([^"'<>\n]{1,80})["']"""
)


def others_in(text: str) -> list[Other]:
    """What others say in the text of a user message; it is data, not the user's words."""
    if "<" not in text:
        return []
    return _apart(text)[1]


def _apart(text: str) -> tuple[str, list[Other]]:
    """The user's part and the others'; an element that opens the text and never closes takes all of it."""
    kept: list[str] = []
    others: list[Other] = []
    unclosed: set[str] = set()
    position = 0
    for match in _OTHERS.finditer(text):
        tag = match[1]
        if match.start() < position or tag in unclosed:
            continue
        end = text.find(f"</{tag}>", match.end())
        if end < 0 and text[: match.start()].strip():
            unclosed.add(tag)
            continue
        end = len(text) if end < 0 else end
        named = _WHO.search(match[2] or "")
        others.append(Other(f"{tag} {named[1]}" if named else tag, text[match.end() : end].strip()))
        kept.append(text[position : match.start()])
        position = end + len(tag) + 3
    kept.append(text[position:])
    return "".join(kept), others


def _unwrapped(text: str) -> str:
    stripped = text.strip()
    for tag in _hosts().unwrapped:
        if stripped.startswith(f"<{tag}>"):
            return stripped.replace(f"<{tag}>", "", 1).replace(f"</{tag}>", "", 1)
    return text


_REFUSED = re.compile(
    r"the user (?:said|provided the following (?:reason|feedback)[^:\n]{0,60})\s*:\s*",
    re.IGNORECASE,
)


def feedback_of(result: str) -> str:
    """The user's words in the result of a call that they refused; empty if there are none."""
    match = _REFUSED.search(result[:2000])
    return _without_injected(result[match.end() :]).strip() if match else ""


_QUESTION_MARKS = "?？؟\u037e՞፧⁇⁈⸮"
_ANY_MARK = re.compile(f"[{_QUESTION_MARKS}]")
_CLOSERS = " \t*_`\"'”’»)]}）】」』."
_LAST_LINES = 4


def asks(text: str) -> str:
    """The question at the end of a text, verbatim; empty if there is none.

    A question mark of any script counts, at the end of one of the last four lines outside code, so
    that a list of choices under a question does not hide it.
    """
    end = text[-8000:]
    if "?" not in end and (end.isascii() or not _ANY_MARK.search(end)):
        return ""
    lines = [line.strip() for line in unfenced(end).splitlines() if line.strip()]
    newest = lines[-_LAST_LINES:]
    for place, line in enumerate(newest):
        bare = line.rstrip(_CLOSERS)
        if bare and bare[-1] in _QUESTION_MARKS:
            return "\n".join(newest[place:])
        if any(mark in line for mark in "?？؟") and place == len(newest) - 1:
            return line if re.search(r"[?？؟](?:[\s*_)”\"']|$)", line) else ""
    return ""

"""What the user wrote, without what hosts put around it or instead of it.

Hosts write reminders, hook output, command echoes, project instructions and environment blocks into user messages. A
summary that takes them for the user's words turns tool output into orders, so they are split off
here, by their tags and first words, before anything else looks at the text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import StrEnum
from functools import cache
from itertools import pairwise
from typing import NamedTuple

from ullage._late import pathlib, pattern
from ullage.facts.fences import unfenced

__all__ = [
    "OPENERS",
    "Kind",
    "Other",
    "Piece",
    "Words",
    "asks",
    "feedback_of",
    "is_command",
    "is_launch",
    "notified",
    "others_in",
    "own_text",
    "pieces_of",
    "standing_parts",
    "words_of",
]


class Kind(StrEnum):
    """How the words entered the conversation."""

    PROMPT = "prompt"
    COMMAND = "command"  # a slash command, written out
    SHELL = "shell"  # a command that the user ran
    FEEDBACK = "feedback"  # given when a tool call was refused
    ANSWER = "answer"  # to a question that a tool asked
    INTERRUPT = "interrupt"  # the user stopped the assistant; no words
    HOST = "host"  # nothing but what the host put there to stand
    NONE = "none"


class Words(NamedTuple):
    """The user's words and their kind; `text` is empty for `INTERRUPT` and `NONE`."""

    text: str
    kind: Kind


class Other(NamedTuple):
    """What others said in the user's role: a teammate, a sub-agent, a channel; `call`: id of the call that this answers."""

    who: str
    text: str
    call: str = ""


_INTERRUPTED = "[Request interrupted by user"


class Piece(NamedTuple):
    """A part of a user message's text.

    `about`: what a text stands for that the host put there to stand, such as the project's instructions.
    """

    text: str
    host: bool  # the host wrote it, for the moment or to stand
    about: frozenset[str] = frozenset()


class _Part(NamedTuple):
    """How a part begins that hosts write to stand; see `hosts.toml`."""

    about: str
    lists: bool
    first: bool


class _Hosts(NamedTuple):
    """What hosts write, from `hosts.toml`."""

    tag: re.Pattern[str]
    parts: dict[str, _Part]  # by their first words
    part: re.Pattern[str]
    whole: tuple[str, ...]
    standing: frozenset[str]
    expansion: re.Pattern[str]
    launches: tuple[str, ...]
    unwrapped: tuple[str, ...]
    screen_commands: frozenset[str]


@cache
def _hosts() -> _Hosts:
    import tomllib

    data = tomllib.loads(pathlib.Path(__file__).with_name("hosts.toml").read_text(encoding="utf-8"))
    tags = "|".join(re.escape(tag) for tag in (*data["passing"], *data["standing"]))
    parts = {
        words: _Part(row["about"], bool(row.get("lists")), bool(row.get("first")))
        for row in data["parts"]
        for words in row["opens"]
    }
    return _Hosts(
        re.compile(rf"<({tags})(?:\s[^<>]*)?>"),
        parts,
        re.compile(rf"^(?:{'|'.join(map(re.escape, parts))})", re.MULTILINE),
        tuple(words for row in data["parts"] if row.get("whole") for words in row["opens"]),
        frozenset(data["standing"]),
        re.compile(rf"(?:{'|'.join(data['expansions'])})"),
        tuple(data["launches"]),
        tuple(data["unwrapped"]),
        frozenset(data["screen_commands"]),
    )


def words_of(text: str) -> Words:
    """The user's words in the text of a user message."""
    if not text:
        return Words("", Kind.NONE)
    if "<" not in text and not text.lstrip().startswith(OPENERS):
        return _said(_without_ends(text))
    pieces = list(pieces_of(text))
    own = "".join(piece.text for piece in pieces if not piece.host)
    if own.strip():
        return _typed(own)
    standing = [piece.text for piece in pieces if piece.about]
    return Words("\n\n".join(standing), Kind.HOST) if standing else Words("", Kind.NONE)


OPENERS = ("<", "#", "[", "Base")
"""Texts of hosts begin so; most texts of users do not, and are not looked into."""


def _typed(own: str) -> Words:
    """The words in what hosts did not write: a command's frame and what was typed with it, a shell command, a text."""
    framed = dict.fromkeys(match[1] for match in _FRAME.finditer(own))
    if not framed:
        return _said(_without_ends(_unwrapped(_apart(own)[0])))
    if "bash-input" in framed:
        done = Words("! " + (_element(own, "bash-input") or ""), Kind.SHELL)
    else:
        done = _command(_element(own, "command-name") or "", _element(own, "command-args") or "")
    rest = _said(_unwrapped(_apart(_FRAME.sub("", own))[0]).strip()).text
    return Words(f"{done.text}\n\n{rest}".strip(), Kind.PROMPT) if rest else done


_FRAME = pattern(
    r"(?:^[ \t]*|(?<=>))<(command-name|command-args|bash-input)>.*?</\1>", re.DOTALL | re.MULTILINE
)
"""What clients write for a command: elements that begin a line, or follow one another."""


def is_command(text: str) -> bool:
    """Whether a block is nothing but a command whose text the host writes out in the next block."""
    name = _element(text, "command-name")
    if name is None or words_of(text).kind is not Kind.COMMAND:
        return False
    return f"/{name.removeprefix('/')}" not in _hosts().screen_commands


def pieces_of(text: str) -> Iterator[Piece]:
    """The pieces of a text in their order: what a host put before, after or on lines of its own within it, and the rest.

    What stands is only at the two ends: what a user pastes amid other words stays the user's, or passes.
    """
    start, stop = 0, len(text.rstrip())
    while (found := _opening(text, start, stop)) is not None:
        piece, start = found
        yield piece
    after: list[Piece] = []
    while (last := _closing(text, start, stop)) is not None:
        piece, stop = last
        after.append(piece)
    yield from _inside(text[start:stop])
    yield from reversed(after)


def _opening(text: str, start: int, stop: int) -> tuple[Piece, int] | None:
    """What a host wrote at the beginning of a text, and where it ends."""
    hosts = _hosts()
    while start < stop and text[start].isspace():
        start += 1
    if start >= stop or text[start] not in "<#[B":
        return None
    if text.startswith(hosts.whole, start):
        end = text.find("</INSTRUCTIONS>", start)
        end = stop if end < 0 else end + len("</INSTRUCTIONS>")
        return _standing(text[start:end], text[start:end]), end
    if hosts.expansion.match(text, start):
        return Piece(text[start:stop], host=True), stop
    match = hosts.tag.match(text, start)
    if match is None:
        return None
    close = f"</{match[1]}>"
    end = text.find(close, match.end(), stop)
    if end < 0:
        return None
    last = stop - len(close)
    if last > end and text.startswith(close, last):
        # A text that names its own tag: unless another element begins after the first end.
        end = end if text.find(match[0], match.end(), last) >= 0 else last
    return _element_piece(text, match, end), end + len(close)


def _closing(text: str, start: int, stop: int) -> tuple[Piece, int] | None:
    """What a host wrote on lines of its own at the end of a text, and where it begins."""
    while stop > start and text[stop - 1].isspace():
        stop -= 1
    if stop == start or text[stop - 1] != ">":
        return None
    opened = text.rfind("</", start, stop)
    tag = text[opened + 2 : stop - 1] if 0 <= stop - opened < _LONGEST_TAG else ""
    begin = text.rfind(f"<{tag}", start, opened) if tag else -1
    match = _hosts().tag.match(text, begin) if begin >= 0 else None
    if match is None or match[1] != tag:
        return None
    follows = begin == start or text[begin - 1] == ">"  # another element
    if not (follows or _begins_line(text, begin)):
        return None
    return _element_piece(text, match, opened), begin


_LONGEST_TAG = 60
_FIELD = pattern(r"^[ \t]+<(\w{1,40})", re.MULTILINE)


def _inside(text: str) -> Iterator[Piece]:
    """The rest, without elements that begin a line. Linear even for thousands of tags that never close."""
    unclosed: set[str] = set()
    position = 0
    for match in _hosts().tag.finditer(text) if "<" in text else ():
        tag, begin = match[1], match.start()
        if begin < position or tag in unclosed or not _begins_line(text, begin):
            continue
        end = text.find(f"</{tag}>", match.end())
        if end < 0:
            unclosed.add(tag)
            continue
        yield Piece(text[position:begin], host=False)
        position = end + len(tag) + 3
        yield Piece(text[begin:position], host=True)
    yield Piece(text[position:], host=False)


def _begins_line(text: str, place: int) -> bool:
    while place and text[place - 1] in " \t":
        place -= 1
    return not place or text[place - 1] == "\n"


def _element_piece(text: str, match: re.Match[str], end: int) -> Piece:
    whole = text[match.start() : end + len(match[1]) + 3]
    if match[1] in _hosts().standing:
        # Later ones of these may name only what has changed.
        fields = _FIELD.findall(whole) if match[1] == "environment_context" else ()
        about = frozenset(f"{match[1]}: {field}" for field in fields) or frozenset([match[1]])
        return Piece(whole, host=True, about=about)
    inner = text[match.end() : end].lstrip()
    return _standing(whole, inner) if _hosts().part.match(inner) else Piece(whole, host=True)


def _standing(whole: str, inner: str) -> Piece:
    return Piece(whole, host=True, about=frozenset(standing_parts(inner)) or frozenset([whole]))


def standing_parts(text: str) -> list[str]:
    """What a text is about that a host put there to stand: a name for each part, of a part that only adds to others each line.

    Args:
        text: A message of the system's role, or the inside of an element.

    Returns:
        Two texts with the same names say the same, in older and newer words; `[]`: no part is known.
    """
    hosts = _hosts()
    found = hosts.part.finditer(text)
    starts = [m.start() for m in found if not m.start() or not hosts.parts[m[0]].first]
    ends = [*starts, len(text)]
    names: list[str] = []
    for begin, end in pairwise(ends):
        part = text[begin:end]
        row = next(row for words, row in hosts.parts.items() if part.startswith(words))
        lines = [line.strip() for line in part.splitlines() if line.strip()]
        names += [f"{row.about}: {line}" for line in lines] if row.lists else [row.about]
    return names


_INDENTED = pattern(r"\s*\n(?=[ ]{4}|\t)|(?=[ ]{4}|\t)")


def _without_ends(text: str) -> str:
    """Without blanks at the ends, but for those that make the first line an indented block."""
    block = _INDENTED.match(text)
    return text[block.end() :].rstrip() if block else text.strip()


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


_OTHERS = pattern(
    r"<((?:teammate|agent|sub[-_]?agent|peer|worker|team|task|session|cross[-_]session|inter[-_]agent|channel|bot|a2a)[-_]"
    r"(?:message|notification)(?=[\s>])|(?:channel|peer|teammate)(?=\s))(\s[^<>]{0,400})?>"
)
"""Elements in which hosts pass on what other agents, sessions and channels said."""
_WHO = pattern(
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


def notified(other: Other) -> Other:
    """What a host's notification says: who ended, and the answer, without the frame around them; others as they are."""
    if not other.who.startswith("task-notification") or "<status>" not in other.text:
        return other
    answer = other.text.partition("<result>")[2].rpartition("</result>")[0].strip()
    who = _element(other.text, "summary") or other.who
    return Other(who, answer, _element(other.text, "tool-use-id") or "")


def is_launch(result: str) -> bool:
    """Whether the result of a sub-agent's call says only that it has begun: it answers later, by a notification."""
    return result.startswith(_hosts().launches)


def own_text(result: str) -> str:
    """A tool's output without the reminders that hosts add at its end."""
    if "</" not in result or not result.rstrip().endswith(">"):
        return result
    end = len(result)
    while (found := _closing(result, 0, end)) is not None:
        end = found[1]
    return result[:end].rstrip() if end < len(result) else result


def _unwrapped(text: str) -> str:
    stripped = text.strip()
    for tag in _hosts().unwrapped:
        if stripped.startswith(f"<{tag}>"):
            return stripped.replace(f"<{tag}>", "", 1).replace(f"</{tag}>", "", 1)
    return text


_REFUSED = pattern(
    r"the user (?:said|provided the following (?:reason|feedback)[^:\n]{0,60})\s*:\s*",
    re.IGNORECASE,
)


def feedback_of(result: str) -> str:
    """The user's words in the result of a call that they refused; empty if there are none."""
    match = _REFUSED.search(result[:2000])
    if not match:
        return ""
    return "".join(p.text for p in pieces_of(result[match.end() :]) if not p.host).strip()


_QUESTION_MARKS = "?？؟\u037e՞፧⁇⁈⸮"
_ANY_MARK = pattern(f"[{_QUESTION_MARKS}]")
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

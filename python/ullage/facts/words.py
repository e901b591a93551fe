"""What the user wrote, without what hosts put around it or instead of it.

Hosts write reminders, hook output, command echoes, project instructions and environment blocks into user messages. A
summary that takes them for the user's words turns tool output into orders, so they are split off
here, by their tags and first words, before anything else looks at the text.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from enum import StrEnum
from functools import cache
from itertools import pairwise
from typing import Any, TypeGuard

from ullage._start import NamedTuple, orjson, pattern, table
from ullage.facts.sections import looks_like_summary
from ullage.messages import BlockView, Item, is_summary, message_of, role_of

# Finds code fences of Markdown line by line, in linear time for any text.


_FENCE = pattern(r"[ \t]*(`{3,}|~{3,})")
_INTERRUPTED = "[Request interrupted by user"
# Texts of hosts begin so; most texts of users do not, and are not looked into.
OPENERS = ("<", "#", "[", "Base")


def unfenced(text: str, *, open_too: bool = False, gap: str = "") -> str:
    """Markdown with each fenced block replaced by a line (`gap`).

    What follows a fence that is never closed stays, since a stray mark does not open a block; with `open_too` it is left out.
    """
    if "```" not in text and "~~~" not in text:
        return text
    lines = text.split("\n")
    outside: list[str] = []
    at, unclosed = 0, {"`": len(text), "~": len(text)}
    while at < len(lines):
        mark, end = _FENCE.match(lines[at]), -1
        # Where a mark is never closed, no longer one is: so each line is looked at a few times, however many marks there are.
        if mark is not None and len(mark[1]) < unclosed[mark[1][0]]:
            end = _closes(lines, at, mark[1])
            if end < 0:
                unclosed[mark[1][0]] = len(mark[1])
        if mark is not None and end < 0 and open_too:
            break
        outside.append(lines[at] if end < 0 else gap)
        at = max(end, at) + 1
    return "\n".join(outside)


def _closes(lines: list[str], at: int, mark: str) -> int:
    """Where a block ends that this mark begins; -1: nowhere."""
    for place in range(at + 1, len(lines)):
        bare = lines[place].strip()
        if bare.startswith(mark) and not bare.strip(mark[0]):
            return place
    return -1


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


class Piece(NamedTuple):
    """A part of a user message's text."""

    text: str
    host: bool  # the host wrote it, for the moment or to stand
    about: frozenset[str] = frozenset()  # what a text stands for that a host put there to stand


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
    data = table(__file__, "hosts.toml")
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
        return _words_after_command(_without_ends(text))
    pieces = list(pieces_of(text))
    own = "".join(piece.text for piece in pieces if not piece.host)
    if own.strip():
        return _typed(own)
    standing = [piece.text for piece in pieces if piece.about]
    return Words("\n\n".join(standing), Kind.HOST) if standing else Words("", Kind.NONE)


def _typed(own: str) -> Words:
    """The words in what hosts did not write: a command's frame and what was typed with it, a shell command, a text."""
    framed = dict.fromkeys(match[1] for match in _FRAME.finditer(own))
    if not framed:
        return _words_after_command(_without_ends(_unwrapped(_apart(own)[0])))
    if "bash-input" in framed:
        done = Words("! " + (_element(own, "bash-input") or ""), Kind.SHELL)
    else:
        done = _command(_element(own, "command-name") or "", _element(own, "command-args") or "")
    words = _words_after_command(_unwrapped(_apart(_FRAME.sub("", own))[0]).strip()).text
    return Words(f"{done.text}\n\n{words}".strip(), Kind.PROMPT) if words else done


# What clients write for a command: elements that begin a line, or follow one another.
_FRAME = pattern(
    r"(?:^[ \t]*|(?<=>))<(command-name|command-args|bash-input)>.*?</\1>", re.DOTALL | re.MULTILINE
)


def is_command(text: str) -> bool:
    """Whether a block is nothing but a command whose text the host writes out in the next block."""
    name = _element(text, "command-name")
    if name is None or words_of(text).kind is not Kind.COMMAND:
        return False
    return f"/{name.removeprefix('/')}" not in _hosts().screen_commands


def pieces_of(text: str) -> Iterator[Piece]:
    """The pieces of a text in their order: what a host put before, after or on lines of its own within it, and the rest.

    What stands is only at the two ends: what a user pastes amid other words stays the user's, or passes. Linear even for thousands of tags that never close.
    """
    start, stop = 0, len(text.rstrip())
    while (opening := _opening(text, start, stop)) is not None:
        piece, start = opening
        yield piece
    after: list[Piece] = []
    while (last := _closing(text, start, stop)) is not None:
        piece, stop = last
        after.append(piece)
    inside = text[start:stop]
    unclosed: set[str] = set()
    position = 0
    for match in _hosts().tag.finditer(inside) if "<" in inside else ():
        tag, begin = match[1], match.start()
        if begin < position or tag in unclosed or not _begins_line(inside, begin):
            continue
        end = inside.find(f"</{tag}>", match.end())
        if end < 0:
            unclosed.add(tag)
            continue
        yield Piece(inside[position:begin], host=False)
        position = end + len(tag) + 3
        yield Piece(inside[begin:position], host=True)
    yield Piece(inside[position:], host=False)
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
    """What a text is about that a host put there to stand: a name for each part, of a part that only adds to others each line; `[]`: no part is known.

    Two texts with the same names say the same, in older and newer words.
    """
    hosts = _hosts()
    matches = hosts.part.finditer(text)
    starts = [m.start() for m in matches if not m.start() or not hosts.parts[m[0]].first]
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


def _words_after_command(typed: str) -> Words:
    if typed.startswith(_INTERRUPTED):
        return Words("", Kind.INTERRUPT)
    return Words(typed, Kind.PROMPT if typed else Kind.NONE)


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


# Elements in which hosts pass on what other agents, sessions and channels said.
_OTHERS = pattern(
    r"<((?:teammate|agent|sub[-_]?agent|peer|worker|team|task|session|cross[-_]session|inter[-_]agent|channel|bot|a2a)[-_]"
    r"(?:message|notification)(?=[\s>])|(?:channel|peer|teammate)(?=\s))(\s[^<>]{0,400})?>"
)
_WHO = pattern(
    r"""\b(?:[a-z]{1,20}[-_]?id|from|name|sender|agent|source)=["']([^"'<>\n]{1,80})["']"""
)


def others_in(text: str) -> list[Other]:
    """What others say in the text of a user message; it is data, not the user's words."""
    return _apart(text)[1] if "<" in text else []


def _apart(text: str) -> tuple[str, list[Other]]:
    """The user's part and the others'; an element that opens the text and never closes takes all of it."""
    lines: list[str] = []
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
        lines.append(text[position : match.start()])
        position = end + len(tag) + 3
    lines.append(text[position:])
    return "".join(lines), others


def notified(other: Other) -> Other:
    """What a host's notification says: who ended, and the answer, without the frame around them; others as they are."""
    if other.who == "subagent_notification":
        return _codex_notified(other)
    if not other.who.startswith(_NOTIFICATIONS) or "<status>" not in other.text:
        return other
    answer = other.text.partition("<result>")[2].rpartition("</result>")[0].strip()
    who = _element(other.text, "summary") or other.who
    return Other(who, answer, _element(other.text, "tool-use-id") or "")


# Claude Code's; the second until version 2.1, without the answer, which a file holds.
_NOTIFICATIONS = ("task-notification", "agent-notification")
_ENDED_WITH = pattern(r"\bexit code (\d{1,9})\)?$")


def ended_command(other: Other) -> tuple[str, int | None] | None:
    """The id and the exit code of a background command whose end the host's notification reports, `None` for the code of one that was stopped; `None`: it reports none."""
    if not other.who.startswith(_NOTIFICATIONS):
        return None
    name = _element(other.text, "task-id") or ""
    ended = _ENDED_WITH.search(_element(other.text, "summary") or "")
    if ended:
        return name, int(ended[1])
    return (name, None) if _element(other.text, "status") in ("killed", "stopped") else None


def _codex_notified(other: Other) -> Other:
    """Codex's: `{"agent_path": ID, "status": {"completed": ANSWER}}`."""
    import json  # most sessions have no such text

    try:
        read = json.loads(other.text)
        (answer,) = read["status"].values()
        agent = read.get("agent_path") or read.get("agent_id")
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return other
    if not (isinstance(answer, str) and isinstance(agent, str)):
        return other
    return Other(f"agent {agent}", answer.strip(), agent)


# All that Codex answers when a sub-agent has begun; with anything more it is an answer.
_AGENT_ID = pattern(
    r'\{"agent_id": ?"([^"\n]{1,80})"(?:, ?"nickname": ?(?:"[^"\n]{0,80}"|null))?\}\s*'
)


def launched_as(result: str) -> str:
    """The id by which a sub-agent that has begun is named later; empty: it is named by its call, or has not begun only."""
    match = _AGENT_ID.fullmatch(result)
    return match[1] if match else ""


def is_launch(result: str) -> bool:
    """Whether the result of a sub-agent's call says only that it has begun: it answers later, by a notification."""
    return result.startswith(_hosts().launches) or bool(launched_as(result))


def own_text(result: str) -> str:
    """A tool's output without the reminders that hosts add at its end."""
    if not result.rstrip().endswith(">") or "</" not in result:
        return result
    end = len(result)
    while (closing := _closing(result, 0, end)) is not None:
        end = closing[1]
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

    A question mark of any script counts, at the end of one of the last four lines outside code: a list of choices under a question does not hide it.
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


_LEAST_OFFER, _LONGEST_OFFER = 20, 300
_SENTENCE_END = pattern(r"(?<=[.!。！:])[*_)”\"']{0,3}\s+")
_PROPOSES = pattern(
    r"\b(?:next step|if you(?:['’]d)? (?:want|like|prefer|agree)|(?:i|we|you)(?:['’]d| (?:can|could|would|should|might))|could|should|would|suggest|recommend|propose|options?)\b",
    re.I,
)


def proposal(text: str) -> str:
    """The last sentence of a text outside code, verbatim, where it proposes something: what "let's do that" points at; empty: it does not, or is too short or long."""
    paragraphs = unfenced(text[-8000:]).strip().rsplit("\n\n", 1)
    lines = [line.strip() for line in paragraphs[-1].splitlines() if line.strip()]
    sentence = _SENTENCE_END.split(lines[-1])[-1].strip() if lines else ""
    fits = _LEAST_OFFER <= len(sentence) <= _LONGEST_OFFER
    return sentence if fits and _PROPOSES.search(sentence) else ""


_LISTED = pattern(
    r"^ {0,3}(?:#{1,4} *)?(?:[-*•] +)?\**(?:(\d{1,2})[.)]|[-*•](?= )) *\**(\S[^\n]*)$"
)
_POINTS_AT_ALL = pattern(
    r"\b(?:both|all of (?:them|these|those)|all (?:\d{1,2}|two|three|four|five|six|seven)(?= *(?:$|[.,;:!?]|(?:please|now|and|then|of)\b))|each of them|"
    r"(?:the|these|those|all) (?:\d{1,2} |two |three |four |five )?(?:other |open |remaining |rest of the )*(?:items|points|issues|findings|steps|places|bugs|todos|fixes|changes|problems))\b",
    re.I,
)
_POINTS_BACK = pattern(r"\b(?:this|these|that|those|it|them|all|both)\b", re.I)
_COUNTS = {
    word: number for number, word in enumerate("both three four five six seven".split(), 2)
} | {"two": 2}
_HOW_MANY = pattern(rf"\b(?:\d{{1,2}}|{'|'.join(_COUNTS)})\b", re.I)
_LONGEST_POINTER, _TITLE, _MOST_LISTED = 200, 50, 8
_SHORT_REPLY, _LEAST_LISTED = 80, 3
_MOST_AFTER = 2  # lines after a list to which "yes" answers, with the question


def pointed_at(reply: str, question: str, text: str, *, answers: bool) -> str:
    """The titles of the list in `text`, said before, at which a reply such as "fix all 5" points, or a yes to "shall I do this?".

    One a line; empty: it points at none, or at none of that length.
    """
    points = len(reply) <= _LONGEST_POINTER and _POINTS_AT_ALL.search(reply)
    if not points and not (answers and _POINTS_BACK.search(question)):
        return ""
    named = _HOW_MANY.search(points[0]) if points else None
    count = _COUNTS.get(named[0].lower(), 0) or int(named[0]) if named else 0
    lists = [rows for after, rows in _lists(text) if points or after <= _MOST_AFTER]
    fitting = [rows for rows in lists if (len(rows) == count if count else len(rows) > 1)]
    return "\n".join(fitting[-1][:_MOST_LISTED]) if fitting else ""


def listed_before(reply: str, text: str) -> tuple[str, ...]:
    """The titles of the list in `text`, said before, that a short message takes up, such as a plan; empty: it is long, or there is none."""
    if len(reply) > _SHORT_REPLY:
        return ()
    lists = [
        rows
        for after, rows in _lists(text)
        if len(rows) >= _LEAST_LISTED and (rows[0][0] != "-" or after <= _MOST_AFTER)
    ]
    numbered = [rows for rows in lists if rows[0][0] != "-"]
    return tuple((numbered or lists or [[]])[-1][:_MOST_LISTED])


def _lists(text: str) -> list[tuple[int, list[str]]]:
    """The lists at the end of a text, in their order, each with the number of lines after it; a numbered one may have other lines between its items."""
    lines = [line for line in unfenced(text[-8000:]).splitlines() if line.strip()]
    lists: dict[bool, tuple[int, list[str]]] = {}
    ended: list[tuple[int, list[str]]] = []
    bulleted = False
    for at, line in enumerate(lines, 1):
        item = _LISTED.match(line)
        number = int(item[1] or 0) if item else 0
        _, rows = lists.get(number > 0, (0, []))
        if item is not None:
            goes_on = number == len(rows) + 1 if number else bulleted
            if number <= 1 and not goes_on:
                ended += [lists.pop(number > 0)] if rows else []
                rows = []
            if number == len(rows) + 1 or not number:
                sign = f"{number}." if number else "-"
                lists[number > 0] = at, [*rows, f"{sign} {_cut(item[2])}"]
        bulleted = item is not None and not number
    ended += lists.values()
    return [(len(lines) - at, rows) for at, rows in sorted(ended, key=lambda row: row[0])]


def _cut(title: str) -> str:
    title = title.replace("**", "").strip()
    return title if len(title) <= _TITLE else title[:_TITLE].rpartition(" ")[0] + "…"


# Reads messages and entries of any shape without trusting them: never raises, limits its depth.
#
# One view for all: a string content is a text block, OpenAI's `tool_calls` are tool uses, its `tool`
# messages are tool results. Nothing is copied but text.

MAX_DEPTH = 40  # deeper nesting is not read: only hostile tool inputs nest deeper
# Characters read at the two ends of one text; the middle holds no fact that a summary would keep.
MAX_TEXT = 400_000
MAX_NUMBER_BITS = 256  # larger integers are not written out: Python refuses to beyond 4300 digits
# A tuple: a type that is not a string can be compared, but may have no hash.
TEXT_TYPES = ("text", "input_text", "output_text")
_RAN = '"wall_time_seconds":'
MOST_RUNS = 40  # lines of one result that are looked at for what a script printed of its commands


def blocks_of(item: Any) -> list[BlockView]:
    """All blocks of a message, in one form for every provider."""
    message = message_of(item)
    return [] if message is None else blocks_in(message)


def blocks_in(message: Mapping[str, Any]) -> list[BlockView]:
    """`blocks_of`, of a bare message."""
    content = message.get("content")
    if message.get("role") == "tool":
        key = message.get("tool_call_id", "")
        return [{"type": "tool_result", "tool_use_id": key, "content": content}]
    blocks: list[BlockView]
    if isinstance(content, str):
        blocks = [{"type": "text", "text": content}]
    elif type(content) is list and {*map(type, content)} == {dict}:
        blocks = [*content]
    else:
        blocks = [
            {"type": "text", "text": block} if isinstance(block, str) else block
            for block in (content if _is_sequence(content) else ())
            if isinstance(block, (str, Mapping))
        ]
    calls = message.get("tool_calls")
    if calls is not None and _is_sequence(calls):
        blocks += [_openai_call(call) for call in calls if isinstance(call, (dict, Mapping))]
    return blocks


def _is_sequence(value: Any) -> TypeGuard[Sequence[Any]]:
    if type(value) is list:
        return True
    return isinstance(value, Sequence) and not isinstance(value, (str, bytes, bytearray))


def _openai_call(call: Mapping[str, Any]) -> BlockView:
    function = call.get("function")
    function = function if isinstance(function, (dict, Mapping)) else call
    arguments = function.get("arguments", function.get("input"))
    if isinstance(arguments, str):
        try:
            arguments = orjson.loads(arguments)
        except ValueError:
            arguments = {"arguments": arguments}
    name = function.get("name", "")
    return {"type": "tool_use", "id": call.get("id", ""), "name": name, "input": arguments}


def clean(value: Any, limit: int = MAX_TEXT) -> str:
    """A string that can be stored: no lone surrogates, at most `limit` characters (its two ends)."""
    if not isinstance(value, str):
        return ""
    text = value if len(value) <= limit else ends_of(value, limit)
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


def ends_of(text: str, limit: int) -> str:
    """A text, or its two ends if it is longer."""
    return text if len(text) <= limit else f"{text[: limit // 2]}\n{text[-(limit // 2) :]}"


def text_of(item: Any) -> str:
    """The text blocks of a message, one per paragraph."""
    message = message_of(item) or {}
    content = message.get("content")
    if type(content) is str and message.get("role") != "tool":
        return "" if content.isspace() else clean(content)
    return text_in(blocks_in(message))


def text_in(blocks: Sequence[BlockView]) -> str:
    """`text_of`, of blocks."""
    return "\n\n".join(_texts_in(blocks))


def _texts_in(blocks: Sequence[BlockView]) -> list[str]:
    """Of the text blocks those that are not empty."""
    texts = []
    for block in blocks:
        if block.get("type") in TEXT_TYPES:
            text = clean(block.get("text"))
            if text and not text.isspace():
                texts.append(text)
    return texts


def result_text(block: BlockView) -> str:
    """The output of a tool as text; media as `[image]`, `[document]`."""
    content = block.get("content", block.get("output"))
    if isinstance(content, str):
        return clean(content)
    if type(content) is not list:
        if isinstance(content, (dict, Mapping)):
            return flat_text(content)
        if not isinstance(content, Sequence):
            return ""
    texts = []
    for part in content:
        if not isinstance(part, (dict, Mapping)):
            texts.append(clean(part))
        elif (kind := part.get("type")) == "image" or kind == "document":
            texts.append(f"[{kind}]")
        else:
            texts.append(clean(part.get("text")))
    return "\n".join(texts)


def run_text(text: str) -> str:
    """A result in which a script printed what its commands returned as JSON, as the tool for one command writes it (Codex)."""
    if _RAN not in text:
        return text
    rows = text.split("\n", MOST_RUNS)
    return "\n".join([_run(row) if _RAN in row else row for row in rows])


def _run(row: str) -> str:
    try:
        read = orjson.loads(row)
    except ValueError:
        return row
    runs = read if isinstance(read, list) else [read]
    texts = []
    for run in runs:
        if not isinstance(run, dict) or not isinstance(run.get("output"), str):
            return row
        code, running = run.get("exit_code"), run.get("session_id")
        if isinstance(code, int):
            texts.append(f"Process exited with code {code}\nOutput:\n{run['output']}")
        elif running is not None:
            texts.append(f"Process running with session ID {running}\nOutput:\n{run['output']}")
        else:
            texts.append(run["output"])
    return "\n".join(texts)


def flat_text(value: Any, depth: int = 0) -> str:
    """All strings inside a value, one per line, in order."""
    if isinstance(value, str):
        return clean(value)
    if value is None or depth >= MAX_DEPTH:
        return ""
    # Numbers only: the text of a foreign object may hold an address, and differ from run to run.
    if isinstance(value, (int, float)):
        long = isinstance(value, int) and value.bit_length() >= MAX_NUMBER_BITS
        return "" if long else str(value)
    if isinstance(value, (dict, Mapping)):
        value = value.values()
    elif not _is_sequence(value):
        return ""
    parts = [clean(v) if type(v) is str else flat_text(v, depth + 1) for v in value]
    return "\n".join(filter(None, parts))


# Who wrote a message, or a part of it: the user, the host, another agent, or an earlier compaction.


_NO_WORDS = Words("", Kind.NONE)
# How the texts begin that name media which a summary message carries on.
CARRIED_MEDIA = "Images and documents of the user's newest message"


def is_user_input(item: object) -> bool:
    """Whether the user wrote (part of) this message."""
    if role_of(item) != "user" or is_hidden(item) or author_of(item):
        return False
    return bool(own_words(item).text)


def is_host_only(item: Any) -> bool:
    """Whether a user message is all host text: the user wrote none of it, and sent no image or document with it."""
    if role_of(item) != "user":
        return False
    words = own_words(item)
    if words.text and words.kind is not Kind.HOST:
        return False
    return all(block.get("type") in TEXT_TYPES for block in blocks_of(item)) and bool(_texts(item))


def author_of(item: Any) -> str:
    """The author of a user entry other than the user, as the host recorded it; empty: the user, or unknown."""
    origin = item.get("origin")
    if origin is None or not isinstance(origin, Mapping):
        return ""
    kind = origin.get("kind")
    return clean(kind, 80) if isinstance(kind, str) and kind not in ("", "human", "user") else ""


def is_hidden(item: Any) -> bool:
    """Whether the host wrote this entry for the model, or another part of it holds the conversation."""
    if type(item) is not dict and not isinstance(item, Mapping):
        return False
    return is_summary(item) or item.get("isMeta") is True or item.get("isSidechain") is True


def _texts(item: Any) -> list[str]:
    """The text blocks of a user message that are not empty; a content that is a string in any case."""
    message = message_of(item) or {}
    content = message.get("content")
    return [clean(content)] if type(content) is str else _texts_in(blocks_in(message))


def own_words(item: Any) -> Words:
    """The user's words in a user message, block by block: without host text, expansions of commands and a summary."""
    texts = _texts(item)
    if len(texts) == 1:
        return _NO_WORDS if _is_summary_text(texts[0]) else words_of(texts[0])
    summary, parts, expanded = summary_text(item), list[Words](), False
    for text in texts:
        ours = text == summary or (summary and text.startswith(CARRIED_MEDIA))
        words = _NO_WORDS if expanded or ours else words_of(text)
        expanded = is_command(text)
        parts.append(words)
    return _joined(parts)


def _joined(parts: Sequence[Words]) -> Words:
    typed = [words for words in parts if words.text and words.kind is not Kind.HOST]
    if len(typed) == 1:
        return typed[0]
    if typed:
        return Words("\n\n".join(words.text for words in typed), Kind.PROMPT)
    kinds = [words.kind for words in parts]
    if Kind.INTERRUPT in kinds:
        return Words("", Kind.INTERRUPT)
    host = [words.text for words in parts if words.kind is Kind.HOST]
    return Words("\n\n".join(host), Kind.HOST) if host else _NO_WORDS


def without_host_text(message: Item) -> Item | None:
    """A bare message without what hosts wrote into it, but with what others answered; the same object if it has none, `None`: nothing is left."""
    if role_of(message) == "system":
        return None
    if role_of(message) != "user" or not has_host_text(message):
        return message
    content: list[BlockView] = []
    for block in blocks_of(message):
        text = block.get("text") if block.get("type") in TEXT_TYPES else None
        if not isinstance(text, str) or not host_share(text):
            content.append(block)
            continue
        pieces = (p.text for p in pieces_of(text) if not p.host or others_in(p.text))
        remaining = "".join(pieces).strip()
        content += [{**block, "text": remaining}] if remaining else []
    return {**message, "content": content} if content else None


# ---- summaries -------------------------------------------------------------------------------


def summary_text(item: Any) -> str:
    """The text of an earlier compaction's summary in a message; of a bare one the first block that a host did not write. Empty: none."""
    if is_summary(item):
        return text_of(item)
    message = message_of(item) or {}
    if message.get("role") != "user" or is_one_result(message) or is_hidden(item):
        return ""
    texts = _texts(message)
    for at, text in enumerate(texts, 1):
        if _is_summary_text(text):
            return text
        if at < len(texts) and words_of(text).kind not in (Kind.NONE, Kind.HOST):
            return ""
    return ""


def is_one_result(message: Mapping[str, Any]) -> bool:
    """Whether a message is a tool's result and nothing else: half of the messages of most conversations."""
    content = message.get("content")
    if type(content) is not list or len(content) != 1:
        return False
    block = content[0]
    return type(block) is dict and block.get("type") == "tool_result"


def _is_summary_text(text: str) -> bool:
    if looks_like_summary(text):
        return True
    if not text.lstrip().startswith("<"):
        return False
    own = next((piece.text for piece in pieces_of(text) if not piece.host), "")
    return looks_like_summary(own)


# ---- what stands -----------------------------------------------------------------------------


class Standing(NamedTuple):
    """A text that the host put into the conversation to stand."""

    about: frozenset[str]  # what it says, by names: a newer text with all of them replaces it
    block: BlockView  # the very same where it is one by itself


def standing_in(item: Any) -> list[Standing]:
    """The texts in a message that the host put there to stand; of a message of the system's role all of it is one."""
    message = message_of(item) or {}
    role = message.get("role")
    if role == "assistant" or is_one_result(message) or is_hidden(item):
        return []  # hidden: of a log, whose client puts such texts in again by itself
    if role == "system" or role == "developer":
        whole = text_of(message)
        pieces = [piece for piece in pieces_of(whole) if piece.text.strip()]
        named = [name for piece in pieces for name in piece.about if all(p.about for p in pieces)]
        about = frozenset(named or standing_parts(whole) or [whole])
        return [Standing(about, {"type": "text", "text": whole})] if whole.strip() else []
    texts: list[Standing] = []
    for block in blocks_in(message) if role == "user" else ():
        text = block.get("text") if block.get("type") in TEXT_TYPES else None
        if not isinstance(text, str) or ("<" not in text and "#" not in text[:80]):
            continue
        for piece in pieces_of(text):
            if piece.about:
                bare = piece.text.strip()
                same = bare == text.strip()
                own = block if same else {"type": "text", "text": bare}
                texts.append(Standing(piece.about, own))
    return texts


def is_standing(item: Any) -> bool:
    """Whether a message holds nothing but what a host put there to stand."""
    return bool(standing_in(item)) and (role_of(item) == "system" or is_host_only(item))


def standing_left(
    items: Sequence[Item],
    removed: Collection[int],
    new_messages: Sequence[Item] = (),
    texts: Sequence[tuple[int, list[Standing]]] | None = None,
) -> list[tuple[int, Item]]:
    """What has to be put back of the messages that go: their standing texts, each in its newest version.

    Args:
        items: Messages, oldest first.
        removed: Positions of those that go.
        new_messages: What stands in their place: what it holds is not put back.
        texts: The standing texts of all items; `None`: they are looked for.

    Returns:
        For each its position, and the message itself where it holds nothing else, else one that holds the rest.
    """
    if texts is None:
        texts = [(at, held) for at, item in enumerate(items) if (held := standing_in(item))]
    newer = [part.about for item in new_messages for part in standing_in(item)]
    left: list[tuple[int, Item]] = []
    for at, held in reversed(texts):
        fresh = [part for part in held if not any(part.about <= about for about in newer)]
        newer += [part.about for part in fresh]
        if fresh and at in removed:
            left.append((at, _alone(items[at], fresh, whole=len(fresh) == len(held))))
    return left[::-1]


def _alone(item: Item, texts: Sequence[Standing], *, whole: bool) -> Item:
    message = message_of(item) or {}
    if message.get("role") != "user":
        return item
    blocks = list(blocks_of(item))
    if whole and len(blocks) == len(texts) and is_host_only(item):
        return item
    return {"role": "user", "content": [dict(part.block) for part in texts]}


def has_host_text(item: Any) -> bool:
    """Whether a host wrote any part of the texts of a user message."""
    return any(host_share(text) for text in _texts(item))


def host_texts(item: Any) -> list[str]:
    """What hosts wrote into a user message, in pieces."""
    texts = (text for text in _texts(item) if host_share(text))
    return [piece.text for text in texts for piece in pieces_of(text) if piece.host]


def host_share(text: str) -> int:
    """Characters of a user message's text that a host wrote."""
    if "<" not in text and not text.lstrip().startswith(OPENERS):
        return 0
    return sum(len(piece.text) for piece in pieces_of(text) if piece.host)

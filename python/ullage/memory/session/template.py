"""The form of the session notes: sections, each with a heading and a line in italics that stay as they are (SM-1)."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import orjson

from ullage._engine import core
from ullage._start import pattern
from ullage.facts.sections import holds_notes
from ullage.facts.words import blocks_of, clean, text_of
from ullage.messages import Item, largest, message_of, role_of
from ullage.summarizers.budgeted_text import begin
from ullage.summarizers.protocol import SummaryReply

DEFAULT_TEMPLATE = Path(__file__).with_name("template.md").read_text(encoding="utf-8")
"""The notes before anything is known."""

TITLES = tuple(re.findall("^# (.*)$", DEFAULT_TEMPLATE, re.MULTILINE))
"""The ten sections, in their order."""

_HEADING = pattern(r"# +(\S.*?)\s*$")
_ITALIC = pattern(r"_(?!_).*[^_\s]_\s*$|\*(?!\*).*[^*\s]\*\s*$")
_FENCE = pattern(r"\s{0,3}(`{3,}|~{3,})(.*)$")


@dataclass(frozen=True, slots=True)
class Section:
    """One section of the notes."""

    title: str  # the heading's text; empty for the part before the first heading
    about: str  # the line in italics; empty if there is none
    body: str = field(repr=False)  # what follows, without blank lines at its ends

    def text(self, body: str | None = None) -> str:
        """The section as it is written, perhaps with another body."""
        heading = f"# {self.title}" if self.title else ""
        return "\n".join(filter(None, (heading, self.about, self.body if body is None else body)))


def parse_notes(text: str) -> list[Section]:
    """The sections of notes, and what stands before the first heading; lines inside code fences are never headings."""
    return _read(text)[0]


def skeleton(text: str) -> tuple[list[tuple[str, str]], bool]:
    """What no edit may change: headings and lines in italics, in their order; and whether every fence is closed."""
    sections, closed = _read(text)
    return [(s.title, s.about) for s in sections if s.title], closed


def is_blank(text: str, template: str = DEFAULT_TEMPLATE) -> bool:
    """Whether notes are still empty: no text, or the bare template."""
    if not text.strip() or text.split() == template.split():
        return True
    return all(not section.body for section in parse_notes(text) if section.title or section.body)


def open_fences(body: str) -> Iterator[tuple[str, bool]]:
    """Each line, and whether it belongs to a code fence."""
    fence = ""
    for line in body.split("\n"):
        fence, inside = _fenced(line, fence)
        yield line, inside


def _read(text: str) -> tuple[list[Section], bool]:
    rows: list[tuple[str, list[str]]] = [("", [])]
    fence = ""
    for line in text.replace("\r\n", "\n").split("\n"):
        fence, inside = _fenced(line, fence)
        heading = None if inside else _HEADING.match(line)
        if heading is not None:
            rows.append((heading[1], []))
        else:
            rows[-1][1].append(line)
    sections: list[Section] = []
    for title, lines in rows:
        about = lines[0].rstrip() if title and lines and _ITALIC.match(lines[0]) else ""
        body = "\n".join(lines[1:] if about else lines).strip("\n").rstrip()
        if title or body:
            sections.append(Section(title, about, body))
    return sections, not fence


def _fenced(line: str, fence: str) -> tuple[str, bool]:
    """The fence that is open after a line (empty: none), and whether the line belongs to a block."""
    mark = _FENCE.match(line)
    if not fence:
        # A backtick fence has no backticks in what follows it: else it is code inside a line.
        opens = mark is not None and not (mark[1][0] == "`" and "`" in mark[2])
        return (mark[1], True) if mark is not None and opens else ("", False)
    closes = mark is not None and mark[1].startswith(fence) and not mark[2].strip()
    return ("" if closes else fence), True


# Limits of the notes: one per section and one for all (SM-4), and cutting them for a summary (KEEP-5).

Measure = Callable[[str], int]

FIRST = ("Current State", "Errors & Corrections")  # sections that are shortened last


@dataclass(frozen=True, slots=True)
class Excess:
    """By how much notes are too long."""

    total: int  # tokens of all sections
    limit: int  # tokens that they may have together
    # Title and tokens of each section over its own limit, the longest first.
    sections: tuple[tuple[str, int], ...]

    def __bool__(self) -> bool:
        return bool(self.sections) or self.total > self.limit


def excess(notes: str, *, section_tokens: int, total_tokens: int, measure: Measure) -> Excess:
    """What is too long in notes: of one section, and of all."""
    sizes = [(section.title, measure(section.text())) for section in parse_notes(notes)]
    over = sorted((row for row in sizes if row[1] > section_tokens), key=lambda row: -row[1])
    return Excess(sum(size for _, size in sizes), total_tokens, tuple(over))


def cut_notes(
    notes: str, *, section_tokens: int, total_tokens: int, measure: Measure, where: str = ""
) -> str:
    """Notes for a reader, within their limits; cuts are marked, with the place of the rest.

    Lines in italics are instructions for editing and are removed, as are empty sections.
    Sections are cut at line ends from their end on. Over the limit of all, the sections of `FIRST` are
    kept first, then the others share what is left in proportion to their size. `where` is the path of the whole notes.
    """
    sections = [replace(section, about="") for section in parse_notes(notes) if section.body]
    wanted = [min(measure(section.text()), section_tokens) for section in sections]
    written = []
    for section, tokens in zip(sections, _rooms(sections, wanted, total_tokens), strict=True):
        fits = measure(section.text()) <= tokens
        written.append(section.text() if fits else _shorter(section, tokens, measure, where))
    return "\n\n".join(written)


def _rooms(sections: list[Section], wanted: list[int], total: int) -> list[int]:
    if sum(wanted) <= total:
        return wanted
    room, left = list(wanted), total
    for at, section in enumerate(sections):
        if section.title in FIRST:
            room[at] = min(wanted[at], left)
            left -= room[at]
    others = [at for at, section in enumerate(sections) if section.title not in FIRST]
    whole = max(sum(wanted[at] for at in others), 1)
    for at in others:
        room[at] = wanted[at] * left // whole
    return room


def _shorter(section: Section, tokens: int, measure: Measure, where: str) -> str:
    """As many lines as fit; of a single line too long for that, its beginning."""
    at = f"; the whole section is in {where}" if where else ""

    def cut(lines: list[str]) -> str:
        return section.text(
            "\n".join([*_closed(lines), f"[… the rest of this section was cut{at} …]"])
        )

    lines = section.body.split("\n")
    if keep := largest(len(lines), lambda n: measure(cut(lines[:n])) <= tokens):
        return cut(lines[:keep])
    chars = largest(len(lines[0]), lambda n: measure(cut([lines[0][:n]])) <= tokens)
    return cut([begin(lines[0], chars)] if chars else [])


def _closed(lines: list[str]) -> list[str]:
    """The lines, with a code fence that the cut left open closed again."""
    fence = ""
    for line in lines:
        bare = line.strip()
        if fence and bare.startswith(fence) and not bare.strip(fence[0]):
            fence = ""
        elif not fence and bare.startswith(("```", "~~~")):
            fence = bare[: len(bare) - len(bare.lstrip(bare[0]))]
    return [*lines, fence] if fence else lines


# The updater's one tool: edits of one file, read from a model's response; everything else that it tries is refused and reported.
#
# The path in an edit is only compared, never opened: what is written always goes to the notes' own file, whatever a
# model says.

MAX_EDITS = 64  # edits in one response; ten sections need no more
MAX_TOLD = 200  # characters of what was tried that a refusal repeats

_OPEN = pattern(r"\s*<edit(?:\s+(?:file|path|file_path)\s*=\s*(\"[^\"\n]*\"|'[^'\n]*'))?\s*>\s*$")
_DONE = pattern(r"\s*<done\s*/?>\s*$")
_OLD, _MIDDLE, _NEW, _CLOSE = "<<<<<<< OLD", "=======", ">>>>>>> NEW", "</edit>"
_CALL = pattern(
    r"<(?:antml:)?invoke\s+name\s*=\s*[\"']?([\w.:-]{1,80})|"
    r"[\"'](?:name|tool|tool_name|function)[\"']\s*:\s*[\"']([\w.:-]{1,80})[\"']|"
    r"^\s*<([A-Za-z_][\w.:-]{0,60})(?:\s[^>\n]{0,400})?>\s*$"
)
_PROSE_TAGS = frozenset(
    "edit done analysis summary thinking think notes function_calls antml:function_calls tool_call tool_use".split()
)


@dataclass(frozen=True, slots=True)
class NotesEdit:
    """One replacement: `old`, which must occur in the notes exactly once, becomes `new`."""

    old: str = field(repr=False)
    new: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Refusal:
    """Something that the model tried and was refused."""

    kind: str  # `tool`, `path`, `form`, `not_found`, `ambiguous`, `structure`, `size` or `too_many`
    tried: str = ""  # its subject, shortened: a tool's name, a path, a line

    def line(self) -> str:
        """The tool's definition for the model."""
        return f"{_WHY[self.kind]}{f': {self.tried}' if self.tried else ''}"


_WHY = {
    "tool": "refused, there is no such tool here",
    "path": "refused, only the notes may be edited",
    "form": "refused, the edit is not complete",
    "not_found": "not done, these lines are not in the notes",
    "ambiguous": "not done, these lines are in the notes more than once; give more of them",
    "structure": "refused, headings and lines in italics must stay as they are, and code fences must be closed",
    "size": "refused, the notes would become far too long",
    "too_many": "refused, too many edits at once",
}


@dataclass(slots=True)
class EditsAnswer:
    """A parsed response of the model."""

    edits: list[NotesEdit] = field(default_factory=list)  # of the notes, in order
    refusals: list[Refusal] = field(default_factory=list)  # everything else that was tried
    done: bool = False  # it said that it is done

    def refuse(self, kind: str, tried: str) -> None:
        """Note an attempt."""
        self.refusals.append(Refusal(kind, " ".join(tried.split())[:MAX_TOLD]))


def read_answer(reply: SummaryReply, path: str) -> EditsAnswer:
    """The edits of an answer, and what else it tried; `path` is the one file that may be edited, as shown to the model."""
    answer = EditsAnswer()
    for name in reply.tool_calls:
        answer.refuse("tool", name)
    lines = iter(reply.text.replace("\r\n", "\n").split("\n"))
    for line in lines:
        if opened := _OPEN.match(line):
            _read_block(opened[1], lines, path, answer)
        elif _DONE.match(line):
            answer.done = True
        elif call := _CALL.search(line):
            name = next(part for part in call.groups() if part)
            if name.lower() not in _PROSE_TAGS:
                answer.refuse("tool", name)
    if len(answer.edits) > MAX_EDITS:
        answer.refuse("too_many", str(len(answer.edits)))
        del answer.edits[MAX_EDITS:]
    return answer


def _read_block(named: str | None, lines: Iterator[str], path: str, answer: EditsAnswer) -> None:
    """Read one block up to its end; the iterator is after it then."""
    block: list[str] = []
    closed = False
    for line in lines:
        if line.strip() == _CLOSE and (not block or block[-1].rstrip() == _NEW):
            closed = True
            break
        block.append(line)
    target = (named or "")[1:-1]
    if target != path:
        # Compared literally: no case folding, no Unicode normalization, no resolving of `..`.
        answer.refuse("path", ascii(target)[1:-1] or "none named")
    elif closed and (edit := _edit_in(block)):
        answer.edits.append(edit)
    else:
        answer.refuse("form", block[0] if block else "")


def _edit_in(block: list[str]) -> NotesEdit | None:
    marks = [line.rstrip() for line in block]
    places = [at for at, line in enumerate(marks) if line in (_OLD, _MIDDLE, _NEW)]
    if [marks[at] for at in places] != [_OLD, _MIDDLE, _NEW]:
        return None
    first, middle, last = places
    if any(line for line in (*marks[:first], *marks[last + 1 :])):
        return None
    old, new = block[first + 1 : middle], block[middle + 1 : last]
    return NotesEdit("\n".join(old), "\n".join(new)) if "".join(old).strip() else None


def apply_edit(notes: str, edit: NotesEdit, *, max_chars: int) -> str | Refusal:
    """The notes, of at most so many characters, after an edit of whole lines, or why it is refused."""
    first_line = edit.old.split("\n", 1)[0][:MAX_TOLD]
    # Whole lines first: a line that is also the beginning of another one is unique then.
    framed, old, new = f"\n{notes}\n", f"\n{edit.old}\n", f"\n{edit.new}\n" if edit.new else "\n"
    places = _places(framed, old)
    if not places:
        framed, old, new = notes, edit.old, edit.new
        places = _places(framed, old)
    if len(places) != 1:
        return Refusal("ambiguous" if places else "not_found", first_line)
    changed = framed[: places[0]] + new + framed[places[0] + len(old) :]
    changed = changed if framed is notes else changed[1:-1]
    if len(changed) > max(max_chars, len(notes)):
        return Refusal("size", f"{len(changed):,} characters, at most {max_chars:,}")
    if skeleton(changed) != skeleton(notes):
        return Refusal("structure", first_line)
    return changed


def _places(text: str, part: str) -> list[int]:
    """The positions of a part, two at most; they may overlap."""
    first = text.find(part)
    second = text.find(part, first + 1) if first >= 0 else -1
    return [at for at in (first, second) if at >= 0]


# Stable names of messages, by which the notes record what they have absorbed (SM-5).


def item_key(item: Item) -> str:
    """A name for a message: the uuid of an entry; for a bare message a hash of what never changes in it.

    Contents of tool results are not part of the hash, since earlier levels may shorten them; their ids are.
    """
    name = item.get("uuid")
    if isinstance(name, str) and name:
        return name
    message = message_of(item) or {}
    parts = [str(message.get("role")), *(_fixed(block) for block in blocks_of(item))]
    return "sha256:" + hashlib.sha256(orjson.dumps(parts)).hexdigest()[:40]


def _fixed(block: Mapping[str, Any]) -> str:
    kind = clean(block.get("type"), 100)
    for key in ("id", "tool_use_id", "text", "signature", "thinking", "data"):
        value = block.get(key)
        if isinstance(value, str) and value:
            return f"{kind}:{key}:{clean(value, 4 * len(value) + 1)}"
    return kind


def find_key(items: Sequence[Item], key: str) -> int | None:
    """The position of a name, the oldest of several; `None`: it is not there.

    The oldest, because bare messages may be equal: then more is kept than necessary, never less.
    """
    return next((at for at, item in enumerate(items) if item_key(item) == key), None)


def covered_end(items: Sequence[Item], covered: str) -> int | None:
    """The position after the last message that the notes have absorbed; `None`: unknown.

    A compaction takes that message away. If it put the notes in its place, they hold what they held then.
    """
    place = find_key(items, covered) if covered else None
    for at, item in enumerate(items if place is None else ()):
        if role_of(item) == "user" and holds_notes(text_of(item)):
            place = at
    return None if place is None else place + 1


def safe_end(items: Sequence[Item]) -> int:
    """How many messages the notes may absorb: all, or those before a response that waits for a tool's result."""
    ledger = core.Ledger(None, items)
    newest = ledger.rounds()[-1] if len(ledger) else 0
    waiting = [message for message, _ in ledger.open_calls() if message >= newest]
    if not waiting:
        return len(items)
    response = ledger.message(waiting[0]).response_id
    for at in range(newest, waiting[0]):
        if response and ledger.message(at).response_id == response:
            return at
    return waiting[0]


# The record kept with the notes: how far they reach, and which lines code wrote (SM-5).
#
# The record is written after the notes. If the process is killed in between, the notes hold more than the record says: then more of the
# conversation stays than necessary, never less.

VERSION = 1
MAX_REMOVED = 500


@dataclass(frozen=True, slots=True)
class Record:
    """The state of a session's notes."""

    session_id: str = ""  # the session of the notes; empty: unknown
    covered: str = ""  # name of the last message that the notes have absorbed; empty: unknown
    written: str = ""  # digest of the notes when code wrote them last
    # Lines that code wrote, by section: all others are a user's or a model's.
    generated: Mapping[str, tuple[str, ...]] = field(default_factory=dict, repr=False)
    # Hashes of lines that code wrote and the user deleted; they are not written again.
    removed: tuple[str, ...] = field(default=(), repr=False)
    exists: bool = False  # there is a record; false: the file is missing or cannot be read


def read_record(data: bytes | None) -> Record:
    """The record in a file's bytes; an empty one where they are missing or broken."""
    try:
        record = orjson.loads(data) if data else None
    except orjson.JSONDecodeError:
        record = None
    if not isinstance(record, dict) or record.get("version") != VERSION:
        return Record()
    session_id, covered, written = (
        value if isinstance(value := record.get(key), str) else ""
        for key in ("session_id", "covered", "written")
    )
    rows = record.get("generated")
    rows = rows if isinstance(rows, dict) else {}
    generated = {str(title): _texts(lines) for title, lines in rows.items()}
    return Record(session_id, covered, written, generated, _texts(record.get("removed")), True)


def write_record(record: Record) -> bytes:
    """The bytes of a record; the same for the same record."""
    fields = {"version": VERSION, **asdict(record), "removed": record.removed[-MAX_REMOVED:]}
    del fields["exists"]
    return orjson.dumps(fields, option=orjson.OPT_INDENT_2)


def _texts(value: Any) -> tuple[str, ...]:
    listed = value if isinstance(value, list) else []
    return tuple(part for part in listed if isinstance(part, str))

"""The updater's one tool: edits of one file, read from a model's response; everything else that it tries is refused and reported.

The path in an edit is only compared, never opened: what is written always goes to the notes' own file, whatever a
model says.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from ullage.memory.session.template import skeleton
from ullage.summarizers.protocol import SummaryReply

__all__ = ["EditsAnswer", "NotesEdit", "Refusal", "apply_edit", "read_answer"]

MAX_EDITS = 64
"""Edits in one response; ten sections need no more."""

MAX_TOLD = 200
"""Characters of what was tried that a refusal repeats."""

_OPEN = re.compile(
    r"\s*<edit(?:\s+(?:file|path|file_path)\s*=\s*(\"[^\"\n]*\"|'[^'\n]*'))?\s*>\s*$"
)
_DONE = re.compile(r"\s*<done\s*/?>\s*$")
_OLD, _MIDDLE, _NEW, _CLOSE = "<<<<<<< OLD", "=======", ">>>>>>> NEW", "</edit>"
_CALL = re.compile(
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

    old: str
    new: str

    def __repr__(self) -> str:
        return f"Edit({len(self.old)} → {len(self.new)} characters)"


@dataclass(frozen=True, slots=True)
class Refusal:
    """Something that the model tried and was refused.

    Attributes:
        kind: `tool`, `path`, `form`, `not_found`, `ambiguous`, `structure`, `size` or `too_many`.
        tried: Its subject, shortened: a tool's name, a path, a line.
    """

    kind: str
    tried: str = ""

    def told(self) -> str:
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


@dataclass(frozen=True, slots=True)
class EditsAnswer:
    """A parsed response of the model.

    Attributes:
        edits: Of the notes, in order.
        refusals: Everything else that was tried.
        done: It said that it is done.
    """

    edits: tuple[NotesEdit, ...] = ()
    refusals: tuple[Refusal, ...] = ()
    done: bool = False


@dataclass(slots=True)
class _Found:
    edits: list[NotesEdit] = field(default_factory=list)
    refusals: list[Refusal] = field(default_factory=list)
    done: bool = False

    def refuse(self, kind: str, tried: str) -> None:
        """Note an attempt."""
        self.refusals.append(Refusal(kind, " ".join(tried.split())[:MAX_TOLD]))


def read_answer(reply: SummaryReply, path: str) -> EditsAnswer:
    """The edits of an answer, and what else it tried.

    Args:
        reply: The response's text.
        path: The one file that may be edited, as shown to the model.
    """
    found = _Found()
    for name in reply.tool_calls:
        found.refuse("tool", name)
    lines = iter(reply.text.replace("\r\n", "\n").split("\n"))
    for line in lines:
        if opened := _OPEN.match(line):
            _one(opened[1], lines, path, found)
        elif _DONE.match(line):
            found.done = True
        elif call := _CALL.search(line):
            name = next(part for part in call.groups() if part)
            if name.lower() not in _PROSE_TAGS:
                found.refuse("tool", name)
    if len(found.edits) > MAX_EDITS:
        found.refuse("too_many", str(len(found.edits)))
    return EditsAnswer(tuple(found.edits[:MAX_EDITS]), tuple(found.refusals), found.done)


def _one(named: str | None, lines: Iterator[str], path: str, found: _Found) -> None:
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
        found.refuse("path", ascii(target)[1:-1] or "none named")
        return
    edit = _parts(block) if closed else None
    if edit is None:
        found.refuse("form", block[0] if block else "")
    else:
        found.edits.append(edit)


def _parts(block: list[str]) -> NotesEdit | None:
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
    """The notes after an edit, or why it is refused.

    Args:
        notes: As they are.
        edit: What to replace; its lines must be whole lines of the notes.
        max_chars: The longest that notes may become.
    """
    told = edit.old.split("\n", 1)[0][:MAX_TOLD]
    # Whole lines first: a line that is also the beginning of another one is unique then.
    framed, old, new = f"\n{notes}\n", f"\n{edit.old}\n", f"\n{edit.new}\n" if edit.new else "\n"
    places = _places(framed, old)
    if not places:
        framed, old, new = notes, edit.old, edit.new
        places = _places(framed, old)
    if len(places) != 1:
        return Refusal("ambiguous" if places else "not_found", told)
    changed = framed[: places[0]] + new + framed[places[0] + len(old) :]
    changed = changed if framed is notes else changed[1:-1]
    if len(changed) > max(max_chars, len(notes)):
        return Refusal("size", f"{len(changed):,} characters, at most {max_chars:,}")
    if skeleton(changed) != skeleton(notes):
        return Refusal("structure", told)
    return changed


def _places(text: str, part: str) -> list[int]:
    """The positions of a part, two at most; they may overlap."""
    first = text.find(part)
    second = text.find(part, first + 1) if first >= 0 else -1
    return [at for at in (first, second) if at >= 0]

"""Notes without a model: the ten sections filled with copies and counts from the conversation (SM-1).

Each fact is one line, so that the user's lines can be distinguished: every line that the last update did not write is theirs.
"""

from __future__ import annotations

import hashlib
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from ullage.facts.calls import Action
from ullage.facts.collector import Collector
from ullage.facts.model import Command, Facts, Origin, ToolStep, UserInput
from ullage.facts.words import Kind
from ullage.memory.session.template import TITLES, Section, open_fences, parse_notes
from ullage.messages import Item
from ullage.summarizers import (
    extractive as extractive_sections,
    lines as listed_names,
    lines as work_lines,
)
from ullage.summarizers.budgeted_text import Unit, allot, cost, fill, inline, one_line

Measure = Callable[[str], int]
_ALL = 1 << 40

# Most of the room is for what is needed to continue; a section has at most what its limit allows, and the others share the rest.
_SHARES = dict(zip(TITLES, (1, 12, 16, 8, 3, 8, 150, 8, 4, 2), strict=True))
_NAMES = "Codebase and System Documentation"
"""The section that lists the names in use: what an agent needs most to continue, and so the largest share."""

_NAMES_IN_ROW = 30

_CHANGES = (Action.EDIT, Action.WRITE, Action.DELETE)
_PROMPTS = (Kind.PROMPT, Kind.COMMAND)


class Merged(NamedTuple):
    """Notes brought up to date: the text, the lines that code wrote, and hashes of those that a user took out."""

    text: str
    generated: dict[str, tuple[str, ...]]
    removed: tuple[str, ...]


def merged(
    notes: str,
    facts: Facts,
    *,
    generated: Mapping[str, Sequence[str]],
    removed: Sequence[str],
    section_tokens: int,
    total_tokens: int,
    measure: Measure,
) -> Merged:
    """Notes with what facts say; what a user wrote stays, verbatim and first in its section.

    Args:
        notes: As they are now: headings decide where lines go, sections of other names are left alone.
        facts: Of the conversation so far.
        generated: Lines that the last update wrote.
        removed: Hashes of lines that a user took out before.
        section_tokens: Limit of one section.
        total_tokens: Limit of all.
        measure: Tokens of a text.
    """
    sections = parse_notes(notes)
    written = {s.title: _written(s, generated.get(s.title, ())) for s in sections}
    lines_removed = [*removed, *_taken_out(sections, generated)]
    frame = "\n\n".join(s.text(written[s.title]) for s in sections)
    room = max(total_tokens - measure(frame), 0)
    rooms = {s.title: section_tokens - measure(s.text(written[s.title])) for s in sections}
    for share in (100, 85, 70, 50, 30, 0):
        # Budgets are in bytes, limits in tokens: the first budget that meets the limits is used.
        copied = copied_lines(facts, room * share // 100, rooms, share)
        bodies = {
            title: _wanted(copied.get(title, ()), lines_removed, written[title])
            for title in written
        }
        texts = [s.text(_body(written[s.title], bodies[s.title])) for s in sections]
        fits = all(measure(t) <= section_tokens or share == 0 for t in texts)
        if share == 0 or (fits and measure("\n\n".join(texts)) <= total_tokens):
            break
    text = "\n\n".join(texts) + "\n"
    return Merged(
        text,
        {t: tuple(rows) for t, rows in bodies.items() if rows},
        tuple(dict.fromkeys(lines_removed)),
    )


def _body(written: str, copied: Sequence[str]) -> str:
    return "\n".join([*([written] if written else []), *copied])


def _wanted(copied: Sequence[str], lines_removed: Sequence[str], written: str) -> list[str]:
    out, there = set(lines_removed), set(written.split("\n"))
    return [line for line in copied if line not in there and _hash(line) not in out]


def _hash(line: str) -> str:
    return hashlib.sha256(line.encode("utf-8", "replace")).hexdigest()[:16]


def _written(section: Section, ours: Sequence[str]) -> str:
    """What a user or a model wrote in a section: all lines but ours; inside code fences none is ours."""
    left, own_lines = Counter(ours), []
    for line, inside in open_fences(section.body):
        if not inside and left[line] > 0:
            left[line] -= 1
        else:
            own_lines.append(line)
    return "\n".join(own_lines).strip("\n").rstrip()


def _taken_out(sections: Sequence[Section], generated: Mapping[str, Sequence[str]]) -> list[str]:
    bodies = {s.title: set(s.body.split("\n")) for s in sections}
    return [
        _hash(line)
        for title, ours in generated.items()
        for line in ours
        if line not in bodies.get(title, set())
    ]


# ---- lines from facts ------------------------------------------------------------------------


def copied_lines(
    facts: Facts, tokens: int, rooms: Mapping[str, int], share: int = 100
) -> dict[str, list[str]]:
    """The lines of each section, within a budget in UTF-8 bytes / 4.

    Args:
        facts: Of the conversation so far.
        tokens: For all sections.
        rooms: For each section by its title; sections that are not named get no lines.
        share: Percent of each room that is used.
    """
    units = {title: _flattened(write(facts)) for title, write in _WRITERS.items() if title in rooms}
    places = dict(enumerate(units))
    names = listed_names.names_tokens(listed_names.candidates(facts)) if _NAMES in units else 0
    wants = {
        at: min(
            sum(cost(u.text) for u in units[title]) + names * (title == _NAMES),
            max(rooms[title], 0) * share // 100,
        )
        for at, title in places.items()
    }
    shares = {at: _SHARES[title] for at, title in places.items()}
    allotted = allot(wants, shares, tokens)
    copied = {title: fill(units[title], allotted[at]) for at, title in places.items()}
    rows = {title: [row for row in text.split("\n") if row] for title, text in copied.items()}
    if _NAMES in rows:
        budget = sum(allotted[at] for at, title in places.items() if title == _NAMES)
        rows[_NAMES] += _names(facts, "\n".join(copied.values()), budget - cost(copied[_NAMES]))
    return rows


def _names(facts: Facts, present: str, tokens: int) -> list[str]:
    """The names in use that no other section holds, best first, a few in each row."""
    rows: list[str] = []
    # The beginnings of the rows take about a tenth.
    named, room = listed_names.candidates(facts), max(tokens, 0) * 9 // 10
    for line in listed_names.names(named, present, room).split("\n"):
        head, _, listed = _flat(line).partition(": ")
        names = listed.split(", ") if listed else []
        rows += [
            f"{head}: {', '.join(names[at : at + _NAMES_IN_ROW])}"
            for at in range(0, len(names), _NAMES_IN_ROW)
        ]
    return rows


def _flattened(units: Sequence[Unit]) -> list[Unit]:
    """One line each: a path or a name may contain line ends, followed by a heading."""
    return [Unit(_flat(unit.text), unit.rank) for unit in units]


def _title(facts: Facts) -> list[Unit]:
    prompts = [entry for entry in facts.inputs if entry.kind in _PROMPTS]
    telling = [entry for entry in prompts if len(entry.text.split()) > 1] or prompts
    # It must begin with a word: a heading or a fence would change the form of the notes.
    text = one_line(telling[0].text, 80).lstrip("#`~_*->|+= \t") if telling else ""
    return [Unit(text, 0)] if text else []


def _state(facts: Facts) -> list[Unit]:
    units = []
    if facts.inputs:
        units.append(Unit(f"- Newest request: “{one_line(facts.inputs[-1].text, 500)}”", 0))
    if facts.open_question:
        asked = one_line(facts.open_question, 500)
        units.append(Unit(f"- Waiting for the user's answer to: “{asked}”", 0))
    if facts.interrupted:
        units.append(Unit("- The user stopped the assistant", 0))
    if facts.plan_mode:
        units.append(
            Unit("- Plan mode is on: nothing may be changed before the plan is approved", 0)
        )
    tasks = [task for task in facts.tasks if task.open and task.subject]
    units += [Unit(_flat(work_lines.task_line(task)), 1 + at) for at, task in enumerate(tasks)]
    units += [Unit(_flat(work_lines.work_line(work)), 1) for work in facts.still_open]
    units += [
        Unit(_flat(unit.text), 2 + unit.rank) for unit in extractive_sections.current_work(facts)
    ]
    if facts.statements:
        statement = one_line(facts.statements[-1].text, 700)
        units.append(Unit(f"- The assistant's newest words: “{statement}”", 0))
    return units


def _flat(text: str) -> str:
    return " ".join(text.split())


def _task(facts: Facts) -> list[Unit]:
    prompts = [entry for entry in facts.inputs if entry.kind is not Kind.HOST]
    last = len(prompts) - 1
    units = [
        Unit(f"- {_asked(at, entry)}", 0 if at in (0, last) else last - at)
        for at, entry in enumerate(prompts)
    ]
    plan = one_line(facts.plan, 800)
    return [*units, *([Unit(f"- Approved plan: {inline(plan, 800)}", 1)] if plan else [])]


def _asked(at: int, entry: UserInput) -> str:
    about = f" (asked: “{one_line(entry.question, 150)}”)" if entry.question else ""
    refusing = " (refusing a tool call)" if entry.kind is Kind.FEEDBACK else ""
    return f"User {at + 1}{about}{refusing}: “{one_line(entry.text, 600)}”"


def _files(facts: Facts) -> list[Unit]:
    ordered = sorted(facts.files, key=lambda file: (-file.last, file.path))
    return [
        Unit(extractive_sections.file_line(file), at + (0 if file.changed else 30))
        for at, file in enumerate(ordered)
    ]


def _workflow(facts: Facts) -> list[Unit]:
    runs = Counter(command.text for command in facts.commands)
    newest = {command.text: command for command in facts.commands}
    rows = sorted(newest.values(), key=lambda command: command.index)
    return [
        Unit(_ran(command, runs[command.text]), len(rows) - at) for at, command in enumerate(rows)
    ]


def _ran(command: Command, times: int) -> str:
    how = {True: "ok", False: "failed", None: "refused or stopped"}[command.ok]
    code = f" (exit {command.exit_code})" if command.exit_code else ""
    often = f", {times} times" if times > 1 else ""
    line = f": {inline(command.line, 120)}" if command.line else ""
    return f"- {inline(command.text, 160)} → {how}{code}{often}{line}"


def _errors(facts: Facts) -> list[Unit]:
    return [*_corrections(facts), *extractive_sections.errors(facts)]


def _corrections(facts: Facts) -> list[Unit]:
    feedback = [entry for entry in facts.inputs if entry.kind is Kind.FEEDBACK]
    return [Unit(f"- The user refused a call: “{one_line(e.text, 400)}”", 0) for e in feedback]


def _documentation(facts: Facts) -> list[Unit]:
    urls = facts.urls[-20:]
    return [Unit(f"- {_flat(url)}", len(urls) - at) for at, url in enumerate(urls)]


def _learnings(facts: Facts) -> list[Unit]:
    rules = [rule for rule in facts.standing if rule.origin is not Origin.HOST]
    units = [
        Unit(extractive_sections.rule_line(rule), len(rules) - at) for at, rule in enumerate(rules)
    ]
    return units + [
        Unit(f"- Decided: “{one_line(d.question, 200)}” → “{one_line(d.answer, 300)}”", 0)
        for d in facts.decisions
    ]


def _results(facts: Facts) -> list[Unit]:
    closing = [statement for statement in facts.statements if statement.closing]
    dated = [
        (statement.index, Unit(f"- Reported: {one_line(statement.text, 420)}", len(closing) - at))
        for at, statement in enumerate(closing)
    ]
    dated += [
        (c.index, Unit(f"- Committed {c.digest} on {c.branch}: {_flat(c.subject)}", 1))
        for c in facts.commits
    ]
    return [unit for _, unit in sorted(dated, key=lambda pair: pair[0])]


def _worklog(facts: Facts) -> list[Unit]:
    inputs = facts.inputs
    ends = [*(entry.index for entry in inputs[1:]), _ALL]
    rows = []
    for at, (entry, end) in enumerate(zip(inputs, ends, strict=False)):
        steps = [step for step in facts.steps if entry.index <= step.index < end]
        row = f"- {at + 1}. “{one_line(entry.text, 100)}”{_done(steps)}"
        rows.append(Unit(row, len(inputs) - at))
    return rows


def _done(steps: Sequence[ToolStep]) -> str:
    if not steps:
        return ""
    changed = sum(step.action in _CHANGES for step in steps)
    failed = sum(step.ok is False for step in steps)
    parts = [f"{len(steps)} calls", f"{changed} changes" if changed else ""]
    parts.append(f"{failed} failed" if failed else "")
    return f" → {', '.join(part for part in parts if part)}"


_WRITERS: dict[str, Callable[[Facts], list[Unit]]] = dict(
    zip(
        TITLES,
        (
            _title,
            _state,
            _task,
            _files,
            _workflow,
            _errors,
            _documentation,
            _learnings,
            _results,
            _worklog,
        ),
        strict=True,
    )
)


# Facts of a growing conversation: nothing is read twice.


class FactsFeed:
    """Collects facts of a list that only grows; another list starts again."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._collector = Collector()
        self._read = 0
        self._last: Item | None = None

    def up_to(self, items: Sequence[Item], end: int) -> Facts:
        """The facts of `items[:end]`.

        Args:
            items: The list passed before, perhaps longer.
            end: At least the previous value, else everything is read again.
        """
        with self._lock:
            if not self._goes_on(items, end):
                self._collector, self._read = Collector(), 0
            for index in range(self._read, end):
                self._collector.feed(index, items[index])
            self._read = end
            self._last = items[end - 1] if end else None
            return self._collector.finish()

    def _goes_on(self, items: Sequence[Item], end: int) -> bool:
        if self._read == 0:
            return True
        # The last item that was read, at its place: the same list, or one that grew out of it.
        return self._read <= end and items[self._read - 1] is self._last

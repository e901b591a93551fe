"""`SessionMemory`: notes of one session, kept up to date while the agent works, ready when room is needed."""

from __future__ import annotations

import hashlib
import os
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from functools import partial
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

from ullage._engine import core
from ullage.compaction.cut import CompactionInput, read_source
from ullage.compaction.effects_runner import arun_flow, flow_work, run_flow
from ullage.compaction.job import Remembered
from ullage.compaction.summary_call import _map_text, filled
from ullage.counting.calibration import Weights, measure_of
from ullage.counting.media_stripping import strip_media
from ullage.effects import Call, Cancelled, Flow, Summarize, Wait
from ullage.effects.background import BackgroundRunner, Mode, Slots
from ullage.exceptions import LogConflict, StoreError, UllageError
from ullage.facts import collect
from ullage.facts.collector import Collector
from ullage.facts.model import Facts, Name, Origin, UserInput
from ullage.facts.sections import quoted
from ullage.facts.tallies import only_looks
from ullage.facts.words import Kind, blocks_of
from ullage.memory import wording
from ullage.memory.session.notes_folder import (
    CONFIG,
    MAX_BYTES,
    STATE,
    Lock,
    Notes,
    NotesFolder,
    NotesPlace,
)
from ullage.memory.session.template import (
    DEFAULT_TEMPLATE,
    FIRST,
    TITLES,
    EditsAnswer,
    Excess,
    Measure,
    NotesEdit,
    Record,
    Refusal,
    Section,
    apply_edit,
    covered_end,
    cut_notes,
    excess,
    is_blank,
    item_key,
    open_fences,
    parse_notes,
    read_answer,
    read_record,
    safe_end,
    write_record,
)
from ullage.messages import Item, role_of
from ullage.observe.events import (
    Event,
    Listener,
    SessionMemoryFinished,
    SessionMemoryStarted,
    tell,
)
from ullage.policy import SessionMemoryPolicy
from ullage.providers.errors import classify
from ullage.recall.store import file_stem
from ullage.summarizers import extractive, lines as summary_lines
from ullage.summarizers.budgeted_text import Unit, allot, cost, fill, inline, one_line
from ullage.summarizers.lines import model_writer_of
from ullage.summarizers.protocol import SummaryReply, SummaryRequest, Writer, WriterLike

# Notes without a model: the ten sections filled with copies and counts from the conversation (SM-1).
#
# Each fact is one line, so that the user's lines can be distinguished: every line that the last update did not write is theirs.

_ALL = 1 << 40

_NAMES = "Codebase and System Documentation"
"""The section that lists the names in use: what an agent needs most to continue, and so the largest share."""

_NAMES_IN_ROW = 30

# Characters of the assistant's newest words and of a message of the user, where there is room and where there is not.
_NEWEST_CHARS, _ASKED_CHARS = (2_400, 700), (1_500, 600)
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

    Headings decide where lines go, sections of other names are left alone. `generated` are the lines that the last update
    wrote, `removed` hashes of lines that a user took out before.
    """
    sections = parse_notes(notes)
    written = {s.title: _written(s, generated.get(s.title, ())) for s in sections}
    present = {s.title: set(s.body.split("\n")) for s in sections}
    lines_removed = list(removed)
    for title, lines in generated.items():
        lines_removed += [_hash(line) for line in lines if line not in present.get(title, ())]
    hashes = set(lines_removed)
    frame = "\n\n".join(s.text(written[s.title]) for s in sections)
    room = max(total_tokens - measure(frame), 0)
    rooms = {s.title: section_tokens - measure(s.text(written[s.title])) for s in sections}
    units = {
        title: [
            unit
            for unit in map(_on_a_line, write(facts))
            if hashes.isdisjoint((_hash(unit.text), _hash(unit.short)))
        ]
        for title, (_, write) in _SECTIONS.items()
        if title in rooms
    }
    names = summary_lines.candidates(facts) if _NAMES in rooms else []
    for share in (100, 85, 70, 50, 30, 0):
        # Budgets are in bytes, limits in tokens: the first budget that meets the limits is used.
        limits = {title: max(tokens, 0) * share // 100 for title, tokens in rooms.items()}
        copied = _copied_lines(units, names, room * share // 100, limits)
        bodies = {}
        for title, rows in copied.items():
            skipped = set(written[title].split("\n"))
            new = (line for line in rows if line not in skipped)
            bodies[title] = [line for line in new if _hash(line) not in hashes]
        texts = [
            s.text("\n".join(filter(None, (written[s.title], *bodies.get(s.title, ())))))
            for s in sections
        ]
        fits = all(measure(t) <= section_tokens or share == 0 for t in texts)
        if share == 0 or (fits and measure("\n\n".join(texts)) <= total_tokens):
            break
    ours = {title: tuple(bodies[title]) for title in written if bodies.get(title)}
    return Merged("\n\n".join(texts) + "\n", ours, tuple(dict.fromkeys(lines_removed)))


def _on_a_line(unit: Unit) -> Unit:
    """A path or a name may contain line ends, followed by a heading."""
    return unit._replace(text=_flat(unit.text), short=_flat(unit.short))


def _hash(line: str) -> str:
    return hashlib.sha256(line.encode("utf-8", "replace")).hexdigest()[:16]


def _written(section: Section, ours: Sequence[str]) -> str:
    """What a user or a model wrote in a section: all lines but ours; inside code fences none is ours."""
    left, lines = Counter(ours), []
    for line, inside in open_fences(section.body):
        if not inside and left[line] > 0:
            left[line] -= 1
        else:
            lines.append(line)
    return "\n".join(lines).strip("\n").rstrip()


def _copied_lines(
    units: Mapping[str, Sequence[Unit]],
    names: Sequence[Name],
    tokens: int,
    limits: Mapping[str, int],
) -> dict[str, list[str]]:
    """The lines of each section, within its limit and a budget for all in UTF-8 bytes / 4."""
    wants: dict[int, int] = {}
    shares: dict[int, int] = {}
    for at, title in enumerate(units):
        want = sum(cost(unit.text) for unit in units[title])
        if title == _NAMES:
            want += summary_lines.names_tokens(names)
        wants[at], shares[at] = min(want, limits[title]), _SECTIONS[title][0]
    budgets = dict(zip(units, allot(wants, shares, tokens).values(), strict=True))
    copied = {title: fill(units[title], budgets[title]) for title in units}
    rows = {title: [row for row in text.split("\n") if row] for title, text in copied.items()}
    if _NAMES in rows:
        left = budgets[_NAMES] - cost(copied[_NAMES])
        rows[_NAMES] += _name_rows(names, "\n".join(copied.values()), left)
    return rows


def _name_rows(named: Sequence[Name], present: str, tokens: int) -> list[str]:
    """The names in use that no other section holds, best first, a few in each row."""
    rows: list[str] = []
    # The beginnings of the rows take about a tenth.
    room = max(tokens, 0) * 9 // 10
    for line in summary_lines.names(named, present, room)[0].split("\n"):
        head, _, listed = _flat(line).partition(": ")
        names = listed.split(", ") if listed else []
        rows += [
            f"{head}: {', '.join(names[at : at + _NAMES_IN_ROW])}"
            for at in range(0, len(names), _NAMES_IN_ROW)
        ]
    return rows


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
        plan_mode = "- Plan mode is on: nothing may be changed before the plan is approved"
        units.append(Unit(plan_mode, 0))
    tasks = [task for task in facts.tasks if task.open and task.subject]
    units += [Unit(summary_lines.task_line(task), 1 + at) for at, task in enumerate(tasks)]
    units += [Unit(summary_lines.work_line(work), 1) for work in facts.still_open]
    units += [unit._replace(rank=2 + unit.rank) for unit in extractive.current_work(facts)]
    if facts.statements:
        whole, short = (
            f"- The assistant's newest words: “{one_line(facts.statements[-1].text, chars)}”"
            for chars in _NEWEST_CHARS
        )
        units.append(Unit(whole, 0, short=short))
    return units


def _flat(text: str) -> str:
    return " ".join(text.split())


def _task(facts: Facts) -> list[Unit]:
    prompts = [entry for entry in facts.inputs if entry.kind is not Kind.HOST]
    last = len(prompts) - 1
    units = []
    for at, entry in enumerate(prompts):
        whole, short = (f"- {_asked(at, entry, chars)}" for chars in _ASKED_CHARS)
        units.append(Unit(whole, 0 if at in (0, last) else last - at, short=short))
    if plan := one_line(facts.plan, 800):
        units.append(Unit(f"- Approved plan: {inline(plan, 800)}", 1))
    return units


def _asked(at: int, entry: UserInput, chars: int) -> str:
    about = f" (asked: “{one_line(entry.question, 150)}”)" if entry.question else ""
    refusing = " (refusing a tool call)" if entry.kind is Kind.FEEDBACK else ""
    return f"User {at + 1}{about}{refusing}: “{one_line(entry.text, chars)}”"


def _files(facts: Facts) -> list[Unit]:
    ordered = sorted(facts.files, key=lambda file: (-file.last, file.path))
    return [
        Unit(summary_lines.file_line(file), at + (0 if file.changed else 30))
        for at, file in enumerate(ordered)
    ]


def _workflow(facts: Facts) -> list[Unit]:
    runs = Counter(command.text for command in facts.commands)
    newest = {command.text: command for command in facts.commands}
    units = []
    for at, command in enumerate(sorted(newest.values(), key=lambda command: command.index)):
        times = f", {runs[command.text]} times" if runs[command.text] > 1 else ""
        text = f"- {inline(command.text, 160)}{times}{summary_lines.command_end(command)}"
        looks = summary_lines.RAN * only_looks(command.text)
        units.append(Unit(text, len(newest) - at + looks))
    return units


def _errors(facts: Facts) -> list[Unit]:
    refusals = [entry.text for entry in facts.inputs if entry.kind is Kind.FEEDBACK]
    units = [Unit(f"- The user refused a call: “{one_line(text, 400)}”", 0) for text in refusals]
    return [*units, *extractive.errors(facts)]


def _documentation(facts: Facts) -> list[Unit]:
    urls = facts.urls[-20:]
    return [Unit(f"- {url}", len(urls) - at) for at, url in enumerate(urls)]


def _learnings(facts: Facts) -> list[Unit]:
    first = 2 * summary_lines.ESSENTIAL
    rules = [rule for rule in facts.standing if rule.origin is not Origin.HOST]
    units = [
        Unit(summary_lines.rule_line(rule), len(rules) - at - first)
        for at, rule in enumerate(rules)
    ]
    dated = [*summary_lines.answers(facts), *summary_lines.settled(facts)]
    return units + [unit for _, unit in sorted(dated, key=itemgetter(0))]


def _results(facts: Facts) -> list[Unit]:
    """What was found and reported, passage by passage, those first that tell most; commits, answers of sub-agents."""
    course = summary_lines.course_units(facts, in_turns=False).remarks
    dated = [(at, Unit(f"{unit.lead} {unit.text}", unit.rank)) for at, unit in course]
    dated += [*summary_lines.agents(facts), *summary_lines.commits(facts)]
    return [unit for _, unit in sorted(dated, key=itemgetter(0))]


def _worklog(facts: Facts) -> list[Unit]:
    inputs = facts.inputs
    ends = [*(entry.index for entry in inputs[1:]), _ALL]
    rows = []
    for at, (entry, end) in enumerate(zip(inputs, ends, strict=False)):
        steps = [step for step in facts.steps if entry.index <= step.index < end]
        changed = sum(step.action in summary_lines.CHANGES for step in steps)
        failed = sum(step.ok is False for step in steps)
        row = f"- {at + 1}. “{one_line(entry.text, 100)}”"
        row += f" → {len(steps)} calls" if steps else ""
        row += f", {changed} changes" if changed else ""
        row += f", {failed} failed" if failed else ""
        rows.append(Unit(row, len(inputs) - at))
    return rows


# Most of the room is for what is needed to continue; a section has at most what its limit allows, and the others share the rest.
_SECTIONS: Mapping[str, tuple[int, Callable[[Facts], list[Unit]]]] = dict(
    zip(
        TITLES,
        (
            (1, _title),
            (12, _state),
            (16, _task),
            (8, _files),
            (3, _workflow),
            (8, _errors),
            (150, _documentation),
            (8, _learnings),
            (60, _results),
            (2, _worklog),
        ),
        strict=True,
    )
)


class FactsFeed:
    """Collects facts of a list that only grows, nothing twice; another list starts again."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._collector = Collector()
        self._read = 0
        self._last: Item | None = None

    def up_to(self, items: Sequence[Item], end: int) -> Facts:
        """The facts of `items[:end]`; a list or an end before the previous one is read from its start."""
        with self._lock:
            # The last item that was read, at its place: the same list, or one that grew out of it.
            grown = self._read <= end and (not self._read or items[self._read - 1] is self._last)
            if not grown:
                self._collector, self._read = Collector(), 0
            for index in range(self._read, end):
                self._collector.feed(index, items[index])
            self._read = end
            self._last = items[end - 1] if end else None
            return self._collector.finish()


# The editing loop: a model that is shown the conversation and the notes, and may do one thing, edit them (SM-3).
#
# It uses the summarizer protocol, in text, so that every summarizer can do it, and the prefix that it shares with the
# main loop needs no additional tool.

MAX_TURNS = 4  # responses of one update: the edits, and corrections of failed ones
OUTPUT_TOKENS = 16_000  # tokens for a response: it may rewrite all notes

PLAIN_SYSTEM = (
    "You keep the notes of a working session: exact, dense, only what the conversation says."
)
"""System prompt where the main loop's is not shared."""

MAX_CHARS = MAX_BYTES // 4  # of the notes after an edit: a character has up to four bytes


@dataclass(slots=True)
class NotesDraft:
    """The edits that the model requested."""

    text: str  # the notes with those that fit
    end: int  # position after the last message that it was shown
    edits: list[NotesEdit] = field(default_factory=list)  # those that fit, in order
    refusals: list[Refusal] = field(default_factory=list)  # everything else that it tried
    calls: int = 0  # calls that were made
    problem: str = ""  # why nothing may be written; empty: there is no problem


def _edits_flow(part: _Part) -> Flow[NotesDraft]:
    """Asks for edits, in the first of the summarizer's call modes that works.

    A conversation too long for the model is absorbed in part: the newest rounds are left to the next update, so that
    what the notes cover stays without a gap.
    """
    calls = 0
    draft = NotesDraft(part.loaded.text, part.end, problem="the summarizer has no call mode")
    prompt = update_prompt(
        template=part.loaded.prompt,
        notes=part.loaded.text,
        path=shown_path(part.job.folder),
        over=part.over(),
        section_tokens=part.job.policy.section_max_tokens,
    )
    for mode in getattr(part.job.summarizer, "modes", ("plain",)):
        end = part.end
        while True:
            draft, too_long = yield from _attempt(part, prompt, mode, end)
            calls += draft.calls
            if not too_long or mode != "plain":
                break
            starts = core.Ledger(None, part.source.context).rounds(part.start, end)
            if len(starts) < 2:
                break
            end = int(starts[len(starts) // 2])
        if not draft.problem:
            break
    draft.calls = calls
    return draft


def _attempt(part: _Part, prompt: str, mode: str, end: int) -> Flow[tuple[NotesDraft, bool]]:
    """One conversation with the model about the part up to `end`; and whether that was too long for it."""
    path, shared = shown_path(part.job.folder), mode == "shared"
    messages: list[Mapping[str, Any]] = _shown(part, end, shared=shared)
    if (redact := part.job.redact) is not None:
        prompt = redact(prompt)
        messages = [_map_text(message, redact) for message in messages]
    draft = NotesDraft(part.loaded.text, end)
    for attempt in range(1, MAX_TURNS + 1):
        draft.calls = attempt
        request = SummaryRequest(
            messages=tuple(messages),
            prompt=prompt,
            mode="shared" if shared else "plain",
            system=None if shared else PLAIN_SYSTEM,
            max_output_tokens=OUTPUT_TOKENS,
            deadline_seconds=part.job.policy.stale_seconds,
            attempt=attempt,
            source="session_memory",
        )
        try:
            reply = yield Summarize(request, part.job.summarizer)
        except Cancelled:
            raise
        except Exception as exc:
            draft.problem = f"the call failed: {type(exc).__name__}: {exc}"[:300]
            return draft, classify(exc).is_overflow
        reply = SummaryReply(text=reply) if isinstance(reply, str) else reply
        if reply.is_refusal:
            draft.problem = "the model refused"
            return draft, False
        answer = read_answer(reply, path)
        draft.text, edits, refused = _apply(draft.text, answer)
        draft.edits += edits
        draft.refusals += refused
        if not refused and not reply.is_cut_off and (answer.done or answer.edits):
            return draft, False
        messages.append({"role": "user", "content": prompt})
        messages.append({"role": "assistant", "content": reply.text.strip() or "(no text)"})
        prompt = _again(len(answer.edits), refused, cut=reply.is_cut_off)
    draft.problem = "" if draft.edits else "no edit that could be done"
    return draft, False


def _shown(part: _Part, end: int, *, shared: bool) -> list[Mapping[str, Any]]:
    if shared:
        return [*part.source.bare(0, end)]
    messages = strip_media(part.source.bare(part.start, end, plain=True))
    if messages and role_of(messages[0]) == "user":
        return messages
    before = "[What came before this is in the notes.]"
    return [{"role": "user", "content": before}, *messages]


def _apply(notes: str, answer: EditsAnswer) -> tuple[str, list[NotesEdit], list[Refusal]]:
    """The notes with the edits of an answer, those that were done, and all that was refused."""
    done, refused = [], list(answer.refusals)
    for edit in answer.edits:
        changed = apply_edit(notes, edit, max_chars=MAX_CHARS)
        if isinstance(changed, Refusal):
            refused.append(changed)
        else:
            notes = changed
            done.append(edit)
    return notes, done, refused


def _again(edits: int, refused: Sequence[Refusal], *, cut: bool) -> str:
    """What the model is asked after a response that was not the last."""
    kinds = ("not_found", "ambiguous", "structure", "size")
    failed = sum(refusal.kind in kinds for refusal in refused)
    lead = f"{max(edits - failed, 0)} edits were done."
    if cut:
        lead += " Your answer was cut off at its length limit; what was complete counts."
    rows = [f"- {refusal.line()}" for refusal in refused[:20]]
    ask = "Give the edits that are still needed in the form that was shown, then `<done/>`; only `<done/>` if none are."
    return "\n".join([lead, *rows, ask])


def update_prompt(
    *, template: str, notes: str, path: str, over: Excess, section_tokens: int
) -> str:
    """The last user message of an update; `template` is that of `prompts.toml`, or what a user put in its place (SM-6)."""
    # Fenced, so that nothing in the notes can end the quotation.
    values = {"currentNotes": quoted(notes, "markdown"), "notesPath": path}
    parts = [
        filled(template, values),
        _demands(over, section_tokens),
        filled(wording("edit_notes"), values),
    ]
    return "\n\n".join(part for part in parts if part)


def _demands(over: Excess, section_tokens: int) -> str:
    if not over:
        return ""
    rows = [
        f"- {title}: about {tokens:,} tokens, at most {section_tokens:,}"
        for title, tokens in over.sections
    ]
    lead = f"The notes are too long: about {over.total:,} tokens, at most {over.limit:,} in total."
    if over.total <= over.limit:
        lead = "Some sections are too long."
    first = " and ".join(f'"{title}"' for title in FIRST)
    how = f"First shorten them, by merging and by removing what is settled; shorten {first} last."
    return "\n".join([lead, *rows, how])


class UpdateOutcome(StrEnum):
    """How an update ended. Only after the first two has the conversation been absorbed."""

    UPDATED = "updated"
    UNCHANGED = "unchanged"  # there was nothing to write
    CONFLICT = "conflict"  # the user changed the same lines meanwhile: theirs stay
    FAILED = "failed"
    BUSY = "busy"  # another updater is at work
    DROPPED = "dropped"  # no longer wanted, or nothing new
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateReport:
    """The result of an update."""

    outcome: UpdateOutcome  # how it ended
    reason: str = ""  # why, unless `updated`
    covered: str = ""  # name of the last message that the notes now hold; empty: it did not move
    absorbed: int = 0  # messages that were read
    edits: int = 0  # edits that were applied
    # What the model tried in addition, and was refused.
    refusals: tuple[Refusal, ...] = field(default=(), repr=False)
    conflicts: int = 0  # edits that were lost to a user's change
    # Titles of sections that are too long; the next update is asked to shorten them.
    over: tuple[str, ...] = ()
    calls: int = 0  # calls of the summarizer; 0: no model was asked
    chars: int = 0  # length of the notes
    updater: str = ""  # the name of the summarizer; `copies`: code

    @property
    def absorbed_all(self) -> bool:
        """Whether the notes now cover what the update read."""
        return self.outcome in (UpdateOutcome.UPDATED, UpdateOutcome.UNCHANGED)

    def __repr__(self) -> str:
        why = f", {self.reason}" if self.reason else ""
        return (
            f"UpdateReport({self.outcome.value}{why}, {self.absorbed} messages, {self.edits} edits)"
        )


MERGES = 5  # tries to merge an update with the changes of a user who saves at the same time


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateJob:
    """What an update needs to know, fixed before it starts."""

    # The conversation as the model sees it: bare messages or entries, oldest first.
    items: Sequence[Item] = field(repr=False)
    folder: NotesPlace  # folder of the notes
    session_id: str = ""  # their session; empty: not compared
    policy: SessionMemoryPolicy = field(default_factory=SessionMemoryPolicy, repr=False)  # limits
    # Further folders that may hold `template.md` and `prompt.md`, after the notes' own `config`.
    config: tuple[NotesPlace, ...] = ()
    # The model that edits; `None`: the notes are made of copies, without a model.
    summarizer: Writer | None = None
    # Facts of the conversation up to a position in `items`; `None`: collected from `items`.
    facts: Callable[[int], Facts] | None = field(default=None, repr=False)
    weights: Weights | None = field(default=None, repr=False)  # for the estimate; `None`: rough
    # Applied to all text that is sent to the model; `None`: nothing.
    redact: Callable[[str], str] | None = field(default=None, repr=False)
    # Called before the work begins, to decide whether to run; `None`: always.
    wanted: Callable[[], bool] | None = field(default=None, repr=False)
    # Called with the lock, so that a stuck update can be abandoned; `None`: not called.
    locked: Callable[[Lock], None] | None = field(default=None, repr=False)


class Loaded(NamedTuple):
    """The contents of the folder: notes, record, template and prompt in use."""

    notes: Notes
    record: Record
    template: str
    prompt: str

    @property
    def text(self) -> str:
        """The notes, or the empty form where there are none."""
        return self.notes.text if self.notes.exists else self.template


def shown_path(folder: NotesPlace) -> str:
    """The path as shown to the model: quotation marks and line ends have no place in an edit."""
    path = str(folder.notes_path)
    return path if path.isprintable() and not set(path) & set("\"'<>") else folder.notes_path.name


def load(folder: NotesPlace, config: Sequence[NotesPlace] = ()) -> Loaded:
    """Everything in the folder; `StoreError`: some of it cannot be read."""
    return Loaded(
        folder.read(),
        read_record(folder.read_bytes(STATE)),
        _configured("template.md", folder, config) or DEFAULT_TEMPLATE,
        _configured("prompt.md", folder, config) or wording("update_notes"),
    )


def _configured(name: str, folder: NotesPlace, config: Sequence[NotesPlace]) -> str:
    for place, inside in [(folder, CONFIG), *((other, "") for other in config)]:
        data = place.read_bytes(name, inside=inside)
        if data is not None and data.strip():
            return data.decode("utf-8-sig", "replace").replace("\r\n", "\n")
    return ""


def update_flow(job: UpdateJob) -> Flow[UpdateReport]:
    """Update the notes. Errors are never raised; unless the report says `updated`, the notes are as they were."""
    try:
        lock = yield Call(job.folder.lock)
    except LogConflict:
        return UpdateReport(outcome=UpdateOutcome.BUSY, reason="another update is running")
    except Cancelled:
        return UpdateReport(outcome=UpdateOutcome.CANCELLED, reason="cancelled")
    except StoreError as exc:
        return UpdateReport(outcome=UpdateOutcome.FAILED, reason=str(exc))
    try:
        if job.locked is not None:
            job.locked(lock)
        part = yield Call(_prepared, (job,))
        if isinstance(part, UpdateReport):
            return part
        absorb = _by_copies if job.summarizer is None else _by_model
        return (yield from absorb(part, lock))
    except Cancelled:
        return UpdateReport(outcome=UpdateOutcome.CANCELLED, reason="cancelled")
    except LogConflict:
        return UpdateReport(outcome=UpdateOutcome.DROPPED, reason="given up as stuck")
    except UllageError as exc:
        return UpdateReport(outcome=UpdateOutcome.FAILED, reason=str(exc)[:500])
    finally:
        lock.release()


def _prepared(job: UpdateJob) -> _Part | UpdateReport:
    """The part to be absorbed, or why there is none."""
    loaded = load(job.folder, job.config)
    if foreign(loaded.record, job.session_id):
        reason = "the notes belong to another session"
        return UpdateReport(outcome=UpdateOutcome.FAILED, reason=reason)
    source = read_source(job.items)
    end = safe_end(source.context)
    start = covered_end(source.stored, loaded.record.covered) or 0
    if end <= start or (job.wanted is not None and not job.wanted()):
        reason = "nothing new" if end <= start else "no longer wanted"
        return UpdateReport(outcome=UpdateOutcome.DROPPED, reason=reason)
    return _Part(job, loaded, source, start, end)


def foreign(record: Record, session_id: str) -> bool:
    """Whether notes belong to another session."""
    return bool(record.session_id and session_id and record.session_id != session_id)


@dataclass(frozen=True, slots=True)
class _Part:
    """Which part of the conversation is to be absorbed: `[start, end)` of the context."""

    job: UpdateJob
    loaded: Loaded
    source: CompactionInput
    start: int
    end: int

    @property
    def covered(self) -> str:
        return item_key(self.source.stored[self.end - 1])

    def record(self, written: str, **changes: Any) -> Record:
        """The record after the update; `written` is the digest of the notes."""
        old = self.loaded.record
        session_id = self.job.session_id or old.session_id
        return replace(old, session_id=session_id, written=written, exists=True, **changes)

    def over(self, text: str | None = None) -> Excess:
        """What is too long in the notes, or in another text."""
        policy = self.job.policy
        return excess(
            self.loaded.text if text is None else text,
            section_tokens=policy.section_max_tokens,
            total_tokens=policy.total_max_tokens,
            measure=measure_of(self.job.weights),
        )

    def report(self, text: str, **more: Any) -> UpdateReport:
        """The report of an update that came to its end."""
        titles = tuple(title for title, _ in self.over(text).sections)
        absorbed = self.end - self.start
        return UpdateReport(absorbed=absorbed, over=titles, chars=len(text), **more)


def _commit(
    part: _Part, lock: Lock, make: Callable[[str], tuple[str, Any]]
) -> Flow[tuple[str, Any, str]]:
    """Write what `make` returns for the notes, again while the user saves in between: both, and the digest of the notes."""
    folder, notes = part.job.folder, part.loaded.notes
    for _ in range(MERGES):
        # Counting and merging take a moment: not in the event loop.
        base = notes.text if notes.exists else part.loaded.template
        text, extra = yield Call(make, (base,))
        if notes.exists and text == notes.text:
            return text, extra, notes.digest
        if not part.loaded.record.exists:
            # The session that owns the notes is on the disk before the first note is.
            yield from _save(part, lock, part.record(notes.digest))
        if (yield Call(partial(folder.commit, text, based_on=notes.digest, lock=lock))):
            written: Notes = yield Call(folder.read)
            return text, extra, written.digest
        notes = yield Call(folder.read)
    raise StoreError(
        "changed again and again while it was being updated", path=str(folder.notes_path)
    )


def _save(part: _Part, lock: Lock, record: Record) -> Flow[None]:
    yield Call(partial(part.job.folder.save, write_record(record), lock=lock))


def _by_copies(part: _Part, lock: Lock) -> Flow[UpdateReport]:
    """Without a model."""
    job, record = part.job, part.loaded.record
    facts: Facts = yield (
        Call(collect, (part.source.context[: part.end],))
        if job.facts is None
        else Call(job.facts, (part.end,))
    )

    def make(text: str) -> tuple[str, Merged]:
        if not any(section.title in TITLES for section in parse_notes(text)):
            # Code has lines for its own headings only: they follow those of a template that has none of them.
            text = f"{text.rstrip()}\n\n{DEFAULT_TEMPLATE}".lstrip()
        new_text = merged(
            text,
            facts,
            generated=record.generated,
            removed=record.removed,
            section_tokens=job.policy.section_max_tokens,
            total_tokens=job.policy.total_max_tokens,
            measure=measure_of(job.weights),
        )
        return new_text.text, new_text

    text, extra, digest = yield from _commit(part, lock, make)
    changes = {"generated": extra.generated, "removed": extra.removed}
    yield from _save(part, lock, part.record(digest, covered=part.covered, **changes))
    outcome = UpdateOutcome.UPDATED if text != part.loaded.notes.text else UpdateOutcome.UNCHANGED
    return part.report(text, outcome=outcome, covered=part.covered, updater="copies")


def _by_model(part: _Part, lock: Lock) -> Flow[UpdateReport]:
    draft: NotesDraft = yield from _edits_flow(part)
    part = replace(part, end=draft.end)
    length = len(part.loaded.text)
    loses_most = length > SHORT and len(draft.text) * LEAST_KEPT < length
    if loses_most and not draft.problem and not part.over():
        draft.problem = "the notes would lose most of what they say"
    events: dict[str, Any] = {
        "refusals": tuple(draft.refusals),
        "calls": draft.calls,
        "updater": str(getattr(part.job.summarizer, "name", "model")),
    }
    if draft.problem:
        outcome = UpdateOutcome.FAILED
        return part.report(part.loaded.text, outcome=outcome, reason=draft.problem, **events)

    def replayed(text: str) -> tuple[str, int]:
        """The notes with the edits, and how many could not be done."""
        text, _, refused = _apply(text, EditsAnswer(draft.edits))
        return text, len(refused)

    text, lost, digest = yield from _commit(part, lock, replayed)
    events.update(edits=len(draft.edits) - lost, conflicts=lost)
    if lost:
        # The user's version stays; since part of the update is missing from the notes, they cover no more than before.
        yield from _save(part, lock, part.record(digest))
        reason = "the notes were changed meanwhile"
        return part.report(text, outcome=UpdateOutcome.CONFLICT, reason=reason, **events)
    yield from _save(part, lock, part.record(digest, covered=part.covered))
    outcome = UpdateOutcome.UPDATED if draft.edits else UpdateOutcome.UNCHANGED
    return part.report(text, outcome=outcome, covered=part.covered, **events)


LEAST_KEPT = 4
"""An update that leaves less than 1/4 of notes that are not too long is a mistake, or was induced by injected text."""

SHORT = 2_000  # characters below which notes may be replaced as a whole


# Decides when the notes are updated (SM-2), from the growth of the conversation, without side effects.

MOST_DOUBLINGS = 5  # after failures the required growth doubles, up to 32 times

_CALLS = ("tool_use", "server_tool_use", "mcp_tool_use")


@dataclass(frozen=True, slots=True)
class Progress:
    """What has happened since the last update began."""

    begun: bool = False  # there has been an update
    tokens: int = 0  # size of the conversation at the last update, or after the newest compaction
    tool_calls: int = 0  # calls since
    last_called: bool = False  # the newest response called a tool
    failures: int = 0  # updates in a row that failed

    def answered(self, response: Mapping[str, Any]) -> Progress:
        """After a response of the model; other messages change nothing."""
        if role_of(response) != "assistant":
            return self
        calls = sum(block.get("type") in _CALLS for block in blocks_of(response))
        return replace(self, tool_calls=self.tool_calls + calls, last_called=calls > 0)

    def updating(self, tokens: int) -> Progress:
        """After an update has begun at this size."""
        return replace(self, begun=True, tokens=tokens, tool_calls=0)

    def ended(self, *, well: bool) -> Progress:
        """After an update."""
        return replace(self, failures=0 if well else self.failures + 1)


class Due(NamedTuple):
    """Whether an update is due, and why or why not."""

    update: bool
    why: str


def update_due(
    policy: SessionMemoryPolicy, progress: Progress, tokens: int, *, source: str = "main"
) -> Due:
    """Whether the notes should be updated now, at this size; `source` is who asked for the response: only `main` counts."""
    if source != "main":
        return Due(False, f"source {source}")
    if not progress.begun:
        if tokens < policy.start_tokens:
            return Due(False, f"{tokens:,} of {policy.start_tokens:,} tokens")
        return Due(True, "first")
    wanted = policy.growth_tokens << min(progress.failures, MOST_DOUBLINGS)
    grown = tokens - progress.tokens
    if grown < wanted:
        return Due(False, f"grown by {grown:,} of {wanted:,} tokens")
    if progress.tool_calls >= policy.tool_calls:
        return Due(True, f"grown by {grown:,} tokens, {progress.tool_calls} calls")
    if not progress.last_called:
        return Due(True, f"grown by {grown:,} tokens, the turn has ended")
    return Due(False, f"{progress.tool_calls} of {policy.tool_calls} calls")


# The notes for a compaction: wait for an update, read, check, cut (KEEP-1, KEEP-5). No model is asked.

# An update ends in another thread, and what waits may be an event loop's: there is nothing to be woken by.
POLL_SECONDS = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class NotesState:
    """The notes of a session as they are on the disk."""

    path: str  # of the notes
    exists: bool  # whether there are any
    blank: bool  # they are still empty
    text: str = field(repr=False)
    tokens: int  # of all sections
    # Title, tokens, and lines that code wrote, for each section.
    sections: tuple[tuple[str, int, int], ...] = field(repr=False)
    session_id: str  # whose notes; empty: unknown
    known: bool  # there is a record of how far they reach
    covered: str  # name of the last message that they hold; empty: unknown
    # Messages of the conversation up to it; `None`: it is not in this conversation.
    absorbed: int | None
    messages: int  # of the conversation
    absorbable: int  # messages that an update could absorb now


FOLDER = "session-memory"

MOST_REPORTS = 50


class SessionMemory:
    """Keeps the notes of one session up to date while its agent works; a compaction then needs no model.

    Call `answered` with each response and `compacted` after each compaction, and pass it to `compact(memory=…)` or to
    a `ContextManager`. It works in the background: on a thread, or as a task where an event loop runs.

    Args:
        folder: Folder of `summary.md`, used for nothing else, created with the first notes; or another place, such as
            `ullage.stores.StoredNotes`, which workers share.
        session_id: The session of the notes; those of another session are neither used nor changed. Empty: not compared.
        policy: Thresholds; with `enabled=False` nothing is updated automatically. `None`: the defaults, enabled.
        summarizer: The model that edits the notes, its name, or a function, see `compact`; `None`, or one without a
            model: code copies facts.
        config: Further folders that may hold `template.md` and `prompt.md`, after `config` in the notes' own folder.
        weights: For the estimate of lengths; `None`: rough.
        redact: Applied to all text that is sent to the model; `None`: nothing.
        listeners: Called with each update.
        mode: `auto` (a task where an event loop runs, else a thread), `thread` or `inline` (at once, in the caller: for tests and
            replays).
        slots: Shared by the sessions of one host; `None`: no common limit.

    Example:
        >>> import tempfile
        >>> memory = SessionMemory(tempfile.mkdtemp(), mode="inline")
        >>> memory.update([{"role": "user", "content": "Fix the login page"}]).outcome.value
        'updated'
        >>> "Fix the login page" in memory.notes()
        True
    """

    def __init__(
        self,
        folder: str | os.PathLike[str] | NotesPlace,
        *,
        session_id: str = "",
        policy: SessionMemoryPolicy | None = None,
        summarizer: WriterLike | None = None,
        config: Iterable[str | os.PathLike[str]] = (),
        weights: Weights | None = None,
        redact: Callable[[str], str] | None = None,
        listeners: Iterable[Listener] = (),
        mode: Mode = "auto",
        slots: Slots | None = None,
    ) -> None:
        policy = policy or SessionMemoryPolicy(enabled=True)
        writer = model_writer_of(summarizer)
        # What all updates have in common. A summarizer without a model cannot edit: code does.
        self._set = UpdateJob(
            items=(),
            folder=NotesFolder(folder) if isinstance(folder, str | os.PathLike) else folder,
            session_id=session_id,
            policy=policy,
            summarizer=None if getattr(writer, "local", False) is True else writer,
            config=tuple(NotesFolder(folder_path) for folder_path in config),
            weights=weights,
            redact=redact,
        )
        self._heard = tuple(listeners)
        self._background = BackgroundRunner(
            "ullage-memory", mode=mode, slots=slots, stale_seconds=policy.stale_seconds
        )
        self._progress = Progress()
        self._feed = FactsFeed()
        self._guard = threading.Lock()
        self._closed = False
        self.reports: deque[UpdateReport] = deque(maxlen=MOST_REPORTS)

    @classmethod
    def for_session(
        cls,
        root: str | os.PathLike[str],
        session_id: str,
        *,
        policy: SessionMemoryPolicy | None = None,
        summarizer: WriterLike | None = None,
        config: Iterable[str | os.PathLike[str]] | None = None,
        weights: Weights | None = None,
        redact: Callable[[str], str] | None = None,
        listeners: Iterable[Listener] = (),
        mode: Mode = "auto",
        slots: Slots | None = None,
    ) -> SessionMemory:
        """The notes of a session in a project's folder: `root/SESSION/session-memory`.

        Template and prompt for all sessions may be in `root/session-memory/config`.

        Args:
            root: The project's folder.
            session_id: Any string; no id can name a place outside of the root.
            policy: This and the others: see `SessionMemory`.
            summarizer: The model that edits the notes; `None`: code copies facts.
            config: Further folders for template and prompt; `None`: the one above.
            weights: For the estimate of lengths; `None`: rough.
            redact: Applied to all text that is sent to the model; `None`: nothing.
            listeners: Called with each update.
            mode: `auto`, `thread` or `inline`.
            slots: Shared by the sessions of one host; `None`: no common limit.
        """
        home = Path(root) / file_stem(session_id)
        folder = NotesFolder(home / FOLDER, guarded=(home,))
        return cls(
            folder,
            session_id=session_id,
            policy=policy,
            summarizer=summarizer,
            config=(Path(root) / FOLDER / "config",) if config is None else config,
            weights=weights,
            redact=redact,
            listeners=listeners,
            mode=mode,
            slots=slots,
        )

    @property
    def path(self) -> Path:
        """The file of the notes; in a store, what they are called."""
        return self._set.folder.notes_path

    @property
    def policy(self) -> SessionMemoryPolicy:
        """The thresholds."""
        return self._set.policy

    def __repr__(self) -> str:
        return f"SessionMemory({str(self.path)!r})"

    def answered(
        self,
        response: Item,
        items: Sequence[Item],
        *,
        tokens: int,
        source: str = "main",
        history: Sequence[Item] | None = None,
    ) -> Due:
        """Record a response, and start an update if one is due; returns immediately.

        Args:
            response: The model's response.
            items: The conversation as the model sees it, the response at its end. Copied if an update begins.
            tokens: Its size.
            source: The part of the host that asked; only `main` starts updates.
            history: The whole conversation, append-only, with the same end as `items`; facts are then read incrementally
                and not again. `None`: `items`.

        Returns:
            Whether an update is due, and why or why not.
        """
        policy = self._set.policy
        if self._closed or not policy.enabled:
            return Due(False, "closed" if self._closed else "off")
        with self._guard:
            if source == "main":
                self._progress = self._progress.answered(response)
            due = update_due(policy, self._progress, tokens, source=source)
        if due.update:
            started = SessionMemoryStarted(reason=due.why, tokens=tokens)
            if self._begin(tuple(items), history, started) != "no_slot":
                with self._guard:
                    self._progress = self._progress.updating(tokens)
        return due

    def compacted(self, tokens: int) -> None:
        """Record a compaction: growth is counted from the new size.

        How far the notes reach is not adjusted: the message is found by its name, or it was removed with the old part.
        """
        with self._guard:
            self._progress = replace(self._progress, tokens=tokens)

    def dump(self) -> dict[str, Any]:
        """What has happened since the last update, as plain JSON; a manager saves it with the conversation."""
        with self._guard:
            return asdict(self._progress)

    def load(self, stored: Mapping[str, Any]) -> None:
        """Continue from the state of `dump`: the next update comes when it would have come.

        Raises:
            TypeError: `dump` gave something else.
        """
        with self._guard:
            self._progress = Progress(**stored)

    def _begin(
        self, items: tuple[Item, ...], history: Sequence[Item] | None, started: Event
    ) -> str:
        locks: list[Lock] = []
        whole = items if history is None else tuple(history)

        def facts(end: int) -> Facts:
            """Of all that was said before a position of what is shown; both have the same end."""
            return self._feed.up_to(whole, len(whole) - len(items) + end)

        def flow() -> Flow[UpdateReport]:
            tell(self._heard, started)
            return update_flow(replace(self._job(items), facts=facts, locked=locks.append))

        def given_up() -> None:
            for lock in locks:
                lock.release()
            self._done(UpdateReport(outcome=UpdateOutcome.DROPPED, reason="given up as stuck"))

        work = flow_work(flow, self._set.summarizer, done=self._done, given_up=given_up)
        return self._background.submit(work)

    def _job(self, items: Sequence[Item]) -> UpdateJob:
        return replace(self._set, items=items, wanted=lambda: not self._closed)

    def _done(self, result: Any) -> None:
        if result is None:
            result = UpdateReport(outcome=UpdateOutcome.CANCELLED, reason="cancelled")
        if not isinstance(result, UpdateReport):
            why = f"{type(result).__name__}: {result}"[:300]
            result = UpdateReport(outcome=UpdateOutcome.FAILED, reason=why)
        with self._guard:
            self.reports.append(result)
            if result.outcome not in (UpdateOutcome.CANCELLED, UpdateOutcome.DROPPED):
                well = result.outcome is not UpdateOutcome.FAILED
                self._progress = self._progress.ended(well=well)
        finished = SessionMemoryFinished(
            outcome=result.outcome.value,
            reason=result.reason,
            updater=result.updater,
            absorbed=result.absorbed,
            edits=result.edits,
            calls=result.calls,
            refused=tuple(refusal.line() for refusal in result.refusals),
            over=result.over,
        )
        tell(self._heard, finished)

    def listen(self, listeners: Iterable[Listener]) -> None:
        """Call these, too, with each update; a manager passes its own. One that is called already is not called twice."""
        self._heard += tuple(listener for listener in listeners if listener not in self._heard)

    def update(self, items: Sequence[Item]) -> UpdateReport:
        """Update the notes now from the conversation as the model sees it, whatever the thresholds."""
        report: UpdateReport = run_flow(update_flow(self._job(items)))
        self._done(report)
        return report

    async def aupdate(self, items: Sequence[Item]) -> UpdateReport:
        """`update`, without blocking the event loop."""
        report: UpdateReport = await arun_flow(update_flow(self._job(items)))
        self._done(report)
        return report

    def notes(self) -> str:
        """The notes; empty if there are none.

        Raises:
            StoreError: The file is not a text file of reasonable size.
        """
        return self._set.folder.read().text

    def state(self, items: Sequence[Item]) -> NotesState:
        """Compare the notes with a conversation.

        Raises:
            StoreError: See `notes`.
        """
        folder, measure = self._set.folder, measure_of(self._set.weights)
        loaded = load(folder, self._set.config)
        source = read_source(items)
        generated = loaded.record.generated
        rows = [
            (s.title, measure(s.text()), len(generated.get(s.title, ())))
            for s in parse_notes(loaded.notes.text)
        ]
        return NotesState(
            path=str(folder.notes_path),
            exists=loaded.notes.exists,
            blank=is_blank(loaded.notes.text, loaded.template),
            text=loaded.notes.text,
            tokens=sum(size for _, size, _ in rows),
            sections=tuple(rows),
            session_id=loaded.record.session_id,
            known=loaded.record.exists,
            covered=loaded.record.covered,
            absorbed=covered_end(source.stored, loaded.record.covered),
            messages=len(source.stored),
            absorbable=safe_end(source.context),
        )

    def recall_flow(
        self, items: Sequence[Item], measure: Callable[[str], int] | None = None
    ) -> Flow[Remembered | str]:
        """The notes for a compaction; see `ullage.compaction.flow.Memory`.

        Args:
            items: The conversation as the model sees it.
            measure: Tokens of a text; `None`: by the weights of this object.
        """
        policy, folder = self.policy, self._set.folder
        waited = 0.0
        # Not for a stuck update: the file on the disk is complete at any time.
        while waited < policy.wait_seconds:
            busy: float | None = yield Call(self.busy_seconds)
            if busy is None or busy > policy.stale_seconds:
                break
            yield Wait(POLL_SECONDS)
            waited += POLL_SECONDS
        try:
            loaded: Loaded = yield Call(load, (folder, self._set.config))
        except StoreError:
            return "unreadable"
        if not loaded.notes.exists:
            return "no_memory"
        if is_blank(loaded.notes.text, loaded.template):
            return "empty_template"
        if foreign(loaded.record, self._set.session_id):
            return "another_session"
        start = covered_end(items, loaded.record.covered)
        if start is None and loaded.record.exists:
            return "unknown_pointer"
        measured = measure or measure_of(self._set.weights)

        def text(tokens: int | None) -> str:
            most = policy.total_max_tokens
            return cut_notes(
                loaded.notes.text,
                section_tokens=policy.section_max_tokens,
                total_tokens=most if tokens is None else min(tokens, most),
                measure=measured,
                where=shown_path(folder),
            )

        # Notes without a record, as after a resume elsewhere: how far they reach is unknown, so only the newest part is kept.
        return Remembered(len(items) if start is None else start, text)

    def busy_seconds(self) -> float | None:
        """Seconds for which an update has been running, here or in another process; `None`: none worth waiting for."""
        if self._background.waits_for_caller():
            return None
        here = self._background.busy_seconds()
        return self._set.folder.busy_seconds() if here is None else here

    def wait(self, seconds: float | None = None) -> bool:
        """Wait for updates that run or wait; false if that took longer. In an event loop use `settled`."""
        return self._background.wait(seconds)

    async def settled(self, seconds: float | None = None) -> bool:
        """`wait`, without blocking the event loop."""
        return await self._background.settled(seconds)

    def cancel(self) -> None:
        """Stop a running update; the notes are unchanged."""
        self._background.cancel()

    def close(self) -> None:
        """Cancel, and start no more updates. The notes can still be read and used."""
        self._closed = True
        self.cancel()

"""One update of the notes as a flow of effects: read, let the model or code edit, write whole or not at all (SM-3).

The model is given the conversation and the notes, and answers with edits. Nothing is written before the last edit is in;
what a user wrote meanwhile is merged, never overwritten.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple

from ullage._engine import core
from ullage.compaction.input import CompactionInput, read_source
from ullage.counting.estimate import Weights
from ullage.effects import Call, Cancelled, Flow
from ullage.exceptions import LogConflict, StoreError, UllageError
from ullage.facts import Facts, collect
from ullage.memory.session.agent import ModelConversation, NotesDraft, talk_flow
from ullage.memory.session.extractive_notes import Merged, merged
from ullage.memory.session.ids import covered_end, item_key, safe_end
from ullage.memory.session.limits import Excess, excess
from ullage.memory.session.notes_edits import Refusal, apply_edit
from ullage.memory.session.notes_place import CONFIG, MAX_BYTES, STATE, Lock, Notes, NotesPlace
from ullage.memory.session.prompt_for_update import DEFAULT_PROMPT, update_prompt
from ullage.memory.session.record import Record, read_record, write_record
from ullage.memory.session.template import DEFAULT_TEMPLATE, TITLES, parse_notes
from ullage.memory.session.update_report import UpdateOutcome, UpdateReport
from ullage.messages import Item
from ullage.policy import SessionMemoryPolicy
from ullage.summarizers.protocol import Writer

__all__ = [
    "Loaded",
    "UpdateJob",
    "foreign",
    "load",
    "measure_of",
    "told_path",
    "update_flow",
]


COPIES = "copies"
"""Name of the updater that needs no model."""

MERGES = 5
"""Tries to merge an update with the changes of a user who saves at the same time."""

MAX_CHARS = MAX_BYTES // 4
"""Of the notes after an edit: a character has up to four bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateJob:
    """What an update needs to know, fixed before it starts.

    Attributes:
        items: The conversation as the model sees it: bare messages or entries, oldest first.
        folder: Folder of the notes.
        session_id: Their session; empty: not compared.
        policy: Limits.
        config: Further folders that may hold `template.md` and `prompt.md`, after the notes' own `config`.
        summarizer: The model that edits; `None`: the notes are made of copies, without a model.
        facts: Facts of the conversation up to a position in `items`; `None`: collected from `items`.
        weights: For the estimate; `None`: rough.
        redact: Applied to all text that is sent to the model; `None`: nothing.
        wanted: Called before the work begins, to decide whether to run; `None`: always.
        locked: Called with the lock, so that a stuck update can be abandoned; `None`: not called.
    """

    items: Sequence[Item] = field(repr=False)
    folder: NotesPlace
    session_id: str = ""
    policy: SessionMemoryPolicy = field(default_factory=SessionMemoryPolicy, repr=False)
    config: tuple[NotesPlace, ...] = ()
    summarizer: Writer | None = None
    facts: Callable[[int], Facts] | None = field(default=None, repr=False)
    weights: Weights | None = field(default=None, repr=False)
    redact: Callable[[str], str] | None = field(default=None, repr=False)
    wanted: Callable[[], bool] | None = field(default=None, repr=False)
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


def measure_of(weights: Weights | None) -> Callable[[str], int]:
    """Tokens of a text, by weights or roughly."""
    if weights is None:
        return lambda text: int(core.rough_text(text))
    return lambda text: int(core.estimate_text(text, weights))


def told_path(folder: NotesPlace) -> str:
    """The path as shown to the model: quotation marks and line ends have no place in an edit."""
    path = str(folder.notes_path)
    return path if path.isprintable() and not set(path) & set("\"'<>") else folder.notes_path.name


def load(folder: NotesPlace, config: Sequence[NotesPlace] = ()) -> Loaded:
    """Everything in the folder.

    Raises:
        StoreError: The notes, their record, the template or the prompt cannot be read.
    """
    return Loaded(
        folder.read(),
        read_record(folder.read_bytes(STATE)),
        _configured("template.md", folder, config) or DEFAULT_TEMPLATE,
        _configured("prompt.md", folder, config) or DEFAULT_PROMPT,
    )


def _configured(name: str, folder: NotesPlace, config: Sequence[NotesPlace]) -> str:
    places = [(folder, CONFIG), *((other, "") for other in config)]
    for place, inside in places:
        data = place.read_bytes(name, inside=inside)
        if data is not None and data.strip():
            return data.decode("utf-8-sig", "replace").replace("\r\n", "\n")
    return ""


def update_flow(job: UpdateJob) -> Flow[UpdateReport]:
    """Update the notes. Errors on the way are never raised; the report names them.

    Args:
        job: What and how.

    Returns:
        The report. Unless it says `updated`, the notes are as they were.
    """
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
        return (yield from _locked(job, lock))
    except Cancelled:
        return UpdateReport(outcome=UpdateOutcome.CANCELLED, reason="cancelled")
    except LogConflict:
        return UpdateReport(outcome=UpdateOutcome.DROPPED, reason="given up as stuck")
    except UllageError as exc:
        return UpdateReport(outcome=UpdateOutcome.FAILED, reason=str(exc)[:500])
    finally:
        lock.release()


def _locked(job: UpdateJob, lock: Lock) -> Flow[UpdateReport]:
    part = yield Call(_prepared, (job,))
    if isinstance(part, UpdateReport):
        return part
    if job.summarizer is None:
        return (yield from _by_copies(part, lock))
    return (yield from _by_model(part, lock))


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
        own = self.job.session_id or self.loaded.record.session_id
        fixed = replace(self.loaded.record, session_id=own, written=written, known=True)
        return replace(fixed, **changes)

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


# ---- writing ---------------------------------------------------------------------------------


def _commit(
    part: _Part, lock: Lock, make: Callable[[str], tuple[str, Any]]
) -> Flow[tuple[str, Any, str]]:
    """Write what `make` returns for the notes, repeated while the user saves in between.

    Returns:
        The text, what else `make` returned, and the digest of the current notes.
    """
    folder, notes = part.job.folder, part.loaded.notes
    for _ in range(MERGES):
        # Counting and merging take a moment: not in the event loop.
        base = notes.text if notes.exists else part.loaded.template
        text, beside = yield Call(make, (base,))
        if notes.exists and text == notes.text:
            return text, beside, notes.digest
        if not part.loaded.record.known:
            # The session that owns the notes is on the disk before the first note is.
            yield from _save(part, lock, part.record(notes.digest))
        if (yield Call(partial(folder.commit, text, based_on=notes.digest, lock=lock))):
            written: Notes = yield Call(folder.read)
            return text, beside, written.digest
        notes = yield Call(folder.read)
    raise StoreError(
        "changed again and again while it was being updated", path=str(folder.notes_path)
    )


def _save(part: _Part, lock: Lock, record: Record) -> Flow[None]:
    yield Call(partial(part.job.folder.save, write_record(record), lock=lock))


# ---- without a model -------------------------------------------------------------------------


def _by_copies(part: _Part, lock: Lock) -> Flow[UpdateReport]:
    job, record = part.job, part.loaded.record
    facts: Facts = yield Call(job.facts or partial(_collected, part.source), (part.end,))
    policy = job.policy
    make = partial(
        _copied,
        facts=facts,
        generated=record.generated,
        removed=record.removed,
        section_tokens=policy.section_max_tokens,
        total_tokens=policy.total_max_tokens,
        measure=measure_of(job.weights),
    )
    text, made, digest = yield from _commit(part, lock, make)
    changes = {"generated": made.generated, "removed": made.removed}
    yield from _save(part, lock, part.record(digest, covered=part.covered, **changes))
    outcome = UpdateOutcome.UPDATED if text != part.loaded.notes.text else UpdateOutcome.UNCHANGED
    return part.report(text, outcome=outcome, covered=part.covered, updater=COPIES)


def _collected(source: CompactionInput, end: int) -> Facts:
    return collect(source.context[:end])


def _copied(text: str, *, facts: Facts, **options: Any) -> tuple[str, Merged]:
    if not any(section.title in TITLES for section in parse_notes(text)):
        # Code has lines for its own headings only: they follow those of a template that has none of them.
        text = f"{text.rstrip()}\n\n{DEFAULT_TEMPLATE}".lstrip()
    made = merged(text, facts, **options)
    return made.text, made


# ---- with a model ----------------------------------------------------------------------------


def _by_model(part: _Part, lock: Lock) -> Flow[UpdateReport]:
    draft: NotesDraft = yield from talk_flow(_talk(part))
    part = replace(part, end=draft.end)
    if not draft.problem and not part.over() and _emptied(part.loaded.text, draft):
        draft = replace(draft, problem="the notes would lose most of what they say")
    told: dict[str, Any] = {
        "refusals": draft.refusals,
        "calls": draft.calls,
        "updater": str(getattr(part.job.summarizer, "name", "model")),
    }
    if draft.problem:
        outcome = UpdateOutcome.FAILED
        return part.report(part.loaded.text, outcome=outcome, reason=draft.problem, **told)
    text, lost, digest = yield from _commit(part, lock, partial(_replayed, draft=draft))
    told.update(edits=len(draft.edits) - lost, conflicts=lost)
    if lost:
        # The user's version stays; since part of the update is missing from the notes, they cover no more than before.
        yield from _save(part, lock, part.record(digest))
        reason = "the notes were changed meanwhile"
        return part.report(text, outcome=UpdateOutcome.CONFLICT, reason=reason, **told)
    yield from _save(part, lock, part.record(digest, covered=part.covered))
    outcome = UpdateOutcome.UPDATED if draft.edits else UpdateOutcome.UNCHANGED
    return part.report(text, outcome=outcome, covered=part.covered, **told)


LEAST_KEPT = 4
"""An update that leaves less than 1/4 of notes that are not too long is a mistake, or was induced by injected text."""

SHORT = 2_000
"""Characters below which notes may be replaced as a whole."""


def _emptied(notes: str, draft: NotesDraft) -> bool:
    after, _ = _replayed(notes, draft=draft)
    return len(notes) > SHORT and len(after) * LEAST_KEPT < len(notes)


def _replayed(text: str, *, draft: NotesDraft) -> tuple[str, int]:
    """The notes with the edits, and how many could not be done."""
    lost = 0
    for edit in draft.edits:
        changed = apply_edit(text, edit, max_chars=MAX_CHARS)
        if isinstance(changed, Refusal):
            lost += 1
        else:
            text = changed
    return text, lost


def _talk(part: _Part) -> ModelConversation:
    job, loaded = part.job, part.loaded
    policy, path = job.policy, told_path(job.folder)
    prompt = update_prompt(
        template=loaded.prompt,
        notes=loaded.text,
        path=path,
        over=part.over(),
        section_tokens=policy.section_max_tokens,
    )
    return ModelConversation(
        source=part.source,
        start=part.start,
        end=part.end,
        summarizer=job.summarizer,
        prompt=prompt,
        notes=loaded.text,
        path=path,
        max_chars=MAX_CHARS,
        deadline_seconds=policy.stale_seconds,
        redact=job.redact,
    )

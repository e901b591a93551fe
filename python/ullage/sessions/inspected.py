"""What fills the window of a session's file, without an object for each of its messages where the index can say it; what it cost."""

from __future__ import annotations

import dataclasses
import os
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Literal, TypeAlias

from ullage._engine import NAME, core
from ullage._start import Frozen, decimal
from ullage.counting.calibration import weights_for
from ullage.counting.models import ModelTable
from ullage.counting.window import WindowSettings, window_for
from ullage.exceptions import UllageError
from ullage.facts.words import Kind, text_of, words_of
from ullage.levels.breakdown import Inspection, inspect_messages, inspection_of
from ullage.messages import BOUNDARY, Item, is_summary, message_of, role_of, whole_count
from ullage.policy import Policy
from ullage.sessions.find import FoundSession, opened_path
from ullage.sessions.load import (
    Session,
    begun_by_manager,
    index_warnings,
    open_recognised,
    open_session,
)
from ullage.summarizers.budgeted_text import one_line
from ullage.transcript import Transcript
from ullage.transcript.conversation import open_regular
from ullage.transcript.formats import CLAUDE_CODE, recognised
from ullage.transcript.records import as_mapping, as_string
from ullage.transcript.render import rendered

_TAIL_BYTES = 1 << 16  # in so much of a file's end nearly every session names its model


class InspectedSession(Frozen):
    """A session's file in numbers."""

    path: Path
    format: str  # name of its format, such as `claude_code` or `codex`
    size: int  # bytes of the file that were read
    # The one that was asked for, else the newest one that the file names; empty if none is.
    model: str
    window_tokens: int  # the context window that the client went by; 0 if the file does not say
    messages: int  # in the request that it would make
    warnings: tuple[str, ...]  # what was skipped, repaired or set aside
    boundaries: tuple[Item, ...]  # earlier compactions, as their entries
    inspection: Inspection  # what fills the window, and what each level would free


def inspect_session(
    path: str | os.PathLike[str],
    *,
    number: int = 0,
    model: str | None = None,
    policy: Policy | None = None,
) -> InspectedSession:
    """Measure what fills the window of a session.

    Args:
        path: A file of any known format.
        number: Which conversation, from 0, where a file holds several.
        model: The model whose weights count; `None`: the one in the file.
        policy: Decides what each level would free; `None`: `Policy.buffered()`.

    Raises:
        InvalidTranscript, InvalidMessage, TranscriptChanged, StoreError, InvalidPolicy: See `open_session`.
    """
    path = Path(path)
    source, kind = recognised(path)
    if kind == CLAUDE_CODE and not number:
        inspected = _of_index(path, model, policy)
        if inspected is not None:
            return inspected
    opened = open_recognised(path, source, kind, number)
    return inspect_opened(opened, model=model, policy=policy)


def inspect_opened(
    session: Session, *, model: str | None = None, policy: Policy | None = None
) -> InspectedSession:
    """As `inspect_session`, of a session that is open."""
    name = model or session.model
    weights = weights_for(name or None)  # counted in the same way as by a compaction
    overhead = session.overhead_tokens(weights)
    held = inspect_messages(session.items, weights=weights, policy=policy, overhead_tokens=overhead)
    return InspectedSession(
        session.path,
        session.format,
        session.size,
        name,
        session.window_tokens,
        len(session.messages),
        session.warnings,
        session.boundaries,
        held,
    )


def _of_index(path: Path, model: str | None, policy: Policy | None) -> InspectedSession | None:
    """`None` where the lines' digests are not enough to know the context; the Python engine knows none by them."""
    if NAME == "python":
        return None
    weights = weights_for(model or _last_model(path) or None)
    begun, window_tokens = begun_by_manager(path)
    while True:
        transcript = Transcript.open(path, weights)
        bounds, newest = transcript.index.outline(BOUNDARY)
        response = {} if newest is None else transcript.stored(newest)
        own = as_string((message_of(response) or {}).get("model")) or begun
        if model is not None or weights_for(own or None) is weights:
            break
        weights = weights_for(own or None)
    entries = {at: transcript.load(at) for at in bounds}
    # A line of that type and of no subtype is none.
    boundaries = {at: line for at, line in entries.items() if line.get("subtype") == BOUNDARY}
    survey, missing = _survey(transcript, len(transcript))
    if survey is None or not survey.message_count:
        return None
    overhead = survey.overhead  # see `Session.overhead_tokens`
    for cut in reversed(boundaries):
        if overhead is not None:
            break
        earlier, _ = _survey(transcript, cut)
        if earlier is None:
            return None
        overhead = earlier.overhead
    return InspectedSession(
        path,
        CLAUDE_CODE,
        transcript.index.size,
        model or own,
        window_tokens,
        survey.message_count,
        index_warnings(transcript.index.bad, transcript.index.torn, missing),
        tuple(boundaries.values()),
        inspection_of(survey, policy=policy, overhead_tokens=overhead or 0),
    )


def _survey(transcript: Transcript, stop: int) -> tuple[core.Survey | None, int]:
    """Of the context before a line, with the number of kept entries that are missing; `None`: only a replay can tell."""
    context = transcript.context(stop)
    if context is None:
        return None, 0
    others: list[tuple[int, list[Mapping[str, Any]]]] = []
    for at in context.attachments:
        # What the model is shown of it.
        entry = rendered(transcript.load(context.lines[at]))
        others.append((at, [] if entry is None else [entry]))
    survey = transcript.index.survey(context.lines, others, context.unmeasured)
    return survey, context.missing


def _last_model(path: Path) -> str:
    """The model that the end of the file names last; empty if none is known. Only the index is sure."""
    with open_regular(str(path)) as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - _TAIL_BYTES))
        _, mark, after = file.read(_TAIL_BYTES).rpartition(b'"model":"')
    name = after.partition(b'"')[0].decode(errors="replace") if mark else ""
    return name if name and ModelTable.builtin().find(name) else ""


# What a session cost, by the usage figures that its file holds and the model table's prices.

# Prices are stated in dollars for so many tokens.
_MILLION = 1_000_000


def dollars_of(session: Session) -> decimal.Decimal | None:
    """The price of all requests of a session, those before a compaction and those of sub-agents in its file included.

    `None`: no response has both a figure and a model with known prices.
    """
    table = ModelTable.builtin()
    dollars: decimal.Decimal | None = None
    for usage, model in _responses(session.entries()):
        fresh, output, read, write = (whole_count(usage.get(key)) for key in _FIGURES)
        row = table.find(model or session.model) if model or session.model else None
        prices = row.prices_at(fresh + read + write) if row else None
        if prices is None:
            continue
        # Writing for an hour costs 2 times the input's price, for five minutes 1.25 times.
        split = as_mapping(usage.get("cache_creation"))
        hour = min(whole_count(split.get("ephemeral_1h_input_tokens")), write)
        cost = fresh * prices.input + output * prices.output + read * prices.cache_read
        cost += hour * prices.cache_write_1h + (write - hour) * prices.cache_write_5m
        dollars = (dollars or decimal.Decimal(0)) + cost / _MILLION
    return dollars


def _responses(lines: Iterable[Item]) -> list[tuple[Mapping[str, Any], str]]:
    """Each response's newest figure: pieces of one response repeat it under one id."""
    responses: dict[str, tuple[Mapping[str, Any], str]] = {}
    for at, line in enumerate(lines):
        message = message_of(line) or {}
        usage, model = message.get("usage"), message.get("model")
        # Claude Code names its own error messages so; no model was asked for them.
        if isinstance(usage, Mapping) and model != "<synthetic>":
            key = message.get("id")
            responses[key if isinstance(key, str) else f"#{at}"] = (usage, as_string(model))
    return list(responses.values())


_FIGURES = (
    "input_tokens",
    "output_tokens",
    "cache_read_input_tokens",
    "cache_creation_input_tokens",
)


# What a list of sessions says of each: title, project, model, fill, cost.

_TITLE_CHARS = 80
# Claude Code's lines, the user's own title first: it may write one of each kind.
_TITLES = (("custom-title", "customTitle"), ("ai-title", "aiTitle"), ("summary", "summary"))
# What a host or an interruption put in says nothing about the task.
_UNTITLED = (Kind.NONE, Kind.HOST, Kind.INTERRUPT, Kind.SHELL)


class ListedSession(Frozen):
    """One row."""

    session: FoundSession  # which file, id and tool
    # As its tool names it, else how the user's first words begin; empty if there are none.
    title: str = ""
    cwd: str = ""  # where it ran; empty if the file does not say
    model: str = ""  # the newest model; empty if none is named
    messages: int = 0  # in the context now
    # Size of the context: the newest reported figure with an estimate of what follows, or an estimate of all.
    tokens: int = 0
    window_tokens: int = 0  # the model's context window
    compact_at_tokens: int = 0  # where automatic compaction starts by Ullage's defaults
    # What it cost by the model table's prices; `None`: unknown.
    dollars: decimal.Decimal | None = None
    problem: str = ""  # why the file could not be read; then only `session` counts. Empty: it was.


Sorting: TypeAlias = Literal["age", "tokens", "cost"]

ORDER: dict[Sorting, Callable[[ListedSession], float]] = {
    "age": lambda row: -row.session.modified,
    "tokens": lambda row: -row.tokens,
    "cost": lambda row: -float(row.dollars or 0),
}


def holds(row: ListedSession, words: Iterable[str]) -> bool:
    """Whether title or project hold all of these words, in any case."""
    text = f"{row.title} {row.cwd}".casefold()
    return all(word.casefold() in text for word in words)


_UNITS = (("y", 31_536_000), ("d", 86_400), ("h", 3_600), ("m", 60))


def age(modified: float) -> str:
    """How long ago something was written to, in seconds since the epoch: `3m`, `5h`, `12d`, `2y`; `now` within a minute."""
    passed = int(time.time() - modified)
    return next((f"{passed // size:,}{unit}" for unit, size in _UNITS if passed >= size), "now")


def listed(session: FoundSession) -> ListedSession:
    """What a list says of a session; a file that cannot be read becomes a row that says why."""
    table = ModelTable.builtin()
    try:
        opened = open_session(opened_path(session))
        name = opened.model
        # An unknown model makes no noise in a list: the window says what is assumed.
        model = table.find(name) or table.stated(name or "unknown", context_window=200_000)
        if opened.window_tokens:
            model = dataclasses.replace(model, context_window=opened.window_tokens)
        marks = window_for(model, settings=WindowSettings.from_env())
        return ListedSession(
            session,
            title=title_of(opened),
            cwd=opened.cwd,
            model=name,
            messages=len(opened.messages),
            tokens=context_tokens(opened),
            window_tokens=marks.context,
            compact_at_tokens=marks.threshold,
            dollars=dollars_of(opened),
        )
    except (UllageError, OSError) as exc:
        return ListedSession(session, problem=str(getattr(exc, "reason", "") or exc))


def context_tokens(opened: Session) -> int:
    """Tokens of a session's context: what its provider reported last and an estimate of what follows, or an estimate of all."""
    weights = weights_for(opened.model or None)
    reported = opened.reported_tokens(weights)
    if reported is not None:
        return reported
    return int(core.Ledger(weights, opened.items).tokens()) + opened.overhead_tokens(weights)


def title_of(opened: Session) -> str:
    """The title that its tool gave a session, else how the user's first words begin; empty without any."""
    if opened.title:
        return one_line(opened.title, _TITLE_CHARS)
    metadata = opened.transcript.metadata if opened.transcript else {}
    for kind, key in _TITLES:
        if isinstance(title := metadata.get(kind, {}).get(key), str) and title.strip():
            return one_line(title, _TITLE_CHARS)
    return first_words(opened.entries())


def first_words(lines: Iterable[Item]) -> str:
    """How the user's first words begin, as one line; empty if there are none."""
    for line in lines:
        if role_of(line) != "user" or line.get("isMeta") is True or is_summary(line):
            continue
        words = words_of(text_of(line))
        if words.kind not in _UNTITLED and (title := one_line(words.text, _TITLE_CHARS)):
            return title
    return ""

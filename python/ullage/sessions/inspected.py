"""What fills the window of a session's file, without an object for each of its messages where the index can say it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

from ullage._engine import core
from ullage.counting.calibration import weights_for
from ullage.counting.models import ModelTable
from ullage.levels.breakdown import Inspection, inspect_messages, inspection_of
from ullage.messages import BOUNDARY, Item, message_of
from ullage.policy import Policy
from ullage.sessions.load import (
    CLAUDE_CODE,
    Session,
    index_warnings,
    open_recognised,
    recognised_file,
)
from ullage.transcript import Transcript
from ullage.transcript.conversation import open_regular
from ullage.transcript.render import rendered

_TAIL_BYTES = 1 << 16
"""In so much of a file's end nearly every session names its model."""


@dataclass(frozen=True, slots=True)
class InspectedSession:
    """A session's file in numbers.

    Attributes:
        path: The file.
        format: Name of its format, such as `claude_code` or `codex`.
        size: Bytes of the file that were read.
        model: The one that was asked for, else the newest one that the file names; empty if none is.
        window_tokens: The context window that the client went by; 0 if the file does not say.
        messages: In the request that it would make.
        warnings: What was skipped, repaired or set aside.
        boundaries: Earlier compactions, as their entries.
        inspection: What fills the window, and what each level would free.
    """

    path: Path
    format: str
    size: int
    model: str
    window_tokens: int
    messages: int
    warnings: tuple[str, ...]
    boundaries: tuple[Item, ...]
    inspection: Inspection


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
    source, kind = recognised_file(path)
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


# ---- from the index --------------------------------------------------------------------------


def _of_index(path: Path, model: str | None, policy: Policy | None) -> InspectedSession | None:
    """`None` where the lines' digests are not enough to know the context."""
    weights = weights_for(model or _last_model(path) or None)
    transcript = Transcript.open(path, weights)
    bounds, newest = transcript.index.outline(BOUNDARY)
    own = _model(transcript, newest)
    if model is None and weights_for(own or None) is not weights:
        transcript = Transcript.open(path, weights_for(own or None))
        bounds, newest = transcript.index.outline(BOUNDARY)
        own = _model(transcript, newest)
    context = _Contexts(transcript, bounds)
    survey, missing = context.survey(len(transcript))
    messages = None if survey is None else survey.message_count
    overhead = None if survey is None else context.overhead(survey)
    if survey is None or not messages or overhead is None:
        return None
    return InspectedSession(
        path,
        CLAUDE_CODE,
        transcript.index.size,
        model or own,
        0,
        messages,
        index_warnings(transcript.index.bad, transcript.index.torn, missing),
        tuple(context.entries.values()),
        inspection_of(survey, policy=policy, overhead_tokens=overhead),
    )


def _last_model(path: Path) -> str:
    """The model that the end of the file names last; empty if none is known. Only the index is sure."""
    with open_regular(str(path)) as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - _TAIL_BYTES))
        _, mark, after = file.read(_TAIL_BYTES).rpartition(b'"model":"')
    name = after.partition(b'"')[0].decode(errors="replace") if mark else ""
    return name if name and ModelTable.builtin().find(name) else ""


def _model(transcript: Transcript, newest: int | None) -> str:
    line = {} if newest is None else transcript.stored(newest)
    name = (message_of(line) or {}).get("model")
    return name if isinstance(name, str) else ""


class _Contexts:
    """Contexts of a transcript, as they were at its end and before its boundaries."""

    def __init__(self, transcript: Transcript, bounds: Sequence[int]) -> None:
        self._transcript = transcript
        loaded = {at: transcript.load(at) for at in bounds}
        # A line of that type and of no subtype is none.
        self.entries = {at: line for at, line in loaded.items() if line.get("subtype") == BOUNDARY}

    def survey(self, stop: int) -> tuple[core.Survey | None, int]:
        """Of the lines before `stop`, with the number of kept entries that are missing; `None`: only a replay can tell."""
        index, context = self._transcript.index, self._transcript.context(stop)
        if context is None:
            return None, 0
        others = [(at, self._shown(context.lines[at])) for at in context.attachments]
        return index.survey(context.lines, others, context.unmeasured), context.missing

    def overhead(self, survey: core.Survey) -> int | None:
        """See `Session.overhead_tokens`; `None`: only a replay can tell."""
        for cut in [None, *reversed(self.entries)]:
            surveyed = survey if cut is None else self.survey(cut)[0]
            if surveyed is None:
                return None
            if surveyed.overhead is not None:
                return surveyed.overhead
        return 0

    def _shown(self, at: int) -> list[Mapping[str, Any]]:
        """What the model is shown of an attachment."""
        entry = rendered(self._transcript.load(at))
        return [] if entry is None else [entry]


# What a session cost, by the usage figures that its file holds and the model table's prices.


# Prices are stated in dollars for so many tokens.
_MILLION = 1_000_000


@dataclass(frozen=True, slots=True)
class Spending:
    """Tokens as the provider reported them, and their price.

    Attributes:
        input_tokens: Prompt tokens that no cache held.
        output_tokens: Tokens of the responses.
        cache_read_tokens: Prompt tokens that were read from a cache.
        cache_write_tokens: Prompt tokens that were written to one.
        dollars: Their price; `None`: no response has both a figure and a model with known prices.
        unpriced: Responses with a figure whose model has no known prices: `dollars` leaves them out.
    """

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    dollars: Decimal | None = None
    unpriced: int = 0


def spending_of(session: Session, table: ModelTable | None = None) -> Spending:
    """What all requests of a session took, those before a compaction and those of sub-agents in its file included.

    Args:
        session: From `open_session`.
        table: Prices; `None`: the built-in table.
    """
    lines = session.transcript.entries() if session.transcript else session.history or session.items
    table = table or ModelTable.builtin()
    spending = Spending()
    for usage, model in _responses(lines):
        spending = _added(spending, usage, model or session.model, table)
    return spending


def _responses(lines: Iterable[Item]) -> list[tuple[Mapping[str, Any], str]]:
    """Each response's newest figure: pieces of one response repeat it under one id."""
    responses: dict[str, tuple[Mapping[str, Any], str]] = {}
    for at, line in enumerate(lines):
        message = message_of(line) or {}
        usage, model = message.get("usage"), message.get("model")
        # Claude Code names its own error messages so; no model was asked for them.
        if isinstance(usage, Mapping) and model != "<synthetic>":
            key = message.get("id")
            name = model if isinstance(model, str) else ""
            responses[key if isinstance(key, str) else f"#{at}"] = (usage, name)
    return list(responses.values())


def _added(sum_: Spending, usage: Mapping[str, Any], model: str, table: ModelTable) -> Spending:
    fresh, output = _tokens(usage, "input_tokens"), _tokens(usage, "output_tokens")
    read, write = (
        _tokens(usage, "cache_read_input_tokens"),
        _tokens(usage, "cache_creation_input_tokens"),
    )
    row = table.find(model) if model else None
    prices = row.prices_at(fresh + read + write) if row else None
    dollars, unpriced = sum_.dollars, sum_.unpriced
    if prices is None:
        unpriced += 1
    else:
        split = usage.get("cache_creation")
        # Writing for an hour costs 2 times the input's price, for five minutes 1.25 times.
        hour = _tokens(split, "ephemeral_1h_input_tokens") if isinstance(split, Mapping) else 0
        hour = min(hour, write)
        cost = fresh * prices.input + output * prices.output + read * prices.cache_read
        cost += hour * prices.cache_write_1h + (write - hour) * prices.cache_write_5m
        dollars = (dollars or Decimal(0)) + cost / _MILLION
    return Spending(
        sum_.input_tokens + fresh,
        sum_.output_tokens + output,
        sum_.cache_read_tokens + read,
        sum_.cache_write_tokens + write,
        dollars,
        unpriced,
    )


def _tokens(usage: Mapping[str, Any], key: str) -> int:
    value = usage.get(key)
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0

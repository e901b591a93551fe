"""What may be asked about one conversation: by the host, why a request is what it is (BEY-3) and what all of them cost; by the model, through the library's tools."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Any

from ullage.exceptions import InvalidPolicy
from ullage.levels import offers, turn_snip
from ullage.levels.cost import AuditedRequest, SessionCosts, life_ms, session_costs, working_size
from ullage.levels.offers import COMPACT_TOOL, CONTEXT_TOOL, Offers
from ullage.levels.turn_snip import SNIP_TOOL, TurnSnip
from ullage.levels.view import StageReport
from ullage.manager.known import Host
from ullage.manager.machine import Machine
from ullage.manager.values import RequestRecord
from ullage.messages import message_of
from ullage.recall import RECALL_TOOL, Archive, Recall, left
from ullage.recall.text import ToolAnswer


@dataclass(frozen=True, slots=True)
class Explanation:
    """The account of one request.

    Attributes:
        request: What is remembered of it; `None`: the next one, which nobody has prepared yet.
        tokens: Of it.
        by_category: What is in it.
        left: What left until then, oldest first; each report names level, reason, messages and results.
        records: Of the requests that are remembered, for the time at which something left.
        earlier: Reports from before those in `left` that are remembered no more.
    """

    request: RequestRecord | None
    tokens: int
    by_category: Mapping[str, int]
    left: tuple[StageReport, ...]
    records: Mapping[int, RequestRecord]
    earlier: int = 0

    def __str__(self) -> str:
        name = f"request {self.request.number}" if self.request else "the next request"
        lines = [f"{name}: about {self.tokens:,} tokens"]
        lines += [f"  {tokens:>11,}  {category}" for category, tokens in self.by_category.items()]
        if self.left or self.earlier:
            lines.append("left so far:")
        if self.earlier:
            lines.append(f"  {self.earlier:,} earlier reports are remembered no more")
        return "\n".join([*lines, *(f"  {_line(report)}" for report in self.left)])


def _line(report: StageReport) -> str:
    what = []
    if report.tool_use_ids:
        what.append(f"{len(report.tool_use_ids)} results")
    if report.removed:
        what.append(f"messages {', '.join(_span(span) for span in report.removed)}")
    when = f"request {report.request}" if report.request else "between requests"
    return f"{when}: {report.stage} took {' and '.join(what) or 'nothing'} (≈{report.freed:,} tokens): {report.why}"


def _span(span: Sequence[int]) -> str:
    return str(span[0]) if span[1] - span[0] == 1 else f"{span[0]} to {span[1] - 1}"


def explain(machine: Machine, number: int | None) -> Explanation:
    """The account of a request; see `ContextManager.explain`."""
    by_number = {record.number: record for record in machine.records}
    earlier, newest_of_these = machine.let_go
    if number is None:
        usage = machine.usage()
        reports = tuple(machine.reports)
        return Explanation(None, usage.tokens, usage.by_category, reports, by_number, earlier)
    record = by_number.get(number)
    if record is None or number < newest_of_these:
        first, last = max(min(by_number, default=0), newest_of_these), max(by_number, default=0)
        raise InvalidPolicy(
            "request", number, f"must be one of the {len(by_number)} requests that are remembered",
            hint=f"{first} to {last}" if by_number else "prepare() makes the first",
        )  # fmt: skip
    left = tuple(report for report in machine.reports if report.request <= number)
    return Explanation(record, record.tokens, record.by_category, left, by_number, earlier)


# What the remembered requests have cost, each next to what its answer says of the provider's cache.


def costs_of(machine: Machine) -> SessionCosts:
    """See `ContextManager.costs`."""
    size = working_size(
        machine.model, machine.stated_policy, overhead_tokens=machine.overhead_tokens
    )
    # Where the host stated a window, the size to work in is that.
    if size.tokens != machine.window.context:
        size = size._replace(tokens=machine.window.context, why="a setting")
    requests = [(record.number, record.tokens, record.at_ms) for record in machine.records]
    costs = session_costs(requests, machine.reports, machine.model, size)
    return replace(costs, audit=tuple(_audited(machine)))


def _audited(machine: Machine) -> Iterator[AuditedRequest]:
    """The remembered requests whose answers report their use of the cache."""
    # Here alone: records of requests, which each compaction reads, are in this file.
    from ullage.observe.cache_monitor import CacheForecast, cache_use, is_lost

    life = life_ms(machine.model, machine.stated_policy)
    cache = machine.model.cache
    forecast = CacheForecast(life / 1000 or inf, cache.min_tokens, steps=not cache.breakpoints)
    rewrites = [report for report in reversed(machine.reports) if report.first_changed is not None]
    # The earliest change of a request is what broke its prefix: it comes last here.
    rewrites.sort(key=lambda report: -(report.first_changed or 0))
    changed = {report.request: report for report in rewrites}
    before: Mapping[str, object] = {}
    cached, last = 0, None
    for record in machine.records:
        at = record.history  # the answer came when so many messages had been added
        answered = message_of(machine.history[at]) if at < len(machine.history) else None
        answer = answered if answered and answered.get("role") == "assistant" else {}
        usage = answer.get("usage")
        if not isinstance(usage, Mapping) or not usage.keys() & _REPORTS_CACHE:
            continue
        seconds = 0.0
        if last is not None and last.at_ms and record.at_ms:
            seconds = (record.at_ms - last.at_ms) / 1000
        by = changed.get(record.number)
        same = None if by is None or by.cost is None else by.cost.cached_tokens
        expected = forecast.expect(record.tokens, same_tokens=same, idle_seconds=seconds)
        use, cause = cache_use(usage, steps=forecast.steps), ""
        if is_lost(cached, use.read):
            cause = by.stage if by else _other(before, answer, last, record)
            if not cause:
                cause = "expired" if seconds > forecast.ttl_seconds else "unknown"
        yield AuditedRequest(record.number, *expected, use.read, use.written, cause)
        forecast.learn(usage)
        before, last, cached = answer, record, use.read + use.written


_REPORTS_CACHE = {"cache_read_input_tokens", "cache_creation_input_tokens"}


def _other(
    before: Mapping[str, Any],
    answer: Mapping[str, Any],
    last: RequestRecord | None,
    now: RequestRecord,
) -> str:
    """What else of the prompt has changed since the last request; empty: nothing that is remembered."""
    if before.get("model") != answer.get("model"):
        return "model"
    parts = ("system", "tools")
    sizes = {} if last is None else last.by_category
    return next((part for part in parts if sizes.get(part) != now.by_category.get(part)), "")


# The library's tools, as the model calls them.


def recall_of(machine: Machine, host: Host) -> Recall:
    """Recall over everything that was added to the conversation."""
    # What a log of our own holds, the history holds: the same text would be found twice.
    transcript = None if host.logged else host.options.get("transcript_path") or None
    archive = Archive(machine.history, store=host.offload, transcript=transcript)
    for state in machine.states.values():
        for handle, span in getattr(state, "removed", {}).items():
            archive.name(handle, span)
    view = machine.view
    return Recall(archive, listing=lambda: left(archive, view.sources, view.messages))


def answer(machine: Machine, host: Host, name: str, arguments: Any) -> ToolAnswer:
    """The answer to a call of one of the library's tools; an `InvalidPolicy` if there is no such tool here."""
    if name == RECALL_TOOL.name:
        return recall_of(machine, host).call(arguments)
    if name == SNIP_TOOL.name:
        return turn_snip.answer(arguments, machine.view, machine.state(TurnSnip))
    if name == COMPACT_TOOL.name:
        state, possible = machine.state(Offers), machine.window.compaction
        return offers.ask(arguments, machine.view, machine.policy, state, possible=possible)
    if name == CONTEXT_TOOL.name:
        usage = machine.usage()
        lines = [f"{usage.tokens:,} of {usage.window_tokens:,} tokens ({usage.percent} %)."]
        lines += [f"{name}: {tokens:,}" for name, tokens in usage.by_category.items()]
        return ToolAnswer("\n".join(lines))
    names = (tool.name for tool in (RECALL_TOOL, SNIP_TOOL, COMPACT_TOOL, CONTEXT_TOOL))
    raise InvalidPolicy("tool", name, f"must be one of {', '.join(names)}")

"""What a rewrite of the request costs now and saves later, from the model's prices and cache rules (BEY-2).

A provider's cache holds a prefix. Where a level changes message k, everything after k must be written to the cache again
instead of being read from it; in return every later request reads so much less. Amounts are whole nanodollars: a token at a
price of p dollars per million costs 1000 p of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isqrt
from typing import TYPE_CHECKING, Final

from ullage._start import Frozen, NamedTuple
from ullage.counting.window import AUTOCOMPACT_BUFFER_TOKENS, SUMMARY_RESERVE_TOKENS

if TYPE_CHECKING:  # a start of the gateway needs the sizes alone
    from ullage.counting.models import Model
    from ullage.levels.level import Context
    from ullage.levels.view import StageReport, View
    from ullage.policy import Policy


class Cost(Frozen, kw_only=True):
    """The cost of one rewrite.

    Attributes:
        first_changed: Message at which the cached prefix ends.
        first_block: Its first changed block.
        cached_tokens: Estimate of what stands before it and is still read from the cache.
        rewritten_tokens: Estimate of what was cached after it and must be written again.
        saved_tokens: Estimate of what each later request is shorter by.
        rewrite_nanousd: What writing again costs more than reading would have.
        saving_nanousd: What each later request saves, read from the cache.
        break_even_turns: After so many requests it has paid; 0: at once; `None`: never.
        priced: Whether the model's own prices were used; else input 1, write 1.25, read 0.1 dollars per million.
    """

    first_changed: int
    first_block: int
    cached_tokens: int
    rewritten_tokens: int
    saved_tokens: int
    rewrite_nanousd: int
    saving_nanousd: int
    break_even_turns: int | None
    priced: bool

    def __repr__(self) -> str:
        turns = self.break_even_turns
        when = "never" if turns is None else "at once" if turns == 0 else f"after {turns} requests"
        return (
            f"Cost(from message {self.first_changed}, writes {self.rewritten_tokens:_} tokens again, "
            f"saves {self.saved_tokens:_} a request, pays {when})"
        )


def cost_of(
    report: StageReport,
    view: View,
    model: Model,
    *,
    overhead_tokens: int = 0,
    broken_from: int | None = None,
    cold: bool = False,
) -> Cost | None:
    """What a level's rewrite costs, just after it acted; `None` if it changed nothing that was sent before.

    `view`: as the level left it; `overhead_tokens`: system prompt and tools, which stand before all messages; `broken_from`: first message
    that another level had changed since the last request (`None`: none had): what follows it is written again anyway; `cold`: all is, since
    the cache has run out.
    """
    first = report.first_changed
    if first is None or report.freed <= 0:
        return None
    end = view.sent if broken_from is None else min(view.sent, broken_from)
    after_tokens = view.ledger.tokens(first, max(first, end))
    before = view.ledger.tokens(0, first) + overhead_tokens
    # The first replaced result in the message; 0 where whole messages went.
    names = set() if report.removed_messages else set(report.tool_use_ids)
    blocks = enumerate(view.ledger.blocks(first) if names else ())
    replaced = (at for at, b in blocks if b.id and view.ledger.string(b.id) in names)
    place = (first, next(replaced, 0))
    return _cost(place, before, after_tokens, report.freed, model, cold)


def expected_cost(
    view: View,
    model: Model,
    first: int,
    freed: int,
    *,
    overhead_tokens: int = 0,
    cold: bool = False,
) -> Cost:
    """The cost of a rewrite that changes message `first` and frees this many tokens at or after it; for the others see `cost_of`."""
    end = view.sent if view.changed_from is None else min(view.sent, view.changed_from)
    after_tokens = max(0, view.ledger.tokens(first, max(first, end)) - freed) if first < end else 0
    before = view.ledger.tokens(0, first) + overhead_tokens
    return _cost((first, 0), before, after_tokens, freed, model, cold)


def is_cold(view: View, model: Model, now_ms: int | None) -> bool:
    """Whether the cache has run out: no answer for longer than its shortest life. No life stated, or no clock: it has not."""
    lives = model.cache.ttl_seconds
    if now_ms is None or not lives:
        return False
    return 0 < view.answered_ms() < now_ms - 1000 * min(lives)


def _cost(
    place: tuple[int, int], before: int, after_tokens: int, freed: int, model: Model, cold: bool
) -> Cost:
    whole = before + after_tokens
    (write, read), (_, read_before) = rates_of(model, whole), rates_of(model, whole + freed)
    warm = not cold and before + after_tokens >= model.cache.min_tokens
    again = after_tokens if warm else 0
    rewrite = again * max(0, write - read)
    # More than what was freed where a long prompt costs more a token, and this one is long no more.
    saving = (whole + freed) * read_before - whole * read
    return Cost(
        first_changed=place[0],
        first_block=place[1],
        cached_tokens=before if warm else 0,
        rewritten_tokens=again,
        saved_tokens=freed,
        rewrite_nanousd=rewrite,
        saving_nanousd=saving,
        # The request for which it is made is the first that saves.
        break_even_turns=0 if not rewrite else -(-rewrite // saving) if saving > 0 else None,
        priced=model.prices_at(whole) is not None,
    )


def rates_of(model: Model, prompt_tokens: int) -> tuple[int, int]:
    """Nanodollars for a token written to the cache, and for one read from it; without prices the usual ratio holds."""
    prices = model.prices_at(prompt_tokens)
    if prices is None:
        return 1_250, 100
    return int(1000 * prices.cache_write_5m), int(1000 * prices.cache_read)


# How much of a large window the levels work in (COST-1).


# Up to windows of this size the thresholds of the reference hold; in a larger one `knee` leaves the messages no less room.
FLOOR_TOKENS: Final = 200_000

# By which a request is longer than the one before: the median of 124 recorded sessions.
GROWTH_TOKENS: Final = 1_400


class WorkingSize(NamedTuple):
    """The part of a window that the levels work in, in tokens, and why; `cheapest_tokens`: the size of the least cost."""

    tokens: int
    why: str
    cheapest_tokens: int


def working_size(model: Model, policy: Policy, *, overhead_tokens: int = 0) -> WorkingSize:
    """The size to work in: where reading a longer prompt each time costs as much as compacting more often.

    From a compaction on, a prompt grows from `base` to the trigger; a request reads half of that growth on average, and once in
    each round `base` is written again. The sum is least at `base + sqrt(2 * write / read * base * growth)`. Without prices the usual
    ratio of writing and reading holds; `overhead_tokens`: system prompt and tools.
    """
    whole, wanted = model.context_window, policy.cost
    write, read = rates_of(model, min(whole, FLOOR_TOKENS))
    base = overhead_tokens + policy.keep.min_tokens + policy.summary.max_output_tokens
    ratio = write / max(read, 1)
    span = isqrt(int(2 * ratio * base * GROWTH_TOKENS))
    cheapest = base + span + SUMMARY_RESERVE_TOKENS + AUTOCOMPACT_BUFFER_TOKENS
    if wanted.work_tokens:
        return WorkingSize(min(whole, wanted.work_tokens), "cost.work_tokens", cheapest)
    if whole <= FLOOR_TOKENS and wanted.work != "price":
        return WorkingSize(whole, "the window", cheapest)
    if wanted.work == "fidelity":
        return WorkingSize(whole, "cost.work is fidelity", cheapest)
    reason = f"the cheapest is {cheapest:,} tokens: writing costs {ratio:.3g} times what reading does, {base:,} stay after a compaction"
    # System prompt and tools are none of what a conversation remembers: they stand on top of its room.
    least = FLOOR_TOKENS + overhead_tokens if wanted.work == "knee" else 0
    return WorkingSize(min(whole, max(least, cheapest)), reason, cheapest)


# What a conversation's prompts have cost, and what they would have without levels.


class AuditedRequest(NamedTuple):
    """What a request should have read from the provider's cache and written to it, and what its answer reports, in tokens.

    Attributes:
        number: Of the request.
        expected_read: By what the answers before it report; 0 for the first. `expected_written`: the rest of it.
        read: Reported; `written` likewise, or what a provider writes by itself where it does not report that.
        cause: Why less was read than had been cached: the level that changed the prompt, `model`, `system`, `tools`, `expired`, or
            `unknown`; empty: nothing was lost.
    """

    number: int
    expected_read: int
    expected_written: int
    read: int
    written: int
    cause: str = ""


class SessionCosts(Frozen):
    """Of the requests that are remembered.

    Attributes:
        requests: How many.
        dollars: What their prompts cost; `unmanaged_dollars`: what the same would have cost had nothing left the context.
        by_level: What each level saved, in dollars; below 0: it has not paid yet.
        size: The part of the window that the levels work in, and why.
        priced: Whether the model's own prices were used; else input 1, write 1.25, read 0.1 dollars per million.
        audit: Each request whose answer reports the cache.
    """

    requests: int
    dollars: float
    unmanaged_dollars: float
    by_level: Mapping[str, float]
    size: WorkingSize
    priced: bool
    audit: tuple[AuditedRequest, ...] = ()

    @property
    def saved_dollars(self) -> float:
        """What all levels together have saved."""
        return self.unmanaged_dollars - self.dollars


def session_costs(
    requests: Sequence[tuple[int, int, int | None]],
    reports: Sequence[StageReport],
    model: Model,
    size: WorkingSize,
) -> SessionCosts:
    """Add up what prompts cost.

    `requests`: number, tokens and time of each, in order, `None`: no time; `reports`: of the levels, in order; `size`: for the result.
    """
    paid = plain = 0
    saved = dict[str, int]()
    freed = dict[str, int]()
    acted = iter(reports)
    report = next(acted, None)
    lives, before, before_ms = model.cache.ttl_seconds, 0, None
    for number, tokens, at_ms in requests:
        again = 0
        while report is not None and report.request <= number:
            freed[report.stage] = freed.get(report.stage, 0) + report.freed
            if report.request == number and report.cost is not None:
                again += report.cost.rewritten_tokens
                saved[report.stage] = saved.get(report.stage, 0) - report.cost.rewrite_nanousd
            report = next(acted, None)
        removed = sum(freed.values())
        write, read = rates_of(model, tokens)
        # Whether the cache has run out since the one before.
        passed = 0 if before_ms is None or at_ms is None else at_ms - before_ms
        cold = bool(lives) and passed > 1000 * min(lives)
        grown = tokens if cold else min(tokens, max(0, tokens + removed - before))
        paid += (tokens - grown) * read + grown * write
        paid += 0 if cold else min(again, tokens - grown) * max(0, write - read)
        more, cheap = rates_of(model, tokens + removed)
        new = tokens + removed if cold else grown
        plain += (tokens + removed - new) * cheap + new * more
        for stage, tokens_freed in freed.items():
            saved[stage] = saved.get(stage, 0) + tokens_freed * (more if cold else cheap)
        before, before_ms = tokens + removed, at_ms
    dollars = {stage: nanousd / 1e9 for stage, nanousd in saved.items()}
    priced = model.prices is not None
    return SessionCosts(len(requests), paid / 1e9, plain / 1e9, dollars, size, priced)


# Whether a conversation is compacted while nobody works on it, since its next request has to be written to the cache anyway.


def life_ms(model: Model, policy: Policy) -> int:
    """How long the provider's cache holds a prefix after its last use, in milliseconds; 0: unknown, it never runs out."""
    return 1000 * (policy.cost.cache_seconds or min(model.cache.ttl_seconds, default=0))


def idle_pays(
    tokens: int, model: Model, policy: Policy, *, overhead_tokens: int, asks: bool, cold: bool
) -> bool:
    """Whether a compaction between two requests pays, if the next one finds the cache run out.

    What it frees is not written again, and not read by later requests: within `cost.wait_requests` that has to be more than what
    the summary costs. Without prices the usual ratios hold, and an answer costs four times the price of writing.

    `tokens`: of the next request as it stands; `overhead_tokens`: system prompt and tools; `asks`: the summary is a model's, which reads the
    conversation; `cold`: the cache has run out already, so that it is not read from there.
    """
    summary = policy.summary.max_output_tokens
    freed = tokens - overhead_tokens - policy.keep.min_tokens - summary
    write, read = rates_of(model, tokens)
    prices = model.prices_at(tokens)
    answer = 4 * write if prices is None else int(1000 * prices.output)
    cost = tokens * (write if cold else read) + summary * answer if asks else 0
    return freed > 0 and freed * (write + policy.cost.wait_requests * read) > cost


# Whether a change of what was sent waits until it pays for the cache that it breaks (BEY-2).


def pays_soon(context: Context, first: int, gain: int) -> bool:
    """Whether a change of message `first` that frees so many tokens pays within `cost.wait_requests`.

    Always where the policy waits for nothing, or no model is known. A young conversation is counted on for half as many requests as
    it has had: it may end before ten more.
    """
    limit, model = context.policy.cost.wait_requests, context.model
    if not limit or model is None or not context.window_tokens:
        return True
    view, overhead = context.view, context.overhead_tokens
    cold = is_cold(view, model, context.now_ms)
    expected = expected_cost(view, model, first, gain, overhead_tokens=overhead, cold=cold)
    return expected.break_even_turns is not None and expected.break_even_turns <= min(
        limit, context.request // 2
    )

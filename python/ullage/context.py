"""`ContextManager`: one conversation, kept within its model's window."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson

from ullage import pipeline
from ullage._engine import core
from ullage.compaction import CompactionResult, acompact, compact
from ullage.estimates import weights_for
from ullage.exceptions import CompactionError, ContextTooLarge
from ullage.models import Model, ModelTable
from ullage.offload import OffloadStore
from ullage.policy import Policy
from ullage.providers.overflow import classify
from ullage.repair import Repair, repair
from ullage.stages import truncate
from ullage.stages.report import StageReport
from ullage.stages.view import View
from ullage.window import Window, WindowSettings, window

__all__ = ["ContextManager", "Decided", "Request", "Usage"]

Item = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Usage:
    """How full the window is: `tokens` of `window_tokens`; `reported`: the provider's own figure stands behind it."""

    tokens: int
    window_tokens: int
    reported: bool

    @property
    def percent(self) -> int:
        """Share of the window, rounded down."""
        return 100 * self.tokens // self.window_tokens


@dataclass(frozen=True, slots=True)
class Decided:
    """Whether an automatic compaction is due, and why or why not."""

    compact: bool
    why: str


@dataclass(frozen=True, slots=True)
class Request:
    """What to send, and what was done to make it fit.

    Attributes:
        messages: For the provider; messages that nothing touched are the objects that were added.
        reports: Of the levels that acted, in order.
        compaction: The compaction that ran, if one did.
        repairs: What was mended so that the provider takes it; the history is as it was added.
        tokens: Estimate of the request, system prompt and tools included.
    """

    messages: list[Any] = field(repr=False)
    reports: tuple[StageReport, ...]
    compaction: CompactionResult | None
    tokens: int
    repairs: tuple[Repair, ...] = ()


class ContextManager:
    """Keeps one conversation within its window: `add` what comes, `prepare` what to send, `observe` the answer.

    Everything that was added stays in `history`; a request is a view of it. There is no state outside of the object, so a
    process may hold thousands.

    Args:
        model: Name of the model that goes on; decides window and weights.
        policy: Every threshold; `None`: `Policy.buffered()`.
        system: The system prompt, to be counted; never changed.
        tools: Tool definitions, to be counted; never changed.
        summarizer: For automatic and manual compactions; `None`: extractive, without a model.
        store: For large tool results; `None`: they stay, and are snipped.
        settings: Settings of the environment; `None`: none are set.
        table: Where to look the model up; `None`: the built-in table.

    Example:
        >>> manager = ContextManager(model="claude-opus-4-5")
        >>> manager.add({"role": "user", "content": "hello"})
        >>> manager.prepare().messages
        [{'role': 'user', 'content': 'hello'}]
    """

    def __init__(
        self,
        *,
        model: str,
        policy: Policy | None = None,
        system: Any = None,
        tools: Sequence[Mapping[str, Any]] = (),
        summarizer: Any = None,
        store: OffloadStore | None = None,
        settings: WindowSettings | None = None,
        table: ModelTable | None = None,
    ) -> None:
        self.policy = policy or Policy.buffered()
        self.model: Model = (table or ModelTable.builtin()).lookup(model)
        self.window: Window = window(
            self.model, autocompact=self.policy.auto.enabled, settings=settings
        )
        self.history: list[Item] = []
        self.reports: list[StageReport] = []
        self._weights = weights_for(self.model)
        self._view = View(self._weights)
        self._summarizer = summarizer
        self._store = store
        self._overhead = _count(system, self._weights) + _count(list(tools) or None, self._weights)
        self._failures = self._turns = 0
        self._refills: list[int] = []
        self._since_compaction: int | None = None

    # ---- what comes in -----------------------------------------------------------------------

    def add(self, message: Item) -> None:
        """Append a message: the user's, the model's, or results of tools.

        Raises:
            InvalidMessage: No provider could take it; nothing has changed.
        """
        self._view.add(message)
        self.history.append(message)

    def observe(self, response: Item) -> None:
        """Append the model's answer, with its `usage` if it has one: the next count is anchored on it."""
        self.add(response)
        self._turns += 1

    @property
    def messages(self) -> list[Any]:
        """The request as it stands, before the levels look at it again."""
        return list(self._view.messages)

    # ---- questions ---------------------------------------------------------------------------

    def usage(self) -> Usage:
        """How full the window is now."""
        tokens = self._view.tokens(self._overhead)
        return Usage(tokens, self.model.context_window, self._view.ledger.anchor() is not None)

    def decide(self) -> Decided:
        """Whether an automatic compaction is due; a pure look that may be taken at any moment."""
        tokens, limit = self.usage().tokens, self._trigger()
        if not self.window.autocompact:
            return Decided(False, "automatic compaction is off")
        if self.policy.auto.reactive_only:
            return Decided(False, "only after a refusal of the provider")
        if self._failures >= self.policy.auto.max_failures:
            return Decided(False, f"{self._failures} failures in a row")
        if len(self._refills) >= self.policy.auto.max_refills:
            return Decided(
                False, f"full again {len(self._refills)} times within a few turns; see explain()"
            )
        if tokens < limit:
            return Decided(False, f"{tokens:,} of {limit:,} tokens")
        return Decided(True, f"{tokens:,} tokens reach {limit:,}")

    def _trigger(self) -> int:
        percent = self.policy.auto.start_percent
        return self.model.context_window * percent // 100 if percent else self.window.threshold

    def explain(self) -> list[StageReport]:
        """Everything that left the context, in order: which level, why, what."""
        return list(self.reports)

    # ---- what goes out -----------------------------------------------------------------------

    def prepare(self, *, now_ms: int | None = None) -> Request:
        """Run the levels and give what to send.

        Args:
            now_ms: The clock, for what happens by time; `None`: nothing does.

        Raises:
            ContextTooLarge: What must stay does not fit; names the floor.
        """
        reports = self._local(now_ms)
        result = self._auto() if self.decide().compact else None
        return self._finish(reports, result)

    async def aprepare(self, *, now_ms: int | None = None) -> Request:
        """`prepare`, without blocking the event loop while a summary is written."""
        reports = self._local(now_ms)
        result = await self._aauto() if self.decide().compact else None
        return self._finish(reports, result)

    def compact(self, instructions: str = "") -> CompactionResult:
        """Compact now.

        Raises:
            CompactionError: It failed; nothing has changed.
        """
        version = len(self.history)
        return self._install(
            compact(self._view.messages, instructions=instructions, **self._options()), version
        )

    def on_overflow(self, error: Any) -> bool:
        """Make room after the provider refused a request.

        Args:
            error: The exception or response.

        Returns:
            Whether it was an overflow and room was made: prepare again and retry once. False: another error.
        """
        if not classify(error).kind.startswith("overflow"):
            return False
        before = self._view.ledger.tokens()
        self._auto()
        if self._view.ledger.tokens() >= before:
            self._truncate(before * 8 // 10 + self._overhead + self.policy.truncate.margin_tokens)
        return bool(self._view.ledger.tokens() < before)

    # ---- inside ------------------------------------------------------------------------------

    def _local(self, now_ms: int | None) -> list[StageReport]:
        situation = pipeline.Situation(
            window_tokens=self.model.context_window,
            overhead_tokens=self._overhead,
            now_ms=now_ms,
            store=self._store,
        )
        return pipeline.run(self._view, self.policy, situation)

    def _options(self) -> dict[str, Any]:
        return {
            "model": self.model.name,
            "policy": self.policy,
            "summarizer": self._summarizer,
            "overhead_tokens": self._overhead,
        }

    def _auto(self) -> CompactionResult | None:
        version = len(self.history)
        try:
            result = compact(self._view.messages, trigger="auto", **self._options())
        except CompactionError:
            self._failures += 1
            return None
        return self._install(result, version)

    async def _aauto(self) -> CompactionResult | None:
        version = len(self.history)
        try:
            result = await acompact(self._view.messages, trigger="auto", **self._options())
        except CompactionError:
            self._failures += 1
            return None
        return self._install(result, version)

    def _install(self, result: CompactionResult, version: int) -> CompactionResult:
        """Put the result in place; messages that came meanwhile follow it."""
        if result.outcome.value == "failed":
            self._failures += 1
        if not result.compacted:
            return result
        before = self._view.ledger.tokens()
        came = self.history[version:]
        removed = len(self._view)
        self._view.rebase([*result.messages, *came])
        self._failures = 0
        self._note_refill()
        self.reports.append(
            StageReport(
                stage="autocompact",
                why="summary",
                tokens_before=before,
                tokens_after=self._view.ledger.tokens(),
                first_changed=0,
                removed_messages=removed - len(result.kept),
            )
        )
        return result

    def _note_refill(self) -> None:
        """A compaction that was needed again within a few turns counts; a longer rest forgets."""
        soon = (
            self._since_compaction is not None
            and self._turns - self._since_compaction <= self.policy.auto.refill_turns
        )
        self._refills = [*self._refills, self._turns] if soon else []
        self._since_compaction = self._turns

    def _finish(self, reports: list[StageReport], result: CompactionResult | None) -> Request:
        limit = self.model.context_window * self.policy.truncate.start_percent // 100
        if self._view.tokens(self._overhead) > limit:
            report = self._truncate(limit)
            reports = [*reports, report] if report is not None else reports
        self.reports.extend(reports)
        self._view.sent = len(self._view)
        tokens = self._view.tokens(self._overhead)
        if tokens > self.model.context_window:
            raise ContextTooLarge(tokens, self.model.context_window)
        # Thinking may stand behind another prefix than the model's own only after a cut.
        cut = any(report.removed_messages for report in self.reports)
        sent = repair(
            self._view.messages, model=self.model.name, original=self.history if cut else None
        )
        return Request(list(sent.messages), tuple(reports), result, tokens, tuple(sent.repairs))

    def _truncate(self, limit: int) -> StageReport | None:
        return truncate.apply(self._view, limit, self._overhead, self.policy.truncate.margin_tokens)


def _count(value: Any, weights: Any) -> int:
    """Tokens of a system prompt or of tool definitions; 0 for none."""
    if not value:
        return 0
    text = value if isinstance(value, str) else orjson.dumps(value).decode()
    return int(core.estimate_text(text, weights))

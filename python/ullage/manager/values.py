"""What a context manager hands out: requests, figures, decisions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ullage.compaction import CompactionResult
from ullage.legality.repair import Repair
from ullage.levels.report import StageReport
from ullage.messages import Item
from ullage.providers import Loss

__all__ = ["Decided", "Recovery", "Request", "Usage"]


@dataclass(frozen=True, slots=True)
class Usage:
    """How full the window is.

    Attributes:
        tokens: Of the next request.
        window_tokens: The model's context window.
        reported: Whether it is based on the provider's own figure.
        low: At least so many, nine times in ten; `high`: at most.
        by_category: Estimated tokens by what they are spent on; empty where nobody asked for it.
    """

    tokens: int
    window_tokens: int
    reported: bool
    low: int = 0
    high: int = 0
    by_category: Mapping[str, int] = field(default_factory=dict)

    @property
    def percent(self) -> int:
        """Share of the window, rounded down."""
        return 100 * self.tokens // self.window_tokens


@dataclass(frozen=True, slots=True)
class Decided:
    """Whether an automatic compaction is due, and why or why not.

    Attributes:
        compact: It is due.
        why: In words.
        code: For programs: `due`, `below`, `off`, `source`, `reactive_only`, `collapse`, `failures` or `refills`.
        tokens: Of the next request.
        limit_tokens: Where it would be due.
        fills: What fills the window, by category, where that is why nothing is done.
    """

    compact: bool
    why: str
    code: str = ""
    tokens: int = 0
    limit_tokens: int = 0
    fills: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Recovery:
    """What was done about a refusal; true if it is worth to prepare again and retry.

    Attributes:
        kind: What the error was, as `ullage.providers.classify` names it.
        step: The last resort that made room: `collapse`, `compact`, `parts`, `fold`, `truncate`; empty: none did.
        freed: Tokens by estimate.
        learned_limit: The window that the error named (WIN-6); `None`: it named none.
        reports: Of the steps that acted.
        max_tokens: The most output that the provider will take with this request: ask for no more, and retry. `None`: output
            was not what was too much.
    """

    kind: str
    step: str = ""
    freed: int = 0
    learned_limit: int | None = None
    reports: tuple[StageReport, ...] = ()
    max_tokens: int | None = None

    def __bool__(self) -> bool:
        return bool(self.step) or self.max_tokens is not None


class Request:
    """What to send, and what was done to make it fit.

    A request stays as it is, whatever becomes of the conversation. Making one costs what is new, not
    the length: `messages` is put together when it is first asked for.

    Attributes:
        number: Of this request in the conversation, from 1.
        reports: Of the levels that acted in this call, in order; those of earlier requests are in `ContextManager.explain()`.
        compaction: The compaction that ran, if one did.
        provider: Whose form it has.
        repairs: What was repaired so that the provider accepts it; the history is unchanged.
        losses: What the provider's form cannot express.
        parts: The body's keys besides the messages: system prompt and tools, in the provider's format.
        tokens: Estimate of the request, system prompt and tools included.
        params: Parameters to add, such as `context_management`.
        headers: HTTP headers to add, such as `anthropic-beta`.
        tools: Tool definitions that levels offered to the model; they are in `parts` and `body` already, with the host's.
        applied_edits: What was done here of a `context_management` that the provider does not know, in Anthropic's form.
        cache_edits: Tool uses that a host which can may drop from the provider's cached prefix; never sent (MIC-2).
        rewritten_from: First message that differs from the previous request; `None`: that one is wholly a prefix of this.
    """

    __slots__ = (
        "_count",
        "_items",
        "_list",
        "_list_key",
        "applied_edits",
        "cache_edits",
        "compaction",
        "headers",
        "losses",
        "number",
        "params",
        "parts",
        "provider",
        "repairs",
        "reports",
        "rewritten_from",
        "tokens",
        "tools",
    )

    def __init__(
        self,
        items: Sequence[Item],
        count: int,
        *,
        number: int,
        tokens: int,
        reports: Sequence[StageReport] = (),
        compaction: CompactionResult | None = None,
        repairs: Sequence[Repair] = (),
        losses: Sequence[Loss] = (),
        parts: Mapping[str, Any] | None = None,
        provider: str = "anthropic",
        list_key: str = "messages",
        params: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        tools: Sequence[Mapping[str, Any]] = (),
        applied_edits: Sequence[Mapping[str, Any]] = (),
        cache_edits: Sequence[str] = (),
        rewritten_from: int | None = None,
    ) -> None:
        self._items, self._count = items, count
        self._list: list[Item] | None = None
        self.number, self.tokens = number, tokens
        self.reports, self.compaction, self.repairs = tuple(reports), compaction, tuple(repairs)
        self.params, self.headers, self.tools = dict(params or {}), dict(headers or {}), list(tools)
        self.applied_edits, self.cache_edits = list(applied_edits), tuple(cache_edits)
        self.losses, self.parts = tuple(losses), dict(parts or {})
        self.provider, self._list_key = provider, list_key
        self.rewritten_from = rewritten_from

    @property
    def messages(self) -> list[Item]:
        """For the provider; messages that nothing touched are the objects that were added."""
        if self._list is None:
            self._list = list(self._items[: self._count])
        return self._list

    @property
    def records(self) -> list[dict[str, Any]]:
        """Lines for the transcript, in order: with them a resume shows what this request shows (`log.extend`)."""
        return [record for report in self.reports for record in report.records]

    @property
    def body(self) -> dict[str, Any]:
        """What to send, all of it but model and output limit: messages, system prompt, tools, parameters."""
        return {self._list_key: self.messages, **self.parts, **self.params}

    def __len__(self) -> int:
        return self._count

    def __repr__(self) -> str:
        acted = ", ".join(report.stage for report in self.reports) or "nothing done"
        return f"Request({self.number}: {self._count} messages, ≈{self.tokens:_} tokens, {acted})"

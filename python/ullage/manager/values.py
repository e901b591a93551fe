"""The values that a context manager returns: requests, figures, decisions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any

from ullage._start import Frozen, NamedTuple
from ullage.levels.level import Extras
from ullage.levels.view import StageReport
from ullage.messages import Item
from ullage.providers import Loss
from ullage.providers.registry import Provider

if TYPE_CHECKING:
    from ullage.compaction import CompactionResult
    from ullage.legality.draft import Repair
    from ullage.manager.request_writer import CacheMarks
    from ullage.requests.to_request import Outgoing


class Usage(Frozen):
    """How full the window is.

    Attributes:
        tokens: Size of the next request.
        window_tokens: The model's context window.
        reported: Whether it is based on the provider's own figure.
        low: Lower end of the 90 % interval; `high`: its upper end.
        by_category: Estimated tokens by category; empty if not requested.
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


class Decided(Frozen):
    """Whether an automatic compaction is due, and why or why not.

    Attributes:
        compact: Whether it is due.
        why: The reason, as text.
        code: For programs: `due`, `below`, `off`, `source`, `reactive_only`, `collapse`, `failures` or `refills`.
        tokens: Size of the next request.
        limit_tokens: The size at which it would be due.
        fills: What fills the window, by category, if that is why nothing is done.
    """

    compact: bool
    why: str
    code: str = ""
    tokens: int = 0
    limit_tokens: int = 0
    fills: Mapping[str, int] = field(default_factory=dict)


class Recovery(Frozen):
    """What was done about a refusal; true if it is worthwhile to prepare again and retry.

    Attributes:
        kind: What the error was, as `ullage.providers.classify` names it.
        step: The last resort that made room: `collapse`, `compact`, `parts`, `fold`, `truncate`; empty: none did.
        freed: Tokens by estimate.
        learned_limit: The window that the error named (WIN-6); `None`: it named none.
        reports: Of the steps that acted.
        max_tokens: The most output that the provider accepts with this request: request no more, and retry. `None`: the output
            was not too large.
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
    """A request to send, and what was done to make it fit.

    A request does not change when the conversation does. Preparing one costs what is new, not
    the length: `messages` is assembled on first use.

    Attributes:
        number: Of this request in the conversation, from 1.
        reports: Of the levels that acted in this call, in order; those of earlier requests are in `ContextManager.explain()`.
        compaction: The compaction that ran, if one did.
        provider: The provider whose format it has.
        parts: The body's keys besides the messages: system prompt and tools, in the provider's format.
        tokens: Estimate of the request, system prompt and tools included.
        params: Parameters to add, such as `context_management`.
        headers: HTTP headers to add, such as `anthropic-beta`.
        tools: Tool definitions that levels offered to the model; `parts` and `body` include them, with the host's.
        applied_edits: What was done here for a `context_management` that the provider does not support, in Anthropic's format.
        cache_edits: Tool uses that a capable host may drop from the provider's cached prefix; never sent (MIC-2).
        rewritten_from: First message that differs from the previous request; `None`: that one is a prefix of this one.
    """

    def __init__(
        self,
        items: Sequence[Item],
        count: int,
        number: int,
        tokens: int,
        provider: Provider,
        reports: Sequence[StageReport],
        compaction: CompactionResult | None,
        extras: Extras,
        parts: Mapping[str, Any],
        params: Mapping[str, Any],
        outcome: tuple[Sequence[Repair], Sequence[Loss]] | Callable[[], Outgoing],
        rewritten_from: int | None,
        marks: CacheMarks | None,
    ) -> None:
        self._items, self._count, self._list_key = items, count, provider.list_key
        self._list: list[Item] | None = None
        self._outcome, self._marks = outcome, marks
        self.number, self.tokens, self.provider = number, tokens, provider.name
        self.reports, self.compaction = (*reports,), compaction
        self.rewritten_from = rewritten_from
        self.parts, self.params = {**parts}, {**extras.params, **params}
        self.headers, self.tools = {**extras.headers}, [*extras.tools]
        self.applied_edits, self.cache_edits = [*extras.applied_edits], (*extras.cache_edits,)

    @property
    def repairs(self) -> tuple[Repair, ...]:
        """What was repaired so that the provider accepts it; the history is unchanged."""
        return tuple(self._repaired()[0])

    @property
    def losses(self) -> tuple[Loss, ...]:
        """What the provider's format cannot express."""
        return tuple(self._repaired()[1])

    def _repaired(self) -> tuple[Sequence[Repair], Sequence[Loss]]:
        # Few readers ask: where that means to write all again, it is done when one does.
        if callable(self._outcome):
            whole = self._outcome()
            self._outcome = whole.repairs, whole.losses
        return self._outcome

    @property
    def messages(self) -> list[Item]:
        """The messages for the provider; unchanged ones are the objects that were added."""
        if self._list is None:
            self._list = list(self._items[: self._count])
        return self._list

    @property
    def records(self) -> list[dict[str, Any]]:
        """Lines for the transcript, in order: with them a resume shows what this request shows (`log.extend`)."""
        return [record for report in self.reports for record in report.records]

    @property
    def body(self) -> dict[str, Any]:
        """Everything to send except model and output limit: messages, system prompt, tools, parameters, with cache marks.

        What carries a mark is a copy; `messages` and `parts` are without.
        """
        messages: list[Item] = self.messages
        parts: Mapping[str, Any] = self.parts
        if self._marks is not None:
            messages, parts = self._marks.on(messages, parts)
        return {self._list_key: messages, **parts, **self.params}

    @property
    def arguments(self) -> dict[str, Any]:
        """The body as keyword arguments of the provider's SDK: those of Google's are `contents` and `config`; of others, the body's keys."""
        if self._list_key != "contents":
            return self.body
        return {"contents": self.messages, "config": {**self.parts, **self.params}}

    def __len__(self) -> int:
        return self._count

    def __repr__(self) -> str:
        acted = ", ".join(report.stage for report in self.reports) or "nothing done"
        return f"Request({self.number}: {self._count} messages, ≈{self.tokens:_} tokens, {acted})"


class RequestRecord(NamedTuple):
    """What is remembered of a request.

    Attributes:
        number: From 1.
        messages: In it.
        history: Messages that had been added by then.
        tokens: By the count that decisions are made on.
        at_ms: The host's clock; `None`: it gave none.
        by_category: Estimated tokens; empty categories are left out.
    """

    number: int
    messages: int
    history: int
    tokens: int
    at_ms: int | None
    by_category: Mapping[str, int]


# What a provider reports of a request's size.


class Figure(NamedTuple):
    """The newest figure that a provider reported, to measure the next one against."""

    total: int  # prompt and answer, tokens
    estimated: int  # of all messages up to the answer, answer included
    messages: int  # in the view then
    rewrites: int  # of the view then


def reported(usage: Any) -> tuple[int, int]:
    """Tokens of the prompt (cached ones included) and of the answer, as a response states them; 0: it does not."""
    if type(usage) is not dict and not isinstance(usage, Mapping):  # dicts are recognised at once
        return 0, 0
    prompt = answer = 0
    for name, value in usage.items():
        if type(value) is int and value > 0 and name in _FIGURES:
            if name in _ANSWER:
                answer += value
            else:
                prompt += value
    return prompt, answer


def states_usage(usage: Any) -> bool:
    """Whether a response states how large its prompt was, be it 0."""
    if type(usage) is not dict and not isinstance(usage, Mapping):
        return False
    return any(name in _STATED and type(usage[name]) is int for name in usage)


_PROMPT = (
    "input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens", "prompt_tokens",
)  # fmt: skip
_ANSWER = ("output_tokens", "completion_tokens")
_FIGURES = frozenset((*_PROMPT, *_ANSWER))
_STATED = frozenset((*_PROMPT, "total_tokens"))

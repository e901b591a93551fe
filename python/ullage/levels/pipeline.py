"""The levels before the summary, in their order, over one view.

`tool-result budget → in-place snip → turn snip → microcompact → context collapse`; autocompact and the last
resorts follow in `ullage.manager`, which alone may ask for a summary of the whole.

A level is a `Level`: a name, a `run`, and the class of its own state if it has any.

- `run(view, policy, situation, state)` changes the view and returns a `StageReport`, or `None` if it did nothing. It
  does no I/O: a level that needs the outside is a generator that yields effects (`ullage.effects`) and
  returns its report. It acts only on what the levels before it left over, and is all or nothing.
- Its state is an object with `dump()` and a class method `load(stored)`; both forms are plain JSON. A fresh
  one is made without arguments. It is saved and restored with the conversation.
- Optional: `observe(response, view, state)` sees each answer of the provider; `drain(view, policy, situation,
  state)` is asked, as `run`, when a provider refused a request as too long; `reset(state)` is told after
  a compaction.
- What must go beside the messages (parameters, headers, tools for the model) a level puts into
  `situation.extras`, on every request anew.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, Self

from ullage.effects import Flow
from ullage.levels import (
    collapse,
    context_edits,
    microcompact,
    microcompact_state,
    model_tools,
    provider_clearing,
    snip,
    tool_budget,
    turn_snip,
)
from ullage.levels.context_management import ContextManagement
from ullage.levels.cost import expected_cost, is_cold
from ullage.levels.report import StageReport
from ullage.levels.view import View
from ullage.policy import Policy
from ullage.providers.registry import Provider, provider_of
from ullage.recall import RECALL_TOOL
from ullage.recall.store import OffloadStore

__all__ = [
    "LEVELS",
    "Extras",
    "Level",
    "LevelState",
    "Situation",
    "fresh_states",
    "room_of",
    "run",
    "run_one",
]


@dataclass(slots=True)
class Extras:
    """What goes into a request beside its messages.

    Attributes:
        params: Parameters of the provider, such as `context_management`.
        headers: HTTP headers, such as `anthropic-beta`; values of several levels are joined by commas.
        tools: Definitions that a level offers to the model.
        applied_edits: What was done of a `context_management` that is not sent, in the API's form.
        cache_edits: Tool uses that a host which can may drop from the provider's cached prefix; no public API takes them.
    """

    params: dict[str, Any] = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)
    tools: list[Mapping[str, Any]] = field(default_factory=list)
    applied_edits: list[dict[str, Any]] = field(default_factory=list)
    cache_edits: list[str] = field(default_factory=list)

    def add_header(self, name: str, value: str) -> None:
        """Add a header; a second value follows the first, unless it is there already."""
        known = [each for each in self.headers.get(name, "").split(",") if each]
        if value not in known:
            self.headers[name] = ",".join([*known, value])


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """What the levels are told beside the view.

    Attributes:
        window_tokens: The model's context window.
        overhead_tokens: System prompt and tool definitions.
        now_ms: The host's clock; `None`: unknown, nothing happens by time.
        store: For offloaded results; `None`: nothing is offloaded.
        effective_tokens: Window less room for a summary (WIN-1); 0: the window.
        source: Who asks: `main`, `subagent`, `compact`, `session_memory`, `collapse`, ...
        provider: The provider's form.
        model: The model's row of the table; `None`: unknown.
        summarizer: For levels that ask a model; `None`: none is there.
        line_summarizer: With a small model, for lines of single results; `None`: none is there.
        beside: Takes the steps of what a level asked beside the conversation (`go_on`); `None`: nobody asks there.
        request: Number of the request that is being prepared, from 1.
        tools: Names of the tools that the host offers; a level's tool is used only if it is among them.
        history: All that was added; positions in `View.sources` and `StageReport.removed` are positions in it.
        extras: What goes beside the messages.
    """

    window_tokens: int
    overhead_tokens: int = 0
    now_ms: int | None = None
    store: OffloadStore | None = None
    effective_tokens: int = 0
    source: str = "main"
    provider: Provider = field(default_factory=lambda: provider_of("anthropic"))
    model: Any = None
    summarizer: Any = None
    line_summarizer: Any = None
    beside: Any = None
    request: int = 0
    tools: frozenset[str] = frozenset()
    history: Sequence[Mapping[str, Any]] = field(default_factory=list, repr=False)
    extras: Extras = field(default_factory=Extras, repr=False)

    def fill_percent(self, view: View) -> int:
        """Share of the window that the next request takes, rounded down."""
        return 100 * view.tokens(self.overhead_tokens) // self.window_tokens


class LevelState(Protocol):
    """A level's own state."""

    def dump(self) -> Any:
        """As plain JSON."""
        ...

    @classmethod
    def load(cls, stored: Any) -> Self:
        """What `dump` gave."""
        ...


Outcome = StageReport | None | Flow[StageReport | None]


@dataclass(frozen=True, slots=True)
class Level:
    """One level of the pipeline; see the module.

    Attributes:
        name: As in reports.
        run: Acts.
        state: Class of its own state; `None`: it has none.
        observe: Sees each answer; `None`: does not care.
        drain: Makes room after a refusal; `None`: cannot.
        reset: Told after a compaction; `None`: does not care.
    """

    name: str
    run: Callable[[View, Policy, Situation, Any], Outcome]
    state: type[LevelState] | None = None
    observe: Callable[[Mapping[str, Any], View, Any], None] | None = None
    drain: Callable[[View, Policy, Situation, Any], Outcome] | None = None
    reset: Callable[[Any], None] | None = None


def _tool_budget(view: View, policy: Policy, situation: Situation, _: Any) -> Outcome:
    return tool_budget.flow(view, policy, situation.store)


def _snip(view: View, policy: Policy, situation: Situation, _: Any) -> Outcome:
    fits = view.tokens(situation.overhead_tokens) <= situation.window_tokens
    return snip.apply(view, policy, situation.fill_percent(view), fits=fits)


def _turn_snip(view: View, policy: Policy, situation: Situation, state: Any) -> Outcome:
    if turn_snip.SNIP_TOOL.name not in situation.tools:
        return None
    return turn_snip.apply(view, policy, situation.overhead_tokens, state)


def _edits(view: View, policy: Policy, situation: Situation, state: Any) -> Outcome:
    del policy
    if state.config is None:
        return None
    if provider_clearing.understands(situation.provider, situation.model):
        situation.extras.params["context_management"] = state.config
        for beta in ContextManagement.read(state.config).headers():
            situation.extras.add_header("anthropic-beta", beta)
        return None
    report = context_edits.apply(view, situation.overhead_tokens, state)
    situation.extras.applied_edits += state.applied_edits()
    return report


def _provider(view: View, policy: Policy, situation: Situation, state: Any) -> Outcome:
    params, betas = provider_clearing.parameters(
        policy, situation.provider, situation.model, situation.tools, state
    )
    # What the host itself gave as `context_management` goes before what the policy makes.
    own = {key: value for key, value in params.items() if key not in situation.extras.params}
    situation.extras.params.update(own)
    for beta in betas if own else ():
        situation.extras.add_header("anthropic-beta", beta)
    return provider_clearing.report(view, state)


def _microcompact(view: View, policy: Policy, situation: Situation, state: Any) -> Outcome:
    if provider_clearing.comes_first(view, policy, situation.provider, situation.model):
        return None
    pressure = microcompact.Pressure(
        situation.fill_percent(view),
        situation.window_tokens,
        situation.overhead_tokens,
        situation.now_ms,
        situation.line_summarizer,
        _patience(view, policy, situation),
        situation.source,
        RECALL_TOOL.name in situation.tools,
    )
    return _with_edits(view, policy, pressure, situation.extras, state)


def _patience(
    view: View, policy: Policy, situation: Situation
) -> Callable[[int, int], bool] | None:
    """Whether clearing pays soon enough (BEY-2); `None`: the policy does not ask."""
    limit, model = policy.cost.wait_requests, situation.model
    if not limit or model is None:
        return None
    cold = is_cold(view, model, situation.now_ms)

    def pays(first: int, freed: int) -> bool:
        found = expected_cost(
            view, model, first, freed, overhead_tokens=situation.overhead_tokens, cold=cold
        )
        return found.break_even_turns is not None and found.break_even_turns <= limit

    return pays


def _with_edits(
    view: View,
    policy: Policy,
    pressure: microcompact.Pressure,
    extras: Extras,
    state: microcompact_state.Micro,
) -> Flow[StageReport | None]:
    report = yield from microcompact.flow(view, policy, pressure, state)
    extras.cache_edits += state.edits
    return report


def room_of(situation: Situation) -> collapse.Room:
    """What context collapse is told."""
    return collapse.Room(
        situation.effective_tokens or situation.window_tokens,
        situation.overhead_tokens,
        situation.summarizer,
        situation.source,
        situation.now_ms or 0,
        situation.beside,
    )


def _collapse(view: View, policy: Policy, situation: Situation, state: Any) -> Outcome:
    return collapse.apply(view, policy, room_of(situation), state)


def _offers(view: View, policy: Policy, situation: Situation, state: Any) -> Outcome:
    model_tools.notice(view, policy, situation.fill_percent(view), state)
    return None


def _drain(view: View, policy: Policy, situation: Situation, state: Any) -> Outcome:
    del situation
    return collapse.drain(view, policy, state)


LEVELS: tuple[Level, ...] = (
    Level("tool_budget", _tool_budget),
    Level("snip", _snip),
    Level(turn_snip.STAGE, _turn_snip, turn_snip.TurnSnip, reset=turn_snip.reset),
    Level(context_edits.STAGE, _edits, context_edits.ContextEdits),
    Level(
        provider_clearing.STAGE,
        _provider,
        provider_clearing.ProviderClearing,
        observe=provider_clearing.observe,
    ),
    Level(microcompact.STAGE, _microcompact, microcompact_state.Micro),
    Level(collapse.STAGE, _collapse, collapse.Collapse, drain=_drain, reset=collapse.reset),
    Level(model_tools.STAGE, _offers, model_tools.Offers),
)
"""In order; each acts only on what the one before left over."""


def fresh_states(levels: tuple[Level, ...] = LEVELS) -> dict[str, Any]:
    """The states of a conversation that begins."""
    return {level.name: level.state() for level in levels if level.state is not None}


def run_one(
    act: Callable[[View, Policy, Situation, Any], Outcome],
    view: View,
    policy: Policy,
    situation: Situation,
    state: Any,
) -> Flow[StageReport | None]:
    """One level's `run` or `drain`, whether it asks for effects or not."""
    outcome = act(view, policy, situation, state)
    if isinstance(outcome, Generator):
        outcome = yield from outcome
    return outcome


def run(
    view: View,
    policy: Policy,
    situation: Situation,
    states: Mapping[str, Any],
    note: Callable[[StageReport], Flow[StageReport]],
    levels: tuple[Level, ...] = LEVELS,
) -> Flow[list[StageReport]]:
    """Run the levels that need no summary of the whole.

    Args:
        view: Changed by them.
        policy: Every threshold.
        situation: What they are told.
        states: Their own, by name.
        note: Takes each report into account as soon as its level has acted.
        levels: In order.

    Returns:
        Reports of those that acted.
    """
    reports: list[StageReport] = []
    for level in levels:
        report = yield from run_one(level.run, view, policy, situation, states.get(level.name))
        if report is not None:
            noted = yield from note(report)
            reports.append(noted)
    return reports

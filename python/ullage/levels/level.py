"""The one shape of a level, and the one thing that a level is given.

What is sent besides the messages (parameters, headers, tools for the model) a level puts into `context.extras`, on
every request again.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Final, Protocol, Self, TypeVar

from ullage._engine.digests import BlockKind, MessageFlag
from ullage._start import NamedTuple
from ullage.counting.models import Model
from ullage.effects import Effect, Flow, Summarize, Together
from ullage.facts.words import is_host_only
from ullage.levels.view import StageReport, View
from ullage.policy import Policy
from ullage.providers.registry import Provider, provider_of

if TYPE_CHECKING:
    from ullage.levels.pins import Pin
    from ullage.recall.store import OffloadStore
    from ullage.summarizers.protocol import SummaryReply, SummaryRequest, Writer

S = TypeVar("S")


class LevelState(Protocol):
    """What a level remembers of a conversation."""

    def dump(self) -> object:
        """As plain JSON."""
        ...

    @classmethod
    def load(cls, stored: object) -> Self:
        """What `dump` gave."""
        ...


class Background(Protocol):
    """Asks for summaries of spans while the conversation goes on."""

    @property
    def running(self) -> bool:
        """Whether something was asked and is not done."""
        ...

    def go_on(self) -> None:
        """Take the steps that the answers so far allow; never waits."""
        ...


class AutoCompactor(Protocol):
    """Summarises the whole conversation, for the level that decides when."""

    @property
    def possible(self) -> bool:
        """Compaction is not switched off."""
        ...

    @property
    def least_tokens(self) -> int:
        """Below this size neither `due` nor `due_at_last` is true."""
        ...

    def due(self, tokens: int) -> bool:
        """Whether the context, of this size, has reached the threshold and nothing speaks against a summary."""
        ...

    def due_at_last(self, tokens: int) -> bool:
        """Whether there is no room left while context collapse stands in for summaries, or while they rest."""
        ...

    def compact(self, *, why: str = "summary", instructions: str = "") -> Flow[StageReport | None]:
        """Summarise and install; `None` if nothing was installed. A failure is counted, never raised."""
        ...


@dataclass(slots=True, eq=False, repr=False)
class Extras:
    """What goes into a request besides its messages.

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
        values = [listed for listed in self.headers.get(name, "").split(",") if listed]
        if value not in values:
            self.headers[name] = ",".join([*values, value])


class Goal(NamedTuple):
    """What a run of the levels must reach.

    Attributes:
        tokens: The largest size of the request that the last resorts leave alone; `None`: they leave every size alone.
        refused: A provider refused the request: `tokens` is by our estimate, and each resort acts when it is asked. Else a
            request is being prepared, and `tokens` is by the count that the provider's figures correct.
    """

    tokens: int | None = None
    refused: bool = False


NO_GOAL: Final = Goal()
_NEVER: Final = 1 << 62


class Rest(NamedTuple):
    """While all of this holds, `Level.run` does nothing, as long as messages are only added.

    Attributes:
        fill: The request by `View.tokens` is smaller.
        least_fill: And at least so large.
        tokens: It is smaller by `Context.tokens`.
        result_chars: No new tool result is longer, nor empty.
        message_chars: The new results together are not longer.
        pause_ms: The newest answer is younger.
        images: There are no more images in all.
    """

    fill: int = _NEVER
    least_fill: int = 0
    tokens: int = _NEVER
    result_chars: int = _NEVER
    message_chars: int = _NEVER
    pause_ms: int = _NEVER
    images: int = _NEVER

    def both(self, *others: Rest) -> Rest:
        """While all of them hold."""
        fill, least_fill, *marks = zip(self, *others, strict=True)
        return Rest(min(fill), max(least_fill), *map(min, marks))


NEVER: Final = Rest()
"""The level will do nothing, whatever is added."""

NOW: Final = Rest(fill=0)
"""The level must be run."""


def share_of(window_tokens: int, percent: int) -> int:
    """The smallest size of which `percent` of the window is reached, rounded down as `Context.fill_percent` does; 0: at any size."""
    return -(-window_tokens * percent // 100)


@dataclass(slots=True, kw_only=True, eq=False, repr=False)
class Context:
    """What a level sees, and what it may use.

    Attributes:
        view: The request as it stands; the level changes it.
        policy: Every threshold.
        states: Of all levels, by name; see `state`.
        window_tokens: The model's context window; 0: unknown, then it counts as full.
        effective_tokens: Window less room for a summary (WIN-1); 0: the window.
        overhead_tokens: System prompt and tool definitions.
        now_ms: The host's clock in milliseconds since the epoch; `None`: unknown, nothing happens by time.
        source: Who asks: `main`, `subagent`, `compact`, `session_memory`, `collapse`, ...
        provider: The provider's form.
        model: The model's row of the table; `None`: unknown.
        manual_thinking: An open turn has to begin with its thinking (A14).
        tools: Names of the tools that the host offers; a level's tool is used only if it is among them.
        request: Number of the request that is being prepared, from 1.
        history: All that was added; positions in `View.sources` and `StageReport.removed` are positions in it.
        pins: Texts that are kept verbatim through every level.
        store: For offloaded results; `None`: nothing is offloaded.
        summarizer: For levels that ask a model; `None`: none is there.
        line_summarizer: With a small model, for lines of single results; `None`: none is there.
        background: Takes the steps of what a level asked in the background; `None`: nobody asks there.
        compactor: Summarises the whole; `None`: nobody does.
        count: The next request's tokens, corrected by the provider's figures; `None`: as `view.tokens` has it.
        goal: What the levels must reach.
        extras: What is sent besides the messages.
        reports: Of the levels that acted in this run so far, in order.
    """

    view: View
    policy: Policy
    states: Mapping[str, LevelState] = field(default_factory=dict)
    window_tokens: int = 0
    effective_tokens: int = 0
    overhead_tokens: int = 0
    now_ms: int | None = None
    source: str = "main"
    provider: Provider = field(default_factory=lambda: provider_of("anthropic"))
    model: Model | None = None
    manual_thinking: bool = False
    tools: frozenset[str] = frozenset()
    request: int = 1
    history: Sequence[Mapping[str, Any]] = ()
    pins: Iterable[Pin] = ()
    store: OffloadStore | None = None
    summarizer: Writer | None = None
    line_summarizer: Writer | None = None
    background: Background | None = None
    compactor: AutoCompactor | None = None
    count: Callable[[], int] | None = None
    goal: Goal = NO_GOAL
    extras: Extras = field(default_factory=Extras)
    reports: list[StageReport] = field(default_factory=list)
    _limit: int | None = field(default=None, init=False, repr=False)
    _counted: tuple[int, int, int] = field(default=(-1, -1, 0), init=False, repr=False)

    def state(self, kind: type[S]) -> S:
        """The state of this class.

        Raises:
            LookupError: No level of this conversation has such a state.
        """
        for state in self.states.values():
            if type(state) is kind:
                return state
        raise LookupError(f"no level has a state {kind.__name__}")

    def fill_percent(self) -> int:
        """Share of the window that the next request takes, rounded down."""
        if not self.window_tokens:
            return 100
        return 100 * self.view.tokens(self.overhead_tokens) // self.window_tokens

    def tokens(self) -> int:
        """Tokens of the next request, by the best count there is; counted again only where the view has changed."""
        ledger = self.view.ledger
        version, length, counted = self._counted
        if version != ledger.version or length != len(ledger):
            count = self.count
            counted = self.view.tokens(self.overhead_tokens) if count is None else count()
            self._counted = ledger.version, len(ledger), counted
        return counted

    def over_goal(self) -> bool:
        """Whether a last resort is due."""
        goal = self.goal
        return goal.refused or (goal.tokens is not None and self.tokens() > goal.tokens)

    def within_goal(self) -> Rest:
        """While `over_goal` is false."""
        goal = self.goal
        if goal.refused:
            return NOW
        return NEVER if goal.tokens is None else Rest(tokens=goal.tokens + 1)

    def limit_tokens(self) -> int:
        """What a last resort may leave, by our estimate, `truncate.margin_tokens` included; the same for all of one run."""
        if self._limit is None:
            wanted = self.goal.tokens or 0
            if self.goal.refused:
                self._limit = wanted + self.policy.truncate.margin_tokens
            else:
                # Levels measure by our estimate; the provider's figure for the same messages may be higher.
                self._limit = min(wanted, wanted * self.estimated() // max(1, self.tokens()))
        return self._limit

    def estimated(self) -> int:
        """Tokens of the next request by our estimate alone."""
        return int(self.view.ledger.tokens()) + self.overhead_tokens


Outcome = StageReport | None | Flow[StageReport | None]


class Level(NamedTuple):
    """One level.

    Attributes:
        name: Of its state, and of what it does in reports.
        run: Changes `context.view` and returns a `StageReport`, or `None` if it did nothing. It does no I/O: a level that calls a
            model, a hook or a file is a generator that yields effects (`ullage.effects`) and returns its report. It acts only on
            what the levels before it left over, and is all or nothing.
        state: Class of what it remembers of a conversation; a fresh one is made without arguments, saved and restored with the
            conversation, and found by `context.state(Kind)`. `None`: nothing.
        drain: Asked in place of `run` when a provider refused a request as too long: `context.goal` says what must be reached.
            `None`: it cannot make room.
        resort: The last resort that `drain` is part of, as `Recovery.step` names it: neighbours of one name act as one, and each
            is asked once for a request. Empty: `name`.
        observe: Sees each answer of the model; `None`: does not care.
        reset: Called after a compaction; `None`: does not care.
        rewind: Called with the number of messages that stay, after newer ones were taken back; `None`: does not care.
        rest: Until when `run` has nothing to do: until then a request is made without asking the level. `None`: it must be run for
            every request; the others are not for that.
        catch_up: Does what `run` would have noted of messages meanwhile. Called before anything else looks at the state, if requests were made without `run`: with the index of the
            first message that came since; returns False where its state stays as it was. `None`: nothing is missed.
    """

    name: str
    run: Callable[[Context], Outcome]
    state: type[LevelState] | None = None
    drain: Callable[[Context], Outcome] | None = None
    resort: str = ""
    observe: Callable[[Context, Mapping[str, Any]], None] | None = None
    reset: Callable[[Context], None] | None = None
    rewind: Callable[[Context, int], None] | None = None
    rest: Callable[[Context], Rest] | None = None
    catch_up: Callable[[Context, int], bool | None] | None = None


class PlainState:
    """The state of a level whose fields are plain JSON: a base of dataclasses, which share what would be compiled for each."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self.dump() == other.dump()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.dump()})"

    def dump(self) -> dict[str, Any]:
        """As plain JSON."""
        return asdict(self)  # type: ignore[call-overload, no-any-return]

    @classmethod
    def load(cls, stored: Any) -> Self:
        """What `dump` gave."""
        return cls(**stored)


# What levels ask of a model.


def replies_to(requests: Iterable[SummaryRequest], writer: Writer, at_once: int) -> Flow[list[Any]]:
    """The answer, or the exception, for each request, in their order; so many are asked at once."""
    asked: list[Effect] = [Summarize(request, writer) for request in requests]
    replies: list[Any] = []
    for first in range(0, len(asked), at_once):
        replies += yield Together(tuple(asked[first : first + at_once]))
    return replies


def usable(reply: Any) -> SummaryReply | None:
    """An answer whose text can be used: no failure, no refusal, no call of a tool."""
    from ullage.summarizers.protocol import SummaryReply

    if isinstance(reply, str):
        return SummaryReply(text=reply)
    if not isinstance(reply, SummaryReply) or reply.is_refusal or reply.tool_calls:
        return None
    return reply


# Where turns begin. A ledger's `whole_cuts` are the positions at which a conversation can be cut with nothing split: no answered call has
# its result on the other side, no response that was stored in pieces, and no two assistant messages, which are one turn on the wire.


def turn_starts(ledger: Any, start: int = 0) -> list[int]:
    """Messages from `start` on that begin a turn and can be cut off before: user inputs that answer no call, with no call open."""
    cuts: list[int] = ledger.whole_cuts()
    ahead = cuts[bisect_left(cuts, start) :]
    return [
        at
        for at in ahead
        if at < len(ledger)
        and ledger.message(at).flags & _USER_INPUT
        and not any(block.kind == BlockKind.TOOL_RESULT for block in ledger.blocks(at))
    ]


# A plain number: an enum's own operators are slow, and every message may be asked.
_USER_INPUT = MessageFlag.USER_INPUT


def newest_input(view: Any) -> int | None:
    """The newest message of a view that the user wrote; what levels made does not count. `None`: there is none."""
    for at in range(len(view) - 1, -1, -1):
        is_input = view.ledger.message(at).flags & _USER_INPUT
        if is_input and isinstance(view.sources[at], int) and not is_host_only(view.originals[at]):
            return at
    return None

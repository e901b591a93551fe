"""Replays a real session turn by turn through every level, as if it were live, with its cost.

`script_of` extracts what was said in a session, compacted or not; `replay_session` feeds it to a context manager
and records every request; `costs_by_size` says what it costs at several working sizes, and what it loses. Nothing is written and no model is asked.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, Unpack

from ullage._engine import core
from ullage._engine.digests import MessageFlag
from ullage.counting.calibration import weights_for
from ullage.counting.models import Model, ModelTable
from ullage.counting.window import WindowSettings, window_for
from ullage.exceptions import ContextTooLarge
from ullage.facts.words import blocks_of, clean, result_text
from ullage.levels.cost import rates_of
from ullage.manager import ContextManager, Request
from ullage.manager.options import ManagerOptions
from ullage.messages import COPY_OF, BlockView, Item, is_boundary, is_summary, message_of, uuid_of
from ullage.observe.events import reported_tokens
from ullage.policy import Policy
from ullage.providers import anthropic
from ullage.recall.store import MemoryStore
from ullage.sessions import Session
from ullage.transcript.records import as_mapping, metadata_of
from ullage.transcript.render import to_messages

__all__ = ["costs_by_size", "replay_session", "script_of"]

MOST_OVERHEAD = 60_000
"""Maximum tokens for system prompt and tools; a larger first figure includes something else."""


@dataclass(frozen=True, slots=True, repr=False)
class SessionScript:
    """The messages of a session in the order in which they were said."""

    # Bare messages, without the usage figures of the session's own context.
    messages: list[dict[str, Any]]
    # Time of each, in milliseconds since the epoch; 0: unknown.
    times: list[int] = field(default_factory=list)
    # For each response, the reported size of its prompt; for other messages 0.
    own_tokens: list[int] = field(default_factory=list)
    # Number of messages before each of the session's own compactions.
    compactions: tuple[int, ...] = ()
    model: str = ""  # the newest model named
    # System prompt and tools, by the first figure; 0: nothing was reported.
    overhead_tokens: int = 0

    def __repr__(self) -> str:
        return f"SessionScript({len(self.messages)} messages, {len(self.compactions)} compactions)"

    def requests(self) -> Iterator[int]:
        """Positions of messages after which a request was due."""
        messages = self.messages
        for at, message in enumerate(messages):
            last = at + 1 == len(messages)
            if message["role"] == "user" and (last or messages[at + 1]["role"] == "assistant"):
                yield at


def script_of(session: Session) -> SessionScript:
    """Extract the messages of a session.

    Args:
        session: An opened session; Claude Code's files are read again from the start.
    """
    entries, cuts = _history_of(session)
    view = to_messages(entries)
    ledger = core.Ledger(None, entries)
    by_uuid = {uuid_of(entry): at for at, entry in enumerate(entries)}
    messages = list[dict[str, Any]]()
    times, own_tokens, firsts = list[int](), list[int](), list[int]()
    for message, names in zip(view.messages, view.sources, strict=True):
        # Without parts that only another provider can read; where that leaves nothing, there is no message.
        written = anthropic.to_provider([message]).parts["messages"]
        if not written:
            continue
        places = [by_uuid[name] for name in names if name in by_uuid]
        messages.append(written[0])
        times.append(max((ledger.message(at).timestamp for at in places), default=0))
        own_tokens.append(max((_prompt(entries[at]) for at in places), default=0))
        firsts.append(min(places, default=0))
    compactions = tuple(sum(first < cut for first in firsts) for cut in cuts)
    overhead = _overhead(messages, own_tokens, session.model)
    return SessionScript(messages, times, own_tokens, compactions, session.model, overhead)


def _history_of(session: Session) -> tuple[list[Item], list[int]]:
    """Entries of the user and the model, in order, and their number before each compaction."""
    # No request of this conversation held these.
    left_out = {"sidechain", "synthetic", "rewound", "unfinished"}
    removed = session.conversation.report.removed if session.conversation else {}
    items = [item for item in session.entries() if removed.get(uuid_of(item)) not in left_out]
    entries: list[Item] = []
    cuts: list[int] = []
    there = set(map(uuid_of, items))
    repeats_at: object = None
    for number, item in enumerate(items):
        if is_boundary(item):
            cuts.append(len(entries))
            rewritten = metadata_of(item).get("replacementHistory") is True
            repeats_at = item.get("timestamp") if rewritten else None
        elif isinstance(item.get(COPY_OF), str) and item[COPY_OF] in there:
            continue  # an undo, an edit or a compaction has written it again
        elif (
            repeats_at
            and item.get("timestamp") == repeats_at
            # What the host says at each beginning, or what stands there already.
            and (item.get("isMeta") is True or _content(item) in map(_content, entries))
        ):
            continue  # the same, in a file that numbers nothing
        elif not is_summary(item) and not item.get("isSidechain"):
            if item.get("type") == "attachment" or message_of(item) is not None:
                entries.append(item if uuid_of(item) else {**item, "uuid": f"#{number}"})
    return entries, cuts


def _content(item: Item) -> Any:
    return (message_of(item) or {}).get("content")


def _prompt(entry: Item) -> int:
    usage = as_mapping((message_of(entry) or {}).get("usage"))
    return reported_tokens(usage).prompt


def _overhead(messages: Sequence[Item], own: Sequence[int], model: str) -> int:
    """The tokens of the first figure beyond the messages before it."""
    first = next((at for at, prompt in enumerate(own) if prompt), None)
    if first is None:
        return 0
    ledger = core.Ledger(weights_for(model or None), list(messages[:first]))
    if not len(ledger) or ledger.message(0).flags & MessageFlag.BOUNDARY:
        return 0
    beyond = own[first] - int(ledger.tokens())
    return beyond if 0 < beyond <= MOST_OVERHEAD else 0


Seen = Callable[[ContextManager, Request], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayedTurn:
    """One request."""

    number: int  # from 1
    message: int  # number of messages before it
    tokens: int  # estimated size of the request
    unmanaged_tokens: int  # its size without any management
    own_tokens: int  # reported size of the session's own prompt; 0: unknown
    # Tokens of the request by category.
    by_category: Mapping[str, int] = field(default_factory=dict)
    # Level, reason and freed tokens of each that acted.
    acted: tuple[tuple[str, str, int], ...] = ()
    # First message that differs from the request before; `None`: none does.
    rewritten_from: int | None = None
    read_tokens: int = 0  # read from the provider's cache
    written_tokens: int = 0  # written to it
    # Those of `written_tokens` whose messages the request before held as they are: a level changed something before them.
    rewritten_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Run:
    """A session replayed under one policy."""

    name: str  # of the policy, or `unmanaged`
    turns: tuple[ReplayedTurn, ...]  # every request
    error: str = ""  # why it ended early; empty if it did not
    nanousd: int = 0  # cost of all prompts, cached where possible, in 10⁻⁹ dollars
    window_tokens: int = 0  # the model's window
    working_tokens: int = 0  # the window that the levels worked in, lower where the settings say so

    def __repr__(self) -> str:
        return f"Run({self.name}: {len(self.turns)} requests, {self.rewrites} rewrites)"

    @property
    def rewrites(self) -> int:
        """Requests that changed what was sent before."""
        return sum(turn.rewritten_from is not None for turn in self.turns)

    @property
    def refused(self) -> int:
        """Requests over the window."""
        return sum(turn.tokens > self.window_tokens for turn in self.turns)

    def total(self, name: str) -> int:
        """The sum of a figure over all requests."""
        return sum(getattr(turn, name) for turn in self.turns)


def replay_session(
    script: SessionScript,
    policy: Policy | None,
    *,
    model: str = "",
    table: ModelTable | None = None,
    seen: Seen | None = None,
    **outside: Unpack[ManagerOptions],
) -> Run:
    """Replay a session.

    Args:
        script: What was said.
        policy: `None`: the context is not managed.
        model: Model whose window applies; empty: the session's.
        table: Model table; `None`: the built-in one.
        seen: Called for every request, with the manager in its state at that point.
        **outside: Further arguments of `ContextManager`.
    """
    models = table or ModelTable.builtin()
    row = models.lookup(model or script.model or DEFAULT_MODEL)
    turns, error = list[ReplayedTurn](), ""
    settings = outside.get("settings") or WindowSettings.from_env()
    working = window_for(row, settings=settings).context
    played = _unmanaged(script, row)
    if policy is not None:
        # A script holds the internal view.
        options: Any = {"provider": "anthropic", "store": MemoryStore(), **outside}
        manager = ContextManager(model=row.name, policy=policy, table=models, **options)
        manager.machine.overhead["system"] = script.overhead_tokens
        manager.machine.set_window(row)
        working = manager.machine.window.context
        played = _managed(script, manager, row, seen)
    try:
        for turn in played:
            turns.append(turn)
    except ContextTooLarge as exc:
        error = str(exc)
    cost = 0
    for turn in turns:
        write, read = rates_of(row, turn.tokens)
        cost += turn.read_tokens * read + turn.written_tokens * write
    name = policy.preset if policy is not None else "unmanaged"
    return Run(name, tuple(turns), error, cost, row.context_window, working)


WORKING_SIZES: Final = (40_000, 80_000, 120_000, 200_000, 400_000)
"""Windows, in tokens, in which a session is tried in addition to the model's own: what agents commonly set."""


class SizeCost(NamedTuple):
    """What a session's prompts cost where the levels work in a window of `tokens`, and what they still hold.

    `largest` is the largest request. Of `names`, which the next calls use and an unmanaged context holds, `held_names` stand in
    the managed one, summed over a dozen requests.
    """

    tokens: int
    nanousd: int
    largest: int
    names: int = 0
    held_names: int = 0

    @property
    def share(self) -> float:
        """Of the names, those that are held; 1 where there are none."""
        return self.held_names / self.names if self.names else 1.0


def costs_by_size(
    script: SessionScript,
    policy: Policy,
    *,
    model: str = "",
    table: ModelTable | None = None,
    sizes: Sequence[int] = WORKING_SIZES,
    step: Callable[[], object] = lambda: None,
) -> tuple[SizeCost, ...]:
    """Replay a session at several working sizes, up to the model's window, smallest first.

    Args:
        script: What was said.
        policy: Of the levels.
        model: Model whose window and prices apply; empty: the session's.
        table: Model table; `None`: the built-in one.
        sizes: In tokens; those above the model's window, or too small for what must stay, are left out; its window is added.
        step: Called once for each of `sizes`, as the work goes on.
    """
    costs, needed = list[SizeCost | None](), NeededNames(script)
    models = table or ModelTable.builtin()
    whole = models.lookup(model or script.model or DEFAULT_MODEL).context_window
    for size in sizes:
        if size < whole:
            costs.append(cost_at_size(script, policy, model, size, needed, models))
        step()
    costs.append(cost_at_size(script, policy, model, whole, needed, models))
    return tuple(cost for cost in costs if cost is not None)


def cost_at_size(
    script: SessionScript,
    policy: Policy,
    model: str,
    size: int,
    needed: NeededNames,
    table: ModelTable | None = None,
) -> SizeCost | None:
    """One point of `costs_by_size`; `size` 0: the one that the policy chooses. `None`: what must stay does not fit."""
    settings = WindowSettings(auto_compact_window=size or None)
    names, held = needed.names, needed.held
    run = replay_session(
        script, policy, model=model, table=table, settings=settings, seen=needed.look
    )
    if run.error:
        return None
    largest = max((turn.tokens for turn in run.turns), default=0)
    size = size or run.working_tokens
    return SizeCost(size, run.nanousd, largest, needed.names - names, needed.held - held)


def sum_of_costs(sessions: Iterable[Sequence[SizeCost]]) -> tuple[SizeCost, ...]:
    """What several sessions cost at each size, last where each works in its whole window.

    One that was not played at a size counts with the next smaller one, or its smallest.
    """
    played = [costs for costs in sessions if costs]
    if not played:
        return ()
    whole = max(costs[-1].tokens for costs in played)
    sums = []
    for size in sorted({one.tokens for costs in played for one in costs[:-1]} | {whole}):
        near = [
            next((cost for cost in reversed(costs) if cost.tokens <= size), costs[0])
            for costs in played
        ]
        sums.append(
            SizeCost(
                size,
                nanousd=sum(cost.nanousd for cost in near),
                largest=max(cost.largest for cost in near),
                names=sum(cost.names for cost in near),
                held_names=sum(cost.held_names for cost in near),
            )
        )
    return tuple(sums)


def frontier_plot(costs: Sequence[SizeCost], unmanaged_nanousd: int) -> str:
    """The dollars of each size (at least one), up to those without management, and the share of the names that it holds, as SVG."""
    most = max(unmanaged_nanousd, *(cost.nanousd for cost in costs)) or 1
    low = min(0.9, min(cost.share for cost in costs) // 0.1 / 10)
    at = [
        (60 + 560 * cost.nanousd / most, 250 - 220 * (cost.share - low) / (1 - low))
        for cost in costs
    ]
    label = '<text x="{:.0f}" y="{:.0f}" text-anchor="{}">{}</text>'.format
    line = "L".join(f"{x:.0f} {y:.0f}" for x, y in at)
    parts = range(5)
    return "".join([
        ('<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 660 300" font-family="sans-serif" font-size="12" role="img" '
        'aria-label="Dollars of the prompts, and the share of the names of the next calls that a context holds, by working size">'),
        *(f'<path d="M60 {250 - 55 * part}H620" stroke="#8888"/>' for part in parts),
        *(label(54, 254 - 55 * part, "end", f"{low + (1 - low) * part / 4:.1%}") for part in parts),
        *(label(60 + 140 * part, 270, "middle", f"${most * part / 4e9:,.2f}") for part in parts),
        label(340, 292, "middle", "dollars of the prompts; up: names of the next 20 calls still held"),
        f'<path d="M{line}" fill="none" stroke="#2a78a8" stroke-width="2"/>',
        *(f'<circle cx="{x:.0f}" cy="{y:.0f}" r="4" fill="#2a78a8"/>' for x, y in at),
        *(label(x + 6, y + 16, "start", f"{cost.tokens // 1000:,} K") for cost, (x, y) in zip(costs, at, strict=True)),
        "</svg>",
    ])  # fmt: skip


# The names that the next calls use: what a context is worth to the work that follows.

NEXT_CALLS: Final = 20  # calls after a request whose names count

# Of a session, evenly apart: each look searches all of a context.
_LOOKS: Final = 12
_LEAST_NAMES: Final = 5  # fewer names at a request say nothing

_WORD = re.compile(r"[A-Za-z0-9_@~.#/:-]{3,200}")
_TELLING = re.compile(
    r"/.|^\.\w|\w\.[a-z]{1,5}$"  # a path, a file name
    r"|[a-z][A-Z]|[A-Za-z]_[A-Za-z]|\w::\w|\w\.[A-Za-z]\w"  # a symbol
    r"|^#\d+$|^[A-Z]{2,9}-\d+$|^(?=[0-9a-f-]*\d)(?=[0-9a-f-]*[a-f])[0-9a-f-]{7,40}$"  # an id
    r"|^--[a-z][\w-]+$|^E\d{3,4}$|(?:Error|Exception)$"  # an option, the name of an error
)
_COMMAND = re.compile(r"(?:^|&&|\|\||;|\|)\s*((?:[a-z][\w.-]*)(?: [a-z][\w:-]+)?)")


def names_of_call(arguments: object) -> set[str]:
    """Paths, symbols, ids, commands, options and names of errors in the parameters of a call."""
    names = {name for text in _strings(arguments) for name in names_in(text)}
    if isinstance(arguments, dict):
        command = arguments.get("command") or arguments.get("cmd")
        line = " ".join(map(str, command)) if isinstance(command, list) else str(command or "")
        names |= {name for name in _COMMAND.findall(line) if " " in name}
    return {name for name in names if len(name) >= 4}


def names_in(text: str) -> set[str]:
    """Paths, symbols, ids, options and names of errors in a text; a path by its last two parts."""
    words = {word.strip(".:/") for word in _WORD.findall(text)}
    return {"/".join(word.split("/")[-2:]) for word in words if _TELLING.search(word)}


def _strings(value: object) -> list[str]:
    """All texts in it, at any depth."""
    if isinstance(value, str):
        return [value]
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [text for item in inner for text in _strings(item)]


class NeededNames:
    """Counts, at a dozen requests of a script, the names that the next calls use and that a context still holds."""

    def __init__(self, script: SessionScript) -> None:
        self.script, self.names, self.held = script, 0, 0
        places = list(enumerate(script.requests(), 1))
        step = max(1, len(places) // _LOOKS)
        self._at = {number: at for number, at in places if number % step == 0 and number > 5}
        self._needed: dict[int, set[str]] = {}

    def look(self, manager: ContextManager, request: Request) -> None:
        """Of this request; for `replay_session(seen=...)`."""
        at = self._at.get(request.number)
        names = self._names(at) if at is not None else ()
        if len(names) >= _LEAST_NAMES:
            text = _texts(request.messages)
            self.names += len(names)
            self.held += sum(name in text for name in names)

    def _names(self, at: int) -> set[str]:
        """Those that the messages up to here hold."""
        if at not in self._needed:
            messages, text = self.script.messages, _texts(self.script.messages[: at + 1])
            calls = (block for later in messages[at + 1 :] for block in blocks_of(later))
            uses = [call.get("input") for call in calls if call.get("type") == "tool_use"]
            names = set[str]().union(*map(names_of_call, uses[:NEXT_CALLS]))
            self._needed[at] = {name for name in names if name in text}
        return self._needed[at]


def _texts(messages: Sequence[Mapping[str, Any]]) -> str:
    """What messages show, without thinking and media."""
    return "\n".join(_shown(block) for message in messages for block in blocks_of(message))


def _shown(block: BlockView) -> str:
    kind = block.get("type")
    if kind == "tool_use":
        return f"{block.get('name')} {json.dumps(block.get('input'), ensure_ascii=False)}"
    return result_text(block) if kind == "tool_result" else clean(block.get("text"))


DEFAULT_MODEL = "claude-opus-4-5"  # for a session that names no model


def _unmanaged(script: SessionScript, row: Model) -> Iterator[ReplayedTurn]:
    before = 0
    for number, (at, tokens) in enumerate(_sizes(script, row), 1):
        yield ReplayedTurn(
            number=number,
            message=at + 1,
            tokens=tokens,
            unmanaged_tokens=tokens,
            own_tokens=_own(script, at),
            read_tokens=before,
            written_tokens=tokens - before,
        )
        before = tokens


def _sizes(script: SessionScript, row: Model) -> Iterator[tuple[int, int]]:
    ledger, added = core.Ledger(weights_for(row)), 0
    for at in script.requests():
        ledger.extend(script.messages[added : at + 1])
        added = at + 1
        yield at, int(ledger.tokens()) + script.overhead_tokens


def _own(script: SessionScript, at: int) -> int:
    """The prompt that the session itself sent here, as the response reports it."""
    return script.own_tokens[at + 1] if at + 1 < len(script.own_tokens) else 0


def _managed(
    script: SessionScript, manager: ContextManager, row: Model, seen: Seen | None
) -> Iterator[ReplayedTurn]:
    added, sent_tokens = 0, 0
    sent_messages: list[Item] = []
    for at, unmanaged in _sizes(script, row):
        for message in script.messages[added : at + 1]:
            manager.add(message)
        added = at + 1
        request = manager.prepare(now_ms=script.times[at] or None)
        if seen is not None:
            seen(manager, request)
        view, overhead = manager.machine.view, manager.machine.overhead_tokens
        ledger, first = view.ledger, request.rewritten_from
        size, again = int(ledger.tokens()), 0
        # The cache holds the last request up to where this one differs.
        same = sent_tokens
        if first is not None:  # what a level made, and what has come since, was never sent
            same = min(size, int(ledger.tokens(0, first)))
            sent_ids = set(map(id, sent_messages))
            places = (i for i in range(first, len(view)) if id(view.messages[i]) in sent_ids)
            again = sum(int(ledger.tokens(i, i + 1)) for i in places)
        read = same + overhead if request.number > 1 else 0
        yield ReplayedTurn(
            number=request.number,
            message=at + 1,
            tokens=request.tokens,
            unmanaged_tokens=unmanaged,
            own_tokens=_own(script, at),
            by_category=manager.explain(request.number).by_category,
            acted=tuple((report.stage, report.why, report.freed) for report in request.reports),
            rewritten_from=first,
            read_tokens=read,
            written_tokens=size + overhead - read,
            rewritten_tokens=again,
        )
        sent_tokens, sent_messages = size, list(view.messages)

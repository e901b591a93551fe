"""Which spans of old, closed rounds could be collapsed, and what each is worth (COL-1, COL-6)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice, pairwise
from typing import Any, NamedTuple

from ullage._engine.digests import BlockKind, MessageFlag, Role
from ullage._late import pattern
from ullage.facts.compaction_items import newest_item
from ullage.facts.reading import blocks_of, flat_text
from ullage.facts.whose_words import is_host_only, standing_in
from ullage.levels.collapse.state import Collapse
from ullage.levels.cut_points import whole_cuts
from ullage.levels.view import View
from ullage.policy import Policy

__all__ = ["Candidate", "candidates", "protected"]

INPUT_CHARS = 2_000
"""Of a call's input: what it is about stands at its beginning."""

SPAN_SHARE = 20
"""A span ends once it holds one part in so many of the effective window: large enough to pay, small enough to choose from."""

WEIGHTS = {"age": 25, "size": 20, "tools": 20, "unreferenced": 20, "calm": 8, "unspoken": 7}
"""Percent of the worth; each part goes from 0 to 1000."""


# Plain numbers: an enum's own operators are slow, and every message is asked.
_USER_INPUT = int(MessageFlag.USER_INPUT)
_ASSISTANT, _RESULT = int(Role.ASSISTANT), int(BlockKind.TOOL_RESULT)
_APART = (int(Role.SYSTEM), int(Role.NONE))


class Candidate(NamedTuple):
    """Messages [start, stop) of the view. `worth`: 0 to 1000, higher is better to collapse."""

    start: int
    stop: int
    tokens: int
    worth: int


def protected(view: View, policy: Policy) -> set[int]:
    """Messages that no span may hold: the newest of each kind, system messages, what hosts put there to stand, levels' own, the provider's item."""
    ledger, rules = view.ledger, policy.protect
    roles: bytes = ledger.roles()
    found = {at for at, role in enumerate(roles) if role in _APART}
    found.update(at for at, source in enumerate(view.sources) if type(source) is str)
    others = [at for at in range(len(roles) - 1, -1, -1) if at not in found]
    answers = (at for at in others if roles[at] == _ASSISTANT)
    rest = (at for at in others if roles[at] != _ASSISTANT)
    typed = (at for at in rest if ledger.message(at).flags & _USER_INPUT)
    inputs = (at for at in typed if not is_host_only(view.originals[at]))
    results = (
        at
        for at in reversed(ledger.with_kinds(_RESULT))
        for block in ledger.blocks(at)
        if block.kind == _RESULT
    )
    found.update(at for at, message in enumerate(view.messages) if standing_in(message))
    item = newest_item(view.messages, ledger)
    found |= set() if item is None else {item.at}
    found.update(islice(inputs, rules.user_inputs), islice(answers, rules.assistant_messages))
    return found.union(islice(results, rules.tool_results))


def candidates(
    view: View, policy: Policy, effective_tokens: int, state: Collapse
) -> list[Candidate]:
    """Spans that could be staged, oldest first; none overlaps another, nor one that is staged or was put back."""
    rounds = view.ledger.rounds()
    keep = policy.collapse.keep_recent_rounds
    if len(rounds) <= keep:
        return []
    limit = rounds[-keep]
    closed = protected(view, policy) | _taken(view, state)
    wanted = max(policy.collapse.min_span_tokens, effective_tokens // SPAN_SHARE)
    mentions = _Mentions(view)
    return [
        Candidate(start, stop, view.ledger.tokens(start, stop), _worth(view, start, stop, wanted, mentions))
        for start, stop in _grouped(view, _atoms(view, limit, closed), policy, wanted)
    ]  # fmt: skip


def _taken(view: View, state: Collapse) -> set[int]:
    spans = [(each.first, each.last) for each in state.staged]
    spans += [(each.first, each.last) for each in state.expanded]
    return {
        at
        for at, source in enumerate(view.sources)
        if isinstance(source, int) and any(first <= source <= last for first, last in spans)
    }


def _atoms(view: View, limit: int, closed: set[int]) -> Iterator[tuple[int, int]]:
    """The smallest parts that can go whole; a user input goes with what answers it."""
    cuts = [cut for cut in whole_cuts(view.ledger) if cut <= limit]
    roles = view.ledger.roles()
    begun: int | None = None
    for start, stop in pairwise(cuts):
        if not closed.isdisjoint(range(start, stop)):
            begun = None
            continue
        first = start if begun is None else begun
        begun = None
        if _ASSISTANT not in roles[start:stop]:
            begun = first
        else:
            yield first, stop


def _grouped(
    view: View, atoms: Iterator[tuple[int, int]], policy: Policy, wanted: int
) -> Iterator[tuple[int, int]]:
    """Neighbouring parts together, until they are large enough or a turn ends; what stays too small is left."""
    least, tokens = policy.collapse.min_span_tokens, view.ledger.tokens
    span: tuple[int, int] | None = None
    for start, stop in atoms:
        if span is not None and (
            start != span[1] or _full(view, span, (start, stop), least, wanted)
        ):
            if tokens(*span) >= least:
                yield span
            span = None
        span = (start, stop) if span is None else (span[0], stop)
    if span is not None and tokens(*span) >= least:
        yield span


def _full(
    view: View, span: tuple[int, int], following: tuple[int, int], least: int, wanted: int
) -> bool:
    """Whether a span ends here: before a new turn, or within one where it is large and more than the turn's last words follows."""
    size, (start, stop) = view.ledger.tokens(*span), following
    if _is_input(view, start):
        return bool(size >= least)
    last_words = _is_input(view, stop) and view.ledger.tokens(start, stop) < wanted // 4
    return bool(size >= wanted and not last_words)


def _is_input(view: View, at: int) -> bool:
    return at < len(view) and bool(view.ledger.message(at).flags & _USER_INPUT)


# ---- worth -----------------------------------------------------------------------------------


def _worth(view: View, start: int, stop: int, wanted: int, mentions: _Mentions) -> int:
    parts = _parts(view, start, stop, wanted, mentions)
    return sum(WEIGHTS[name] * value for name, value in parts.items()) // 100


def _parts(view: View, start: int, stop: int, wanted: int, mentions: _Mentions) -> dict[str, int]:
    results = list(view.results(start, stop))
    tokens = max(1, view.ledger.tokens(start, stop))
    failed = sum(result.is_error for result in results)
    spoken = sum(bool(view.ledger.message(at).flags & _USER_INPUT) for at in range(start, stop))
    targets = set[str]().union(*(mentions.named_in(result.given) for result in results))
    later = sum(mentions.newest.get(name, -1) >= stop for name in targets)
    return {
        "age": 1000 * (len(view) - stop) // max(1, len(view)),
        "size": min(1000, 1000 * tokens // wanted),
        "tools": min(1000, 1000 * sum(result.tokens for result in results) // tokens),
        "unreferenced": 1000 - 1000 * later // max(1, len(targets)),
        "calm": 1000 - 1000 * failed // max(1, len(results)),
        "unspoken": 1000 // (1 + spoken),
    }


_NAME = pattern(r"[\w.-]{0,80}[A-Za-z_]\w{0,80}\.\w{1,80}|[A-Za-z_]\w{7,}")


def _names(text: str) -> set[str]:
    """File names and long identifiers."""
    return {name.lower() for name in _NAME.findall(text)}


class _Mentions:
    """Names that the user or the assistant mentions, in words or in calls.

    Attributes:
        newest: The last message that mentions each.
    """

    def __init__(self, view: View) -> None:
        self.newest: dict[str, int] = {}
        self._inputs: dict[int, set[str]] = {}  # by `id` of a call's input
        for at, item in enumerate(view.originals):
            for block in blocks_of(item):
                if block.get("type") in ("text", "tool_use"):
                    said: Any = block.get("text") or block.get("input")
                    self.newest.update(dict.fromkeys(self._read(said), at))

    def _read(self, said: Any) -> set[str]:
        text = flat_text(said)
        names = _names(text[:20_000])
        if type(said) is dict and len(text) <= INPUT_CHARS:
            self._inputs[id(said)] = names
        return names

    def named_in(self, given: Mapping[str, Any]) -> set[str]:
        """Names in the input of a call, of which the view holds the very object."""
        known = self._inputs.get(id(given))
        return _names(flat_text(given)[:INPUT_CHARS]) if known is None else known

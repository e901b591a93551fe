"""Every operation that shortens a conversation, with thresholds so low that it acts wherever it can."""

from __future__ import annotations

import functools
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from ullage.compaction import compact
from ullage.compaction.summary_call import more_dropped, without_head
from ullage.counting import strip_media
from ullage.effects import Flow, LetOthersRun, drive
from ullage.exceptions import UllageError
from ullage.facts import Facts, collect
from ullage.levels import (
    View,
    collapse,
    fold,
    microcompact,
    pipeline,
    snip,
    tool_budget,
    truncate,
    turn_snip,
)
from ullage.levels.level import Context, Level
from ullage.policy import Policy
from ullage.recall.store import MemoryStore

__all__ = ["OPERATIONS", "Messages", "remembered_names", "scripted"]

EAGER = Policy.buffered().change(
    {
        "tool_budget.max_result_chars": 400,
        "tool_budget.max_message_chars": 800,
        "snip.max_chars": 400,
        "snip.turns": True,
        "micro.by_time": True,
        "micro.by_supersession": True,
        "micro.supersede_start_percent": 0,
        "micro.min_freed_tokens": 0,
        "micro.keep_recent": 1,
        "collapse.enabled": True,
        "collapse.stage_percent": 0,
        "collapse.commit_percent": 20,
        "collapse.block_percent": 95,
        "collapse.target_percent": 10,
        "collapse.min_span_tokens": 100,
        "collapse.keep_recent_rounds": 1,
        "protect.tool_results": 1,
        "protect.user_inputs": 1,
        "truncate.margin_tokens": 0,
    }
)
LINES = Policy.ladder().change({"micro.line_start_percent": 0, "micro.min_freed_tokens": 0})

Messages = list[Any]


# ---- levels ----------------------------------------------------------------------------------------


def _view(messages: Messages) -> View:
    view = View()
    for message in messages:
        view.add(message)
    return view


def _context(view: View, policy: Policy = EAGER, **more: Any) -> Context:
    states = pipeline.fresh_states()
    return Context(view=view, policy=policy, states=states, store=MemoryStore(), **more)


def _act(level: Level, context: Context) -> None:
    outcome = level.run(context)
    if isinstance(outcome, Generator):
        drive(outcome, lambda effect: effect.function(*effect.args))


def _snip_turn(view: View) -> None:
    context = _context(view, tools=frozenset({turn_snip.SNIP_TOOL.name}))
    state = context.state(turn_snip.TurnSnip)
    _act(turn_snip.LEVEL, context)
    turn_snip.answer({"ids": list(state.ids.values())[:2], "reason": "done"}, view, state)
    _act(turn_snip.LEVEL, context)


def _collapse(view: View) -> None:
    context = _context(view, window_tokens=max(1, view.ledger.tokens()))
    for _ in range(2):  # staged, then committed
        _act(collapse.LEVEL, context)


def _half(view: View) -> int:
    return int(view.ledger.tokens()) // 2


LEVELS: dict[str, Callable[[View], Any]] = {
    "tool budget": lambda view: _act(tool_budget.LEVEL, _context(view)),
    "snip": lambda view: _act(snip.LEVEL, _context(view)),
    "turn snip": _snip_turn,
    "clear by time": lambda view: _act(microcompact.LEVEL, _context(view, now_ms=10**15)),
    "clear by line": lambda view: _act(microcompact.LEVEL, _context(view, LINES)),
    "collapse": _collapse,
    "fold": lambda view: fold.folded(_context(view), _half(view)),
    "truncate": lambda view: truncate.truncated(_context(view), _half(view)),
}


def _level(act: Callable[[View], Any]) -> Callable[[Messages], Messages]:
    def run(messages: Messages) -> Messages:
        view = _view(messages)
        act(view)
        return list(view.messages)

    return run


def _all_levels(messages: Messages) -> Messages:
    view = _view(messages)
    for act in LEVELS.values():
        try:
            act(view)
        except UllageError:
            continue
    return list(view.messages)


# ---- compactions -----------------------------------------------------------------------------------


def _head(messages: Messages) -> Messages:
    return list(without_head(messages, more_dropped(messages, 0, None, share_percent=40)))


def _compact(**options: Any) -> Callable[[Messages], Messages]:
    def run(messages: Messages) -> Messages:
        given = {
            key: value(messages) if callable(value) else value for key, value in options.items()
        }
        return list(compact(messages, **given).messages)

    return run


def _middle(messages: Messages) -> int:
    return len(messages) // 2


class _Scripted:
    """A summarizer whose words are known beforehand."""

    name = "scripted"
    local = True  # its answer is no model's, and not judged as one
    window_tokens = None
    max_output_tokens = None
    modes = ("plain",)

    def summarize(self, request: Any) -> str:
        return "## 1. Primary Request and Intent\nwhat was asked for\n\n## 8. Current Work\nthe work goes on"


def _compactions(**more: Any) -> dict[str, Callable[[Messages], Messages]]:
    return {
        "compaction": _compact(keep=0, **more),
        "compaction with some kept": _compact(keep=400, **more),
        "compaction from": _compact(direction="from", at=_middle, **more),
        "compaction up to": _compact(direction="up_to", at=_middle, **more),
    }


OPERATIONS: Mapping[str, Callable[[Messages], Messages]] = {
    "as it is": lambda messages: messages,
    "media stripped": lambda messages: list(strip_media(messages)),
    **{name: _level(act) for name, act in LEVELS.items()},
    "all levels": _all_levels,
    "head truncation": _head,
    **_compactions(),
}
_SCRIPTED: Mapping[str, Callable[[Messages], Messages]] = {
    **OPERATIONS,
    **_compactions(summarizer=_Scripted()),
}


# ---- what makes them fast enough for every prefix --------------------------------------------------


@contextmanager
def remembered_names() -> Iterator[None]:
    """The same texts come again in every prefix: names in them are looked for once."""
    names = functools.lru_cache(maxsize=100_000)
    with patch.object(collapse, "_names", names(collapse._names)):
        yield


@contextmanager
def scripted() -> Iterator[Mapping[str, Callable[[Messages], Messages]]]:
    """The operations with a summary that says the same of every conversation, and no facts collected for it.

    Which messages go and stay does not hang on what a summary says; how it reads is tested elsewhere.
    """
    nothing = collect(())

    def facts(source: Any, cut: Any) -> Flow[tuple[Facts, Facts]]:
        yield LetOthersRun()
        return nothing, nothing

    with (
        remembered_names(),
        patch("ullage.compaction.cut._facts", facts),
        patch("ullage.compaction.cut._unranked", lambda *_: nothing),
        patch("ullage.facts.collect", lambda items: nothing),
    ):
        yield _SCRIPTED

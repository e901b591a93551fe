"""Every operation that shortens a conversation, small enough to act on small ones."""

from __future__ import annotations

import random
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any

from tests.attack.talks import TOOLS
from ullage.compaction import compact
from ullage.counting.media_stripping import strip_media
from ullage.effects import drive
from ullage.legality import Originals
from ullage.levels import (
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
from ullage.levels.view import View
from ullage.manager import ContextManager
from ullage.policy import Policy
from ullage.requests.lists import keep_window, truncate_head
from ullage.testing.generator import sign_thinking

__all__ = ["PADDED", "PADDING", "PLANS", "Left"]

Items = list[Any]
Plan = Callable[[random.Random, Items, str], Sequence[Any]]

PADDED = ("compact_all", "compact_keep", "compact_from", "compact_up_to", "fold", "collapse")
PADDING = [
    {"role": "user", "content": "Please read the long report first. " + "It says a lot. " * 130},
    {"role": "assistant", "content": [{"type": "text", "text": "I have read it all."}]},
]
"""Stands before the conversation for `PADDED`: enough to be worth a summary."""

_POLICY = Policy.ladder().change(
    {
        "tool_budget.max_result_chars": 120,
        "tool_budget.max_message_chars": 240,
        "tool_budget.preview_bytes": 20,
        "snip.max_chars": 100,
        "snip.start_percent": 0,
        "micro.tools": ("*",),
        "micro.keep_recent": 1,
        "micro.min_freed_tokens": 0,
        "micro.supersede_start_percent": 0,
        "micro.supersede_max_percent": 100,
        "micro.line_start_percent": 0,
        "protect.tool_results": 0,
    }
)
_NO_MARGIN = _POLICY.change({"truncate.margin_tokens": 0})
_BY_TIME = _POLICY.change({"micro.by_time": True, "micro.idle_minutes": 1})
_BY_LINE = _POLICY.change({"micro.by_supersession": False, "micro.by_time": False})
_SUPERSEDED = _POLICY.change({"micro.by_line": False, "micro.by_time": False})


_COLLAPSE = _POLICY.change(
    {
        "collapse.enabled": True,
        "collapse.min_span_tokens": 1,
        "collapse.keep_recent_rounds": 1,
        "protect.user_inputs": 1,
    }
)


class _Store:
    """Keeps what is offloaded to itself."""

    def put(self, name: str, text: str, *, suffix: str = ".txt") -> str:
        return f"memory/{len(name)}-{len(text)}"

    def get(self, name: str) -> str:
        return ""


def _view(items: Items) -> View:
    view = View()
    for item in items:
        view.add(item)
    return view


def _context(view: View, policy: Policy, **more: Any) -> Context:
    states = pipeline.fresh_states()
    return Context(view=view, policy=policy, states=states, store=_Store(), **more)


def _act(how: Callable[[Context], Any], context: Context) -> None:
    """A level's `run` or `drain`, with a store that answers at once and no model."""
    outcome = how(context)
    if isinstance(outcome, Generator):
        drive(outcome, lambda effect: effect.function(*effect.args))  # type: ignore[union-attr]


def _level(level: Level, policy: Policy = _POLICY) -> Plan:
    def plan(rng: random.Random, items: Items, model: str) -> Sequence[Any]:
        view = _view(items)
        _act(level.run, _context(view, policy))
        return list(view.messages)

    return plan


def _snip_turns(rng: random.Random, items: Items, model: str) -> Sequence[Any]:
    view = _view(items)
    context = _context(view, _POLICY, tools=frozenset({turn_snip.SNIP_TOOL.name}))
    state = context.state(turn_snip.TurnSnip)
    _act(turn_snip.LEVEL.run, context)
    names = list(state.ids.values())
    if names:
        turn_snip.answer({"ids": rng.sample(names, rng.randint(1, len(names)))}, view, state)
        _act(turn_snip.LEVEL.run, context)
    return list(view.messages)


def _timed(rng: random.Random, items: Items, model: str) -> Sequence[Any]:
    """Microcompact by time reads the entries' timestamps."""
    stamped = [
        {
            "type": item["role"],
            "uuid": str(at),
            "timestamp": "2026-01-01T00:00:00Z",
            "message": item,
        }
        if isinstance(item, Mapping) and isinstance(item.get("role"), str)
        else item
        for at, item in enumerate(items)
    ]
    view = _view(stamped)
    _act(microcompact.LEVEL.run, _context(view, _BY_TIME, now_ms=1_900_000_000_000))
    return [item.get("message", item) for item in view.messages]


def _room(rng: random.Random, view: View) -> int:
    return 1 + int(view.ledger.tokens()) * rng.randint(30, 95) // 100


def _truncate(rng: random.Random, items: Items, model: str) -> Sequence[Any]:
    view = _view(items)
    truncate.truncated(_context(view, _NO_MARGIN), _room(rng, view))
    return list(view.messages)


def _fold(rng: random.Random, items: Items, model: str) -> Sequence[Any]:
    view = _view(items)
    fold.folded(_context(view, _NO_MARGIN), _room(rng, view))
    return list(view.messages)


def _collapse(rng: random.Random, items: Items, model: str) -> Sequence[Any]:
    view = _view(items)
    context = _context(view, _COLLAPSE, window_tokens=view.tokens() * 100 // 97)
    _act(collapse.LEVEL.run, context)
    if rng.random() < 0.5 and collapse.LEVEL.drain is not None:
        _act(collapse.LEVEL.drain, context)
    return list(view.messages)


def _head(rng: random.Random, items: Items, model: str) -> Sequence[Any]:
    return truncate_head(items, rng.choice((None, 1, 50, 500))).messages


def _keep(rng: random.Random, items: Items, model: str) -> Sequence[Any]:
    kept = keep_window(
        items, min_tokens=rng.randint(0, 40), max_tokens=50, min_text_messages=rng.randint(0, 3)
    )
    return kept.messages


def _media(rng: random.Random, items: Items, model: str) -> Sequence[Any]:
    return strip_media(items)


def _compact(direction: str, keep: int | None) -> Plan:
    def plan(rng: random.Random, items: Items, model: str) -> Sequence[Any]:
        options: dict[str, Any] = {"keep": keep} if direction == "full" else {}
        if direction != "full":
            options = {"direction": direction, "at": rng.randrange(len(items) or 1)}
        return list(compact(items, model=model, **options).messages)

    return plan


def _manager(rng: random.Random, items: Items, model: str) -> Sequence[Any]:
    """All levels, request after request, as an agent's loop asks for them, after a history that is loaded."""
    manager = ContextManager(model=model, policy=_POLICY, store=_Store(), tools=TOOLS)
    loaded, made = rng.randrange(len(items) + 1), Originals()
    for index, item in enumerate(items):
        if isinstance(item, Mapping) and item.get("role") == "assistant":
            asked = manager.history
            if index >= loaded and manager.history:
                asked = list(manager.prepare(now_ms=0).messages)
                item = _answer(item, asked, model)
            made.observe(asked, item, tools=TOOLS)
        manager.add(item)
    if rng.random() < 0.3:
        manager.on_overflow({"error": {"code": "context_length_exceeded", "message": ""}})
    return Left(list(manager.prepare(now_ms=0).messages), made) if manager.history else items


class Left(list[Any]):
    """What a plan leaves, with what the model made of the requests in between."""

    def __init__(self, messages: Sequence[Any], originals: Originals) -> None:
        super().__init__(messages)
        self.originals = originals


def _answer(item: Any, asked: Sequence[Any], model: str) -> Any:
    """The model's answer to that very request: its thinking is bound to it."""
    content = item.get("content")
    if not isinstance(content, list) or not all(isinstance(block, dict) for block in content):
        return item
    return sign_thinking([*asked, item], model=model, tools=TOOLS)[-1]


PLANS: dict[str, Plan] = {
    "tool_budget": _level(tool_budget.LEVEL),
    "snip": _level(snip.LEVEL),
    "snip_turns": _snip_turns,
    "micro_time": _timed,
    "micro_line": _level(microcompact.LEVEL, _BY_LINE),
    "micro_superseded": _level(microcompact.LEVEL, _SUPERSEDED),
    "truncate": _truncate,
    "fold": _fold,
    "collapse": _collapse,
    "truncate_head": _head,
    "keep_window": _keep,
    "strip_media": _media,
    "compact_all": _compact("full", 0),
    "compact_keep": _compact("full", 60),
    "compact_from": _compact("from", None),
    "compact_up_to": _compact("up_to", None),
    "manager": _manager,
}
"""By name: takes a source of chance, Anthropic's form of a conversation and a model; gives the context that is left."""

"""Random conversations for the attack on verifier and repairs, and damage that knows no form."""

from __future__ import annotations

import copy
import random
from typing import Any

from tests.attack.mutations import MUTATIONS, mutate
from tests.kit.talk import FORMS, Exchange, Round, Talk, Turn

__all__ = ["MODELS", "TOOLS", "broken", "form", "talk"]

MODELS = {
    "anthropic": ("claude-opus-5-5", "claude-sonnet-4-5", "claude-opus-4-6"),
    "openai_responses": ("gpt-5.2",),
    "gemini": ("gemini-3.1-pro", "gemini-2.5-pro"),
    "bedrock": ("anthropic.claude-opus-4-6",),
}
BOUND = "claude-opus-5-5"
TOOLS = [{"name": "Read"}, {"name": "Bash"}, {"name": "web_search"}]
WORDS = (
    "fix the tests",
    "请修复",
    "  x  ",
    "ok",
    "für",
    "👩‍👩‍👧",
    "a" * 200,
    "[id:abc]",
    "long " * 60,
)
OUTPUTS = ("", "ok", "<image>", "<document>", *WORDS)
VALUES: tuple[Any, ...] = (
    None,
    "",
    " ",
    3,
    True,
    [],
    {},
    "x",
    ["x"],
    {"type": "text", "text": "t"},
)


def talk(rng: random.Random) -> Talk:
    """A random conversation without a form."""
    turns = tuple(_turn(rng) for _ in range(rng.randint(0, 4)))
    marks = tuple(rng.random() < 0.5 for _ in range(rng.randint(0, 4)))
    return Talk(
        turns,
        rng.choice(WORDS) if rng.random() < 0.6 else "",
        marks if rng.random() < 0.3 else (),
        rng.random() < 0.3,
    )


def _thought(rng: random.Random) -> str | None:
    return rng.choice(("hm", "", "<redacted>", *WORDS[:2])) if rng.random() < 0.4 else None


def _said(rng: random.Random, share: float) -> str:
    return rng.choice(WORDS) if rng.random() < share else ""


def _turn(rng: random.Random) -> Turn:
    rounds = tuple(_round(rng) for _ in range(rng.choice((0, 0, 1, 1, 2, 3))))
    media = rng.choice(("image", "document")) if rng.random() < 0.1 else ""
    words, answer = rng.choice(WORDS), rng.choice(WORDS)
    return Turn(words, rounds, answer, media, _thought(rng), _said(rng, 0.1))


def _round(rng: random.Random) -> Round:
    calls = tuple(
        Exchange(
            rng.choice(("Read", "Bash")),
            {"a": rng.choice(WORDS)},
            rng.choice(OUTPUTS),
            rng.random() < 0.1,
        )
        for _ in range(rng.randint(1, 3))
    )
    return Round(calls, _thought(rng), _said(rng, 0.5), _said(rng, 0.2), _said(rng, 0.2))


def form(provider: str, made: Talk, model: str) -> list[Any]:
    """The conversation in a provider's form."""
    if provider == "anthropic":
        if model != BOUND:  # no system messages inside
            made = made._replace(turns=tuple(t._replace(system="") for t in made.turns))
        return FORMS["anthropic"](made, model=model, tools=TOOLS)
    return FORMS[provider](made)


def broken(rng: random.Random, items: list[Any], *, anthropic: bool) -> list[Any]:
    """A damaged copy: by mutations of Anthropic's form, or by changes that know of no form."""
    if not anthropic or rng.random() < 0.5:
        return _damaged(rng, items)
    names = sorted(MUTATIONS)
    return mutate(
        items, *((rng.choice(names), rng.randrange(40)) for _ in range(rng.randint(1, 4)))
    )


def _damaged(rng: random.Random, items: list[Any]) -> list[Any]:
    items = copy.deepcopy(items)
    for _ in range(rng.randint(1, 4)):
        holder: Any = items
        for _ in range(rng.randint(0, 5)):
            inner = [each for each in _inside(holder) if isinstance(each, list | dict) and each]
            if not inner:
                break
            holder = rng.choice(inner)
        if holder:
            _break(rng, holder)
    return items


def _inside(holder: Any) -> list[Any]:
    return list(holder.values()) if isinstance(holder, dict) else list(holder)


def _break(rng: random.Random, holder: Any) -> None:
    key = rng.choice(list(holder)) if isinstance(holder, dict) else rng.randrange(len(holder))
    act = rng.choice(("drop", "drop", "double", "swap", "value", "key"))
    if act == "drop":
        del holder[key]
    elif act == "value":
        holder[key] = copy.deepcopy(rng.choice(VALUES))
    elif act == "key" and isinstance(holder, dict):
        name = rng.choice(("meta", "id", "text", "cache_control", "role"))
        holder[name] = copy.deepcopy(rng.choice(VALUES))
    elif isinstance(holder, list):
        other = rng.randrange(len(holder))
        if act == "double":
            holder.insert(other, copy.deepcopy(holder[key]))
        else:
            holder[key], holder[other] = holder[other], holder[key]

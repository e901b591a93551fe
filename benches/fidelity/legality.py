"""Attacks the verifier and the repairs with generated conversations, for every provider.

Run: python -m benches.fidelity.legality --count 20000

For each seed and provider: a legal conversation must be legal and come back as the same object; a
damaged one must come back legal, or with nothing left but what no repair can mend; repairing twice
changes nothing more; the input stays untouched; and the independent checker of the test kit agrees.
Prints what was done and exits with 1 if anything is wrong.
"""

from __future__ import annotations

import argparse
import copy
import json
import random
import sys
import time
from collections import Counter
from typing import Any

from ullage.repair import repair
from ullage.testing import assert_legal
from ullage.testing._talk import FORMS, Exchange, Round, Talk, Turn
from ullage.testing.mutations import MUTATIONS, mutate
from ullage.validate import PROVIDERS, validate

# What lies outside of the messages, or cannot shrink without judgement: sizes, tools, headers.
UNMENDABLE = {"A23", "A24", "A26", "A30", "O08", "O09", "L04", "B03", "R05"}
MODELS = {
    "anthropic": ("claude-opus-5-5", "claude-sonnet-4-5", "claude-opus-4-6"),
    "openai_responses": ("gpt-5.2",),
    "gemini": ("gemini-3.1-pro", "gemini-2.5-pro"),
    "bedrock": ("anthropic.claude-opus-4-6",),
}
TOOLS = [{"name": "Read"}, {"name": "Bash"}, {"name": "web_search"}]
WORDS = ("fix the tests", "请修复", "  x  ", "ok", "für", "👩‍👩‍👧", "a" * 200, "[id:abc]")


def talk(rng: random.Random) -> Talk:
    """A random conversation without a form."""

    def maybe(share: float, value: Any, nothing: Any) -> Any:
        return value if rng.random() < share else nothing

    def words() -> str:
        return rng.choice(WORDS)

    def thought() -> str | None:
        return maybe(0.4, rng.choice(("hm", "", "<redacted>", words())), None)

    def round_() -> Round:
        outputs = ("", "ok", "<image>", "<document>", *WORDS)
        calls = [
            Exchange(
                rng.choice(("Read", "Bash")),
                {"a": words()},
                rng.choice(outputs),
                rng.random() < 0.1,
            )
            for _ in range(rng.randint(1, 3))
        ]
        return Round(
            tuple(calls),
            thought(),
            maybe(0.5, words(), ""),
            maybe(0.2, words(), ""),
            maybe(0.2, words(), ""),
        )

    def turn() -> Turn:
        rounds = tuple(round_() for _ in range(rng.choice((0, 0, 1, 1, 2, 3))))
        media = maybe(0.1, rng.choice(("image", "document")), "")
        return Turn(words(), rounds, words(), media, thought(), maybe(0.1, words(), ""))

    turns = tuple(turn() for _ in range(rng.randint(0, 4)))
    marks = tuple(rng.random() < 0.5 for _ in range(rng.randint(0, 4)))
    return Talk(turns, maybe(0.6, words(), ""), maybe(0.3, marks, ()), rng.random() < 0.3)


def form(provider: str, made: Talk, model: str) -> list[Any]:
    """The conversation in a provider's form."""
    if provider == "anthropic":
        if model != "claude-opus-5-5":  # no system messages inside
            made = made._replace(turns=tuple(t._replace(system="") for t in made.turns))
        return FORMS["anthropic"](made, model=model, tools=TOOLS)
    return FORMS[provider](made)


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


def damage(rng: random.Random, items: list[Any]) -> list[Any]:
    """Breaks a list of JSON in a few random places; knows nothing of any form."""
    items = copy.deepcopy(items)
    for _ in range(rng.randint(1, 4)):
        holder: Any = items
        for _ in range(rng.randint(0, 5)):
            inner = [each for each in _inside(holder) if isinstance(each, list | dict) and each]
            if not inner:
                break
            holder = rng.choice(inner)
        if holder:
            _break(rng, holder, items)
    return items


def _inside(holder: Any) -> list[Any]:
    return list(holder.values()) if isinstance(holder, dict) else list(holder)


def _break(rng: random.Random, holder: Any, items: list[Any]) -> None:
    key = rng.choice(list(holder)) if isinstance(holder, dict) else rng.randrange(len(holder))
    act = rng.choice(("drop", "drop", "double", "swap", "value", "key"))
    if act == "drop":
        del holder[key]
    elif act == "value":
        holder[key] = copy.deepcopy(rng.choice(VALUES))
    elif act == "key" and isinstance(holder, dict):
        holder[rng.choice(("meta", "id", "text", "cache_control", "role"))] = copy.deepcopy(
            rng.choice(VALUES)
        )
    elif isinstance(holder, list):
        other = rng.randrange(len(holder))
        if act == "double":
            holder.insert(other, copy.deepcopy(holder[key]))
        else:
            holder[key], holder[other] = holder[other], holder[key]


class Run:
    """Counts, and what went wrong."""

    def __init__(self, show: int) -> None:
        self.counts: Counter[str] = Counter()
        self.left: Counter[str] = Counter()
        self.repairs: Counter[str] = Counter()
        self.wrong: Counter[str] = Counter()
        self.show = show

    def fail(self, what: str, provider: str, seed: int, value: Any, detail: object = "") -> None:
        self.wrong[f"{provider}: {what}"] += 1
        if self.show > 0:
            self.show -= 1
            text = json.dumps(value, ensure_ascii=False, default=repr)
            print(f"{provider} seed {seed}: {what} {detail}\n  {text[:3000]}", file=sys.stderr)

    def one(self, provider: str, seed: int) -> None:
        rng = random.Random(f"{provider}:{seed}")
        model = rng.choice(MODELS.get(provider, ("m",)))
        items = form(provider, talk(rng), model)
        around: dict[str, Any] = {"provider": provider, "model": model, "facts": {"window": 0}}
        if provider in ("openai_responses", "gemini", "bedrock"):
            around["facts"] = None
        if provider == "bedrock":
            around["tools"] = [{"toolSpec": {"name": "Read"}}]
        if provider == "anthropic":
            around["tools"] = TOOLS
        if provider == "deepseek" and rng.random() < 0.5:
            around["thinking"] = {"type": "enabled"}
            items = [_with_reasoning(item) for item in items]
        if provider == "anthropic" and rng.random() < 0.2 and model != "claude-opus-5-5":
            around["thinking"] = {"type": "enabled", "budget_tokens": 1024}
            items = [item for item in items if not _thoughtless(item)]
        self.legal(provider, seed, items, around)
        broken = self.broken(rng, provider, items)
        original = items if rng.random() < 0.5 else None
        self.illegal(provider, seed, broken, {**around, "original": original})

    def broken(self, rng: random.Random, provider: str, items: list[Any]) -> list[Any]:
        if provider != "anthropic" or rng.random() < 0.5:
            return damage(rng, items)
        steps = [
            (rng.choice(sorted(MUTATIONS)), rng.randrange(40)) for _ in range(rng.randint(1, 4))
        ]
        return mutate(items, *steps)

    def legal(self, provider: str, seed: int, items: list[Any], around: dict[str, Any]) -> None:
        self.counts["legal"] += 1
        report = validate(items, **around)
        if not report.ok:
            if not _manual(around):
                self.fail("legal is called illegal", provider, seed, items, report)
            return
        done = repair(items, **around)
        if done.messages is not items or done.repairs:
            self.fail("legal is repaired", provider, seed, items, done.repairs)

    def illegal(self, provider: str, seed: int, items: list[Any], around: dict[str, Any]) -> None:
        before = copy.deepcopy(items)
        report = validate(items, **around)
        self.counts["damaged"] += 1
        self.counts["illegal"] += not report.ok
        try:
            done = repair(items, **around)
            again = repair(done.messages, **around)
        except Exception as exc:
            self.fail("repair raises", provider, seed, items, repr(exc))
            return
        self.repairs.update({each.rule for each in done.repairs})
        left = {found.rule for found in done.left}
        self.left.update(left)
        if items != before:
            self.fail("input is changed", provider, seed, before)
        if left - UNMENDABLE:
            self.fail(f"{sorted(left - UNMENDABLE)} left", provider, seed, items, done.left)
        if len(done.left) > len(report.errors):
            self.fail("more errors than before", provider, seed, items, done.left)
        if list(again.messages) != list(done.messages):
            self.fail("repairing again changes more", provider, seed, items, again.repairs)
        if report.ok and done.messages is not items:
            self.fail("legal is repaired", provider, seed, items, done.repairs)
        # A kind that we do not know passes through; what bound thinking was made after, only the original tells.
        blind = any(
            "unknown block type" in found.detail
            for found in validate(done.messages, **around).warnings
        )
        unbound = (
            provider != "anthropic"
            or around["original"] is not None
            or around["model"] != "claude-opus-5-5"
        )
        if done.ok and not blind and unbound:
            self.second_opinion(provider, seed, items, done.messages, around)

    def second_opinion(
        self, provider: str, seed: int, items: list[Any], messages: Any, around: dict[str, Any]
    ) -> None:
        kwargs = {k: around[k] for k in ("tools", "thinking") if k in around}
        wire = messages
        if provider in ("openai_chat", "mistral", "deepseek", "local"):
            wire = [each for each in messages if "role" in each]
        elif provider == "anthropic":  # metadata between messages is not sent
            wire = [_wire(each) for each in messages if "role" in each or "message" in each]
        try:
            assert_legal(provider, wire, model=around["model"], window=0, **kwargs)
        except AssertionError as exc:
            # It knows the place of each thinking in its turn from the seal; only bound models could.
            if "cannot be modified" in str(exc) and around["model"] != "claude-opus-5-5":
                return
            self.fail("the second checker disagrees", provider, seed, items, exc)
        except Exception as exc:
            self.fail("the second checker raises", provider, seed, messages, repr(exc))


def _manual(around: dict[str, Any]) -> bool:
    return around["provider"] == "anthropic" and "thinking" in around


def _wire(message: Any) -> Any:
    inner = message.get("message", message) if "role" not in message else message
    return {k: v for k, v in inner.items() if k in ("role", "content", "output_config", "clear_at")}


def _with_reasoning(item: dict[str, Any]) -> dict[str, Any]:
    return {**item, "reasoning_content": ""} if item.get("role") == "assistant" else item


def _thoughtless(item: Any) -> bool:
    return False


def main() -> int:
    """Runs and prints."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=2000, help="conversations over all providers")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--show", type=int, default=5, help="examples of what is wrong")
    parser.add_argument("--provider", choices=PROVIDERS, action="append")
    args = parser.parse_args()
    providers = args.provider or list(PROVIDERS)
    run, start = Run(args.show), time.perf_counter()
    for number in range(args.count):
        run.one(providers[number % len(providers)], args.seed + number)
    seconds = time.perf_counter() - start
    print(f"{args.count:,} conversations, {', '.join(providers)}, {seconds:.1f} s")
    print("done:", dict(run.counts))
    print("repaired by rule:", dict(sorted(run.repairs.items())))
    print("left, none of it in reach of a repair:", dict(sorted(run.left.items())))
    print("wrong:", dict(run.wrong) or "nothing")
    return 1 if run.wrong else 0


if __name__ == "__main__":
    sys.exit(main())

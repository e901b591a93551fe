"""Attacks verifier, repairs, plans and translations with generated conversations.

For each seed a provider, a plan and a conversation follow. What must hold:

- a legal conversation is called legal, and its repair is the same object;
- what any plan leaves of a legal conversation can be sent once it is repaired as every request is:
  nothing illegal is left, for Anthropic and, translated, for the other providers;
- a damaged conversation is repaired, with nothing left but what no repair can fix, and never more
  wrong than before; after a plan too;
- repairing again changes nothing; the input is untouched;
- the checker of this kit, which shares no code with the library, says the same of a sample.
"""

from __future__ import annotations

import random
import traceback
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson

from tests.attack.plans import PADDED, PADDING, PLANS, Left
from tests.attack.talks import BOUND, MODELS, TOOLS, broken, form, talk
from tests.oracle.legality import assert_legal
from ullage._engine.digests import Violation
from ullage.exceptions import UllageError
from ullage.legality import Originals, Report, validate
from ullage.legality.draft import Repaired
from ullage.legality.repairs import repair
from ullage.providers import PROVIDERS, bedrock, gemini, mistral, openai_chat, openai_responses
from ullage.testing.generator import sign_thinking

__all__ = ["PLAN_TABLE", "UNMENDABLE", "Attack", "Failure", "plan_of"]

# What lies outside of the messages, or cannot shrink without judgement: sizes, tools, headers.
UNMENDABLE = frozenset({"A23", "A24", "A26", "A30", "O08", "O09", "L04", "B03", "R05"})
DEAR = (*PADDED, "manager")
PLAN_TABLE = (
    *("repair",) * 20,
    *(name for name in PLANS for _ in range(1 if name in DEAR else 3)),
)
"""Which plan a seed gets, in turn; those that cost most come less often."""

_JSON = orjson.OPT_NON_STR_KEYS


@dataclass(frozen=True, slots=True)
class Failure:
    """Something that must not be: seed, provider, plan, what, and detail."""

    seed: int
    provider: str
    plan: str
    what: str
    detail: str = field(repr=False)


def plan_of(seed: int) -> str:
    """The plan that a seed gets."""
    return PLAN_TABLE[seed // len(PROVIDERS) % len(PLAN_TABLE)]


class Attack:
    """Runs seeds and keeps count.

    Args:
        opinions: Every so many conversations the second checker is asked too.

    Attributes:
        counts: What was done, by `plan:provider` and by kind.
        left: Rules of errors that were left, none in reach of a repair.
        failures: What must not be.
    """

    def __init__(self, opinions: int = 1) -> None:
        self.opinions = opinions
        self.counts: Counter[str] = Counter()
        self.repairs: Counter[str] = Counter()
        self.left: Counter[str] = Counter()
        self.failures: list[Failure] = []
        self._at = (0, "", "")
        self._damaged = False

    def run(self, seed: int) -> None:
        """One conversation."""
        provider, plan = PROVIDERS[seed % len(PROVIDERS)], plan_of(seed)
        self._at, self._damaged = (seed, provider, plan), False
        self.counts[f"{plan}:{provider}"] += 1
        rng = random.Random(seed)
        if plan == "repair":
            self._native(rng, provider)
        else:
            self._planned(rng, provider, plan)

    # ---- a provider's own form ---------------------------------------------------------------

    def _native(self, rng: random.Random, provider: str) -> None:
        model = rng.choice(MODELS.get(provider, ("m",)))
        items = form(provider, talk(rng), model)
        around = _around(rng, provider, model)
        if provider == "deepseek" and "thinking" in around:
            items = [_with_reasoning(item) for item in items]
        if rng.random() < 0.5:
            self._legal(items, around)
            return
        original: Any = items if rng.random() < 0.5 else None
        damaged = broken(rng, items, anthropic=provider == "anthropic")
        # What the model made before the damage is known, if the original is given.
        self._damaged = original is None
        if original is not None and provider == "anthropic":
            original = Originals.of(original, tools=TOOLS)
        self._illegal(damaged, {**around, "original": original})

    def _legal(self, items: list[Any], around: Mapping[str, Any]) -> None:
        self.counts["legal"] += 1
        report = validate(items, **around)
        if not report.ok:
            # With manual thinking a turn must begin with it; these are made without minding that.
            if not (around["provider"] == "anthropic" and "thinking" in around):
                self._fail("legal is called illegal", report)
            return
        done = repair(items, **around)
        if done.messages is not items or done.repairs:
            self._fail("legal is repaired", done.repairs)
        self._opinion(done, around)

    def _illegal(self, items: list[Any], around: Mapping[str, Any]) -> None:
        report = validate(items, **around)
        self.counts["damaged"] += 1
        self.counts["illegal"] += not report.ok
        self._mended(items, around, report)

    # ---- plans -------------------------------------------------------------------------------

    def _planned(self, rng: random.Random, provider: str, plan: str) -> None:
        model = rng.choice(MODELS["anthropic"])
        items = form("anthropic", talk(rng), model)
        if plan in PADDED:
            padded: list[Any] = [*PADDING, *items]
            items = sign_thinking(padded, model=model, tools=TOOLS)
        self._damaged = damaged = rng.random() < 0.4
        if damaged:
            items = broken(rng, items, anthropic=True)
        self.counts["damaged" if damaged else "legal"] += 1
        before = _bytes(items)
        try:
            left = PLANS[plan](rng, items, model)
        except (
            UllageError
        ) as exc:  # the failures by name: nothing to compact, too large, no message
            self.counts[f"refused:{type(exc).__name__}"] += 1
            return
        except Exception as exc:
            self._fail(f"the plan raises {type(exc).__name__}", traceback.format_exc()[-1500:])
            return
        if _bytes(items) != before:
            self._fail("a plan changes its input", plan)
        out = list(left)
        self.counts["changed"] += len(out) != len(items) or any(
            a is not b for a, b in zip(out, items, strict=True)
        )
        original = left.originals if isinstance(left, Left) else Originals.of(items, tools=TOOLS)
        around: dict[str, Any] = {
            "provider": "anthropic",
            "model": model,
            "tools": TOOLS,
            "facts": {"window": 0},
            "original": original,
        }
        report = validate(out, **around)
        if isinstance(left, Left) and (wrong := _rules(report.errors) - UNMENDABLE):
            self._fail(f"a request is illegal: {sorted(wrong)}", report)
        done = self._mended(out, around, report)
        if done is not None and done.ok:
            self._translated(done, provider)

    def _translated(self, done: Repaired, provider: str) -> None:
        if provider == "anthropic":
            return
        shaped, around = _shaped(done.messages, provider)
        done = repair(shaped, **around)
        if done.repairs and not self._damaged:
            self._fail(
                f"translated is illegal: {sorted({r.rule for r in done.repairs})}", done.repairs
            )
        self.counts["translated"] += 1
        self.counts["translated, then repaired"] += bool(done.repairs)
        if not done.ok:
            self._fail(f"translated and repaired: {sorted({v.rule for v in done.left})}", done.left)
        self._opinion(done, around)

    # ---- what must hold ----------------------------------------------------------------------

    def _mended(
        self, items: list[Any], around: Mapping[str, Any], report: Report
    ) -> Repaired | None:
        before = _bytes(items)
        try:
            done = repair(items, **around)
            again = repair(done.messages, **around)
        except Exception as exc:
            self._fail("repair raises", repr(exc))
            return None
        self.repairs.update({each.rule for each in done.repairs})
        left = _rules(done.left)
        self.left.update(left)
        if _bytes(items) != before:
            self._fail("input is changed", before)
        if left - UNMENDABLE:
            self._fail(f"{sorted(left - UNMENDABLE)} left", done.left)
        if len(done.left) > len(report.errors):
            self._fail("more errors than before", done.left)
        if again.repairs or list(again.messages) != list(done.messages):
            self._fail("repairing again changes more", again.repairs)
        if report.ok and done.messages is not items:
            self._fail("legal is repaired", done.repairs)
        self._opinion(done, around)
        return done

    def _opinion(self, done: Repaired, around: Mapping[str, Any]) -> None:
        if not done.ok or self._at[0] // 7 % self.opinions:
            return
        # What bound thinking was made after, only the original tells.
        # In a managed talk each answer is signed alone: its seal cannot name the thinking before it.
        guessed = around["model"] == BOUND and (self._damaged or self._at[2] == "manager")
        if guessed and around["provider"] == "anthropic":
            return
        self.counts["second opinions"] += 1
        kwargs = {key: around[key] for key in ("tools", "thinking") if key in around}
        wire = _wire(done.messages, around["provider"])
        try:
            assert_legal(around["provider"], wire, model=around["model"], window=0, **kwargs)
        except AssertionError as exc:
            # It knows the place of each thinking in its turn from the seal; only bound models could.
            if "cannot be modified" not in str(exc) or around["model"] == BOUND:
                self._fail("the second checker disagrees", exc)
        except Exception as exc:
            self._fail("the second checker raises", repr(exc))

    def _fail(self, what: str, detail: object) -> None:
        self.failures.append(Failure(*self._at, what, str(detail)[:2000]))


def _rules(found: Iterable[Violation]) -> set[str]:
    """Rules that are broken. A kind of block that a model has said and that we do not know stays, and is named."""
    return {each.rule for each in found if "is unknown to the API" not in each.detail}


def _bytes(items: Sequence[Any]) -> bytes:
    try:
        return orjson.dumps(items, default=repr, option=_JSON)
    except TypeError:  # deeper or larger than JSON can be
        return repr(items).encode(errors="replace")


def _around(rng: random.Random, provider: str, model: str) -> dict[str, Any]:
    around: dict[str, Any] = {"provider": provider, "model": model, "facts": {"window": 0}}
    if provider in ("openai_responses", "gemini", "bedrock"):
        around["facts"] = None
    if provider == "bedrock":
        around["tools"] = [{"toolSpec": {"name": "Read"}}]
    if provider == "anthropic":
        around["tools"] = TOOLS
    if provider == "deepseek" and rng.random() < 0.5:
        around["thinking"] = {"type": "enabled"}
    if provider == "anthropic" and rng.random() < 0.2 and model != BOUND:
        around["thinking"] = {"type": "enabled", "budget_tokens": 1024}
    return around


def _with_reasoning(item: dict[str, Any]) -> dict[str, Any]:
    return {**item, "reasoning_content": ""} if item.get("role") == "assistant" else item


def _wire(messages: Sequence[Any], provider: str) -> list[Any]:
    """What is sent of it: no metadata between messages."""
    if provider in ("openai_chat", "mistral", "deepseek", "local"):
        return [each for each in messages if "role" in each]
    if provider != "anthropic":
        return list(messages)
    keys = ("role", "content", "output_config", "clear_at")
    bare = (each if "role" in each else each["message"] for each in messages if _speaks(each))
    return [{key: value for key, value in each.items() if key in keys} for each in bare]


def _speaks(item: Any) -> bool:
    return "role" in item or "message" in item


def _shaped(messages: Sequence[Any], provider: str) -> tuple[list[Any], dict[str, Any]]:
    """Anthropic's form as another provider's, with the arguments that its rules need."""
    model = MODELS.get(provider, ("m",))[0]
    around: dict[str, Any] = {"provider": provider, "model": model, "facts": {"window": 0}}
    if provider == "openai_responses":
        around["facts"] = None
        return openai_responses.to_provider(messages).parts["input"], around
    if provider == "gemini":
        around["facts"] = None
        return gemini.to_provider(messages).parts["contents"], around
    if provider == "bedrock":
        around.update(facts=None, tools=[{"toolSpec": {"name": "Read"}}])
        return bedrock.to_provider(messages).parts["messages"], around
    if provider == "mistral":
        return mistral.to_provider(messages).parts["messages"], around
    dialect: Any = {"openai_chat": "openai"}.get(provider, provider)
    if provider == "deepseek":
        around["thinking"] = {"type": "enabled"}
    return openai_chat.to_provider(messages, dialect=dialect).parts["messages"], around

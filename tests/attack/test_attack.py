"""The short form of the attack: every plan and every provider, and that it finds what it should."""

from __future__ import annotations

import os

import pytest

from tests.attack import runner as attack
from tests.attack.runner import PLAN_TABLE, Attack, plan_of
from ullage.legality import Report
from ullage.legality.draft import Repaired
from ullage.providers import PROVIDERS

pytestmark = pytest.mark.both_engines

ROUND = len(PLAN_TABLE) * len(PROVIDERS)
COUNT = int(os.environ.get("ULLAGE_ATTACK", str(2 * ROUND)))


def test_nothing_illegal_comes_out_of_any_plan_for_any_provider():
    """`python -m benches.fidelity.legality` is the long form."""
    run = Attack(opinions=10)
    for seed in range(COUNT):
        run.run(seed)
    assert run.failures == [], "\n".join(f"{each} {each.detail}" for each in run.failures[:5])
    pairs = {f"{plan}:{provider}" for plan in PLAN_TABLE for provider in PROVIDERS}
    assert pairs <= run.counts.keys()
    assert min(run.counts[kind] for kind in ("legal", "damaged", "illegal", "translated")) > 50
    assert run.counts["changed"] > COUNT // 10


SEEN = 4 * ROUND


def found(monkeypatch, name, value, *, plans=None, count=SEEN) -> set[str]:
    monkeypatch.setattr(attack, name, value)
    run = Attack(opinions=10**9)
    for seed in range(count):
        if plans is None or plan_of(seed) in plans:
            run.run(seed)
            if run.failures:
                break
    return {each.what for each in run.failures}


def test_it_notices_a_repair_that_does_nothing(monkeypatch):
    def lazy(messages, **_):
        return Repaired(messages, left=attack.validate(messages, **_).errors)

    assert any("left" in what for what in found(monkeypatch, "repair", lazy, plans={"repair"}))


def test_it_notices_a_repair_that_changes_its_input(monkeypatch):
    kept = attack.repair

    def careless(messages, **around):
        done = kept(messages, **around)
        if done.repairs:
            messages.append({"role": "user", "content": "more"})
        return done

    assert "input is changed" in found(monkeypatch, "repair", careless)


def test_it_notices_a_verifier_that_sees_nothing(monkeypatch):
    blind = found(monkeypatch, "validate", lambda items, provider, **_: Report(provider))
    assert blind & {"legal is repaired", "more errors than before"}


def test_it_notices_a_plan_that_raises_or_changes_its_input(monkeypatch):
    def broken(rng, items, model):
        raise KeyError("x")

    plans = {**attack.PLANS, "snip": broken}
    assert "the plan raises KeyError" in found(monkeypatch, "PLANS", plans, plans={"snip"})

    def greedy(rng, items, model):
        items.clear()
        return items

    plans = {**attack.PLANS, "snip": greedy}
    assert "a plan changes its input" in found(monkeypatch, "PLANS", plans, plans={"snip"})


def test_it_notices_a_translation_that_drops_a_result(monkeypatch):
    kept = attack._shaped

    def lossy(messages, provider):
        items, around = kept(messages, provider)
        gone = next((at for at, each in enumerate(items) if each.get("role") == "tool"), None)
        return [each for at, each in enumerate(items) if at != gone], around

    what = found(monkeypatch, "_shaped", lossy, plans={"snip"})
    assert any(each.startswith("translated is illegal") for each in what)


FOUND = (5351, 30222, 40099, 60186, 67483, 237300, 462975, 681941, 3007143, 3010398, 4034452)


@pytest.mark.parametrize("seed", FOUND)
def test_what_was_found_once_stays_fixed(seed):
    run = Attack()
    run.run(seed)
    assert run.failures == []

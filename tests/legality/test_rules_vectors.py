"""Every golden vector is judged as it says, by its own rule alone, and no rule is without vectors."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest

from tests.kit import compare, rewrites
from tests.legality.rules_vectors import PATH, run, vectors
from ullage.legality import anthropic, chat, check as ledgers, params as documents, rules
from ullage.providers import classify

VECTORS = vectors()
RULES = {*rules(), *compare.RULES, *rewrites.RULES}
ILLEGAL = [v for v in VECTORS if v["errors"] or v.get("any")]
CLASSIC = tuple(f"V{number:02}" for number in range(1, 28))
ANSWERS = [v for v in json.loads(PATH.read_text("utf-8")) if "error" in v]


def judged_well(vector: dict[str, Any], skip: Any = ()) -> bool:
    report = run(vector, skip=skip)
    allowed = {*vector["errors"], *vector.get("any", ()), *vector.get("also", ())}
    return (
        set(vector["errors"]) <= report.rules <= allowed
        and (not vector.get("any") or bool(report.rules & set(vector["any"])))
        and set(vector["warnings"]) <= {found.rule for found in report.warnings}
        and (
            # A comparison says nothing more than its vector; a request may be warned of besides.
            "compare" not in vector
            or {found.rule for found in report.warnings} == set(vector["warnings"])
        )
    )


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector["id"])
def test_a_vector_is_judged_as_it_says(vector):
    assert judged_well(vector), str(run(vector))


@pytest.mark.parametrize("vector", ILLEGAL, ids=lambda vector: vector["id"])
def test_without_its_rules_an_illegal_vector_passes(vector):
    skip = {*vector["errors"], *vector.get("any", ()), *vector.get("also", ())}
    report = run(vector, skip=skip)
    assert report.ok, str(report)


def classified_well(vector: dict[str, Any], classifier: Any = classify) -> bool:
    return classifier(vector["error"]).kind.startswith("overflow") is vector["overflow"]


@pytest.mark.parametrize("vector", ANSWERS, ids=lambda vector: vector["id"])
def test_an_answer_is_reported_as_it_says(vector):
    assert classified_well(vector)


# ---- no rule without a vector that fails when it is off ----------------------------------------


def test_each_rule_has_three_vectors_of_its_own():
    own = [v for v in (*VECTORS, *ANSWERS) if not v["id"].startswith(CLASSIC)]
    count = Counter(vector["rule"] for vector in own)
    assert {rule: count[rule] for rule in RULES if count[rule] < 3} == {}
    assert set(count) <= RULES


def too_many(vector: dict[str, Any]) -> bool:
    """Whether it holds a hundred thousand messages: once is enough, in `test_a_vector_is_judged_as_it_says`."""
    return any(path == ["messages"] and count > 10_000 for path, count in vector.get("repeat", ()))


@pytest.fixture
def on_engine(engine, monkeypatch):
    """The verifier on one engine or the other."""
    for module in (anthropic, chat, documents, ledgers, rewrites):
        monkeypatch.setattr(module, "core", engine)


@pytest.mark.parametrize("rule", sorted(RULES - {"X10"}))
def test_a_rule_that_is_switched_off_is_missed(rule, on_engine):
    asking = [
        v
        for v in VECTORS
        if rule in (*v["errors"], *v.get("any", ()), *v["warnings"]) or v["rule"] == rule
    ]
    small = [v for v in asking if not too_many(v)]
    assert all(judged_well(vector) for vector in small)
    missed = any(not judged_well(v, skip={rule}) for v in small)
    assert missed, f"no vector fails when {rule} is off"


def test_a_classifier_that_is_switched_off_is_missed():
    def blind(answer: Any) -> Any:
        return classify({"status": 500, "text": ""})

    missed = [vector["id"] for vector in ANSWERS if not classified_well(vector, blind)]
    assert len(missed) >= 3

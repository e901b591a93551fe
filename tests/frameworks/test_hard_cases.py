"""Every integration against a model that repeats ids and misstates usage: streamed, with approvals, over restarts."""

from __future__ import annotations

import asyncio
import gc
import importlib
from collections.abc import Iterator
from dataclasses import replace
from importlib.metadata import version
from typing import Any

import pytest

from tests.frameworks.hard_cases import CASES, LIMITS, Brain, Case

pytestmark = pytest.mark.filterwarnings("ignore")

FRAMEWORKS = {
    "langchain": "langchain",
    "pydantic_ai": "pydantic_ai",
    "openai_agents": "agents",
    "strands": "strands",
    "google_adk": "google.adk",
    "smolagents": "smolagents",
    "agent_framework": "agent_framework",
    "inspect_ai": "inspect_ai",
    "llama_index": "llama_index.core",
    "litellm": "litellm",
}


def case_of(name: str, case: Case) -> Case:
    """The hardest that the framework takes itself."""
    if name == "pydantic_ai" and case.ids == "one":
        return replace(case, ids="single")  # it refuses an answer with two calls of one id
    if name == "google_adk" and tuple(map(int, version("google-adk").split(".")[:2])) < (2, 13):
        # Older releases show a call under the newest call of its id.
        return replace(case, ids="own")
    if name == "google_adk" and case.ids == "one" and case.approvals:
        return replace(case, ids="single")  # the approval names the call by its id
    if name == "smolagents" and case.ids == "one":
        return replace(case, ids="single")  # it holds results by id
    if name == "inspect_ai":
        return replace(case, usage=-1)  # by it Inspect itself decides when a strategy is asked
    if name == "openai_agents":
        # It refuses such an answer too, and of calls with one id it keeps the newest: see `tests/manager/test_repeated_ids.py`.
        return replace(case, ids="own")
    return case


TURNS = [
    pytest.param(25, marks=pytest.mark.timeout(300)),
    pytest.param(200, marks=[pytest.mark.slow, pytest.mark.timeout(1_800)]),
]


@pytest.fixture(autouse=True)
def _collected() -> Iterator[None]:
    """What frameworks leave open is collected where its warnings are ignored."""
    yield
    gc.collect()


@pytest.mark.parametrize("turns", TURNS)
@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.parametrize("name", FRAMEWORKS)
def test_every_request_is_legal_and_fits(name: str, case: Any, turns: int, tmp_path: Any):
    pytest.importorskip(FRAMEWORKS[name], reason="`make integrations` installs it")
    play = importlib.import_module(f"tests.frameworks.players.{name}").play
    brain = Brain(case_of(name, case))
    done = play(brain, turns, LIMITS, tmp_path)
    asyncio.run(done) if asyncio.iscoroutine(done) else None
    assert not brain.wrong, (len(brain.wrong), brain.wrong[:3])
    if name != "inspect_ai":  # which asks for a compaction of all, the newest results too
        assert brain.requests >= 2 * turns
        assert brain.whole == brain.at_once * turns
    assert brain.largest <= LIMITS["context_window"]
    assert brain.largest > LIMITS["context_window"] // 3  # room was made because it was needed


@pytest.mark.parametrize("name", ["langchain", "pydantic_ai"])
def test_requests_fit_where_the_model_counts_twice_what_is_estimated(name: str, tmp_path: Any):
    """By the usage that its answers state, which these two frameworks keep with the message."""
    pytest.importorskip(FRAMEWORKS[name], reason="`make integrations` installs it")
    play = importlib.import_module(f"tests.frameworks.players.{name}").play
    brain = Brain(Case("own", -1, restarts=True), dense=2)
    done = play(brain, 25, LIMITS, tmp_path)
    asyncio.run(done) if asyncio.iscoroutine(done) else None
    assert not brain.wrong, brain.wrong[:3]
    assert brain.whole == 50
    assert LIMITS["context_window"] // 2 < brain.dense * brain.largest <= LIMITS["context_window"]


@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.parametrize("name", FRAMEWORKS)
def test_without_ullage_the_model_has_nothing_to_object_to(name: str, case: Any, tmp_path: Any):
    """Else the test above would show nothing."""
    pytest.importorskip(FRAMEWORKS[name], reason="`make integrations` installs it")
    play = importlib.import_module(f"tests.frameworks.players.{name}").play
    brain = Brain(case_of(name, case))
    done = play(brain, 20, None, tmp_path)
    asyncio.run(done) if asyncio.iscoroutine(done) else None
    assert not brain.wrong, brain.wrong[:3]
    assert brain.largest > LIMITS["context_window"]

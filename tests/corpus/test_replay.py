"""Every real session played through every level, as if live: it ends, fits, stays legal, keeps its prefix, loses nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.oracle.legality import assert_legal
from ullage.facts.words import blocks_of
from ullage.legality import validate
from ullage.manager import ContextManager, Request
from ullage.policy import Policy
from ullage.replay import replay_session, script_of
from ullage.sessions import open_session

pytestmark = [
    pytest.mark.corpus,
    pytest.mark.slow,
    # One session was led by a model that no table lists.
    pytest.mark.filterwarnings("ignore::ullage.counting.models.UnknownModelWarning"),
]

MODEL = "claude-opus-4-5"
"""For all: the smallest window of the current ones, so that every level has work."""


class Watch:
    """Looks at each request as it is made."""

    def __init__(self) -> None:
        self.before: list[Any] = []
        self.manager: ContextManager | None = None
        self.repaired = False

    def __call__(self, manager: ContextManager, request: Request) -> None:
        self.manager = manager
        messages = request.messages
        same = len(self.before) if request.rewritten_from is None else request.rewritten_from
        assert len(messages) >= same
        assert all(map(same_bytes, messages[:same], self.before[:same]))
        if request.rewritten_from is not None:
            # Each rewrite is in the account: by a level, or by a repair that came, or is not needed any more.
            told = any(report.first_changed is not None for report in request.reports)
            assert told or request.repairs or self.repaired
        self.repaired = bool(request.repairs)
        assert validate(messages, model=MODEL, facts={"skip": ("A24",)}).ok
        if request.reports or request.number % 25 == 0:
            assert_legal("anthropic", messages, model=MODEL, window=0)
        self.before = messages


def same_bytes(a: Any, b: Any) -> bool:
    return a is b or orjson.dumps(a) == orjson.dumps(b)


def results_of(item: Any) -> dict[str, Any]:
    blocks = (block for block in blocks_of(item) if block.get("type") == "tool_result")
    return {block["tool_use_id"]: block for block in blocks}


def assert_all_recallable(manager: ContextManager) -> None:
    inside = {source for source in manager.machine.view.sources if isinstance(source, int)}
    gone = [at for at in range(len(manager.history)) if at not in inside]
    left = [
        at for report in manager.explain().left for span in report.removed for at in range(*span)
    ]
    assert sorted(left) == gone
    recall = manager.recall
    newest = {name: block for item in manager.history for name, block in results_of(item).items()}
    for at in gone:
        (found,) = recall.get(f"m{at}").items
        assert found == manager.history[at]
    for at, item in enumerate(manager.history):
        for name in results_of(item):
            if at in inside and name in manager.machine.view.decisions:
                # A session may use an id twice; the newest is the one that is known by it.
                assert recall.get(name).items == (newest[name],)


@pytest.mark.parametrize("preset", ["buffered", "ladder"])
def test_every_session_ends_fits_and_loses_nothing(corpus_file: Path, preset: str):
    script = script_of(open_session(corpus_file))
    if not script.messages:
        pytest.skip("nothing was said")
    policy = Policy.ladder() if preset == "ladder" else Policy.buffered()
    watch = Watch()
    run = replay_session(script, policy, model=MODEL, seen=watch)
    assert run.error == ""
    assert len(run.turns) == len(list(script.requests()))
    assert run.refused == 0
    assert run.rewrites <= len(run.turns)
    assert run.total("rewritten_tokens") <= run.total("written_tokens")
    if watch.manager is not None:
        assert_all_recallable(watch.manager)

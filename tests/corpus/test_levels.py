"""Every level over real sessions, as if live, in a window far too small for them.

Each request is legal, fits, and begins like the one before except where it says that it was rewritten; whatever left can be
recalled and comes back equal.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.oracle.legality import assert_legal
from ullage import estimate_tokens
from ullage.counting.models import ModelTable
from ullage.levels.turn_snip import SNIP_TOOL
from ullage.manager import ContextManager
from ullage.policy import Policy
from ullage.recall.store import MemoryStore
from ullage.transcript.index import resume

pytestmark = pytest.mark.corpus

MODEL = "claude-opus-4-5"
MOST = 400
"""Messages of a session that are played: a session in a window of a third of it meets every level by then."""

SMALL = {"micro.min_freed_tokens": 500}
POLICIES = {
    "collapse": Policy.buffered().change({**SMALL, "collapse.enabled": True, "collapse.min_span_tokens": 800}),
    "fold": Policy.buffered().change({"auto.enabled": False, "snip.enabled": False, "micro.tools": ["None"]}),
    "ladder": Policy.ladder().change(SMALL),
}  # fmt: skip


@pytest.mark.parametrize("name", POLICIES)
def test_a_session_in_a_small_window(claude_code_file, name):
    messages = resume(claude_code_file).messages[:MOST]
    window = max(12_000, estimate_tokens(messages) // 3)
    manager = ContextManager(
        model=MODEL,
        policy=POLICIES[name],
        tools=[SNIP_TOOL.definition()],
        store=MemoryStore(),
        table=ModelTable.builtin().learned(MODEL, window),
    )
    play(manager, messages, window)
    account(manager)


def play(manager: ContextManager, messages: list[Any], window: int) -> None:
    previous: list[Any] = []
    count = 0
    for message in messages:
        manager.add(message)
        if message["role"] != "user":
            continue
        request = manager.prepare()
        count += 1
        assert request.tokens <= window
        changed = request.rewritten_from
        same = len(previous) if changed is None else min(changed, len(previous))
        assert request.messages[:same] == previous[:same]
        previous = list(request.messages)
        if count % 10 == 0 or request.reports:
            assert_legal("anthropic", request.messages, model=MODEL, window=0)
        turns = list(manager.machine.states["turn_snip"].ids.values())
        if count % 25 == 0 and len(turns) > 2:
            manager.answer("Snip", {"ids": turns[:1]})


def account(manager: ContextManager) -> None:
    """What is in the request and what is listed as removed are the whole history, each once, and come back equal."""
    history, view, recall = manager.history, manager.machine.view, manager.recall
    gone: list[int] = []
    for each in recall._listing():
        found = recall.get(each.handle)
        if each.kind == "messages":
            gone += range(each.first, each.last + 1)
            assert list(found.items) == list(history[each.first : each.last + 1])
        else:
            assert found.items[0] in history[each.first]["content"]
    kept = [source for source in view.sources if isinstance(source, int)]
    assert sorted([*gone, *kept]) == list(range(len(history)))

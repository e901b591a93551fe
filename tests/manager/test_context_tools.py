"""What a conversation's own tools answer, through the context manager."""

from __future__ import annotations

import copy
import json

import pytest

from tests.kit.transcripts import session_287k
from tests.oracle.legality import assert_legal
from ullage.counting.models import ModelTable
from ullage.exceptions import InvalidPolicy
from ullage.levels.turn_snip import SNIP_TOOL
from ullage.manager import ContextManager
from ullage.policy import Policy
from ullage.recall import RECALL_TOOL
from ullage.recall.store import MemoryStore
from ullage.testing import conversation

MODEL = "claude-opus-4-5"
SNIP = [SNIP_TOOL.definition()]


def played(messages: list[dict], **more: object) -> ContextManager:
    manager = ContextManager(model=MODEL, store=MemoryStore(), **more)
    for at, message in enumerate(messages):
        manager.add(message)
        if message["role"] == "user" and messages[at + 1 : at + 2] != [message]:
            manager.prepare()
    return manager


@pytest.mark.parametrize("policy", [Policy.buffered(), Policy.ladder()], ids=lambda p: p.preset)
def test_everything_that_left_a_long_session_comes_back_equal(policy):
    messages = session_287k(5).messages
    before = copy.deepcopy(messages)
    manager = played(messages, policy=policy)
    gone = {
        at for report in manager.explain().left for span in report.removed for at in range(*span)
    }
    cleared = {name for report in manager.explain().left for name in report.tool_use_ids}
    listed = manager.recall._listing()
    assert gone == {
        at for each in listed if each.kind == "messages" for at in range(each.first, each.last + 1)
    }
    assert cleared
    for name in cleared:
        (block,) = manager.recall.get(name).items
        assert block in [block for message in before for block in message["content"] if block]
    for each in listed:
        if each.kind == "messages":
            items = manager.recall.get(each.handle).items
            assert items == tuple(before[each.first : each.last + 1])
    assert not manager.answer("recall", {}).is_error


def test_a_model_snips_a_turn_by_its_id():
    manager = played(conversation(3, turns=4, tokens=9_000), tools=SNIP)
    first = manager.messages[0]["content"][-1]["text"]
    assert first.startswith("[id:")
    assert not manager.answer("Snip", {"ids": [first]}).is_error
    request = manager.prepare()
    (report,) = [each for each in request.reports if each.stage == "turn_snip"]
    assert report.freed > 0
    assert request.rewritten_from == 0
    assert_legal("anthropic", request.messages, model=MODEL)
    found = manager.recall.get(first[4:-1])
    assert found.items == tuple(manager.history[: len(found.items)])


def test_without_the_tool_there_are_no_ids():
    messages = conversation(3, turns=4, tokens=9_000)
    assert "[id:" not in str(played(messages).messages)
    assert "[id:" in str(played(messages, tools=SNIP).messages)
    off = Policy.buffered().change({"snip.turns": False})
    assert "[id:" not in str(played(messages, tools=SNIP, policy=off).messages)


def test_other_tools_are_not_ours():
    manager = ContextManager(model=MODEL)
    with pytest.raises(InvalidPolicy, match="Bash"):
        manager.answer("Bash", {})
    assert manager.answer(RECALL_TOOL.name, {"handle": "nothing"}).is_error


RESTORED = {
    "collapse": {"collapse.enabled": True, "collapse.min_span_tokens": 400},
    "snips and lines": {"micro.by_line": True, "micro.line_start_percent": 20, "snip.max_chars": 2_000},
    "told": {"offer.notice_percent": 10, "cost.wait_requests": 30},
}  # fmt: skip


@pytest.mark.parametrize("name", RESTORED)
def test_a_saved_conversation_goes_on_as_it_would_have(name):
    policy = Policy.buffered().change({**RESTORED[name], "micro.min_freed_tokens": 300})
    table = ModelTable.builtin().learned(MODEL, 30_000)
    messages = conversation(6, tokens=36_000)
    options = {"tools": SNIP, "store": MemoryStore(), "table": table}
    manager = ContextManager(model=MODEL, policy=policy, **options)
    other: ContextManager | None = None
    acted: set[str] = set()
    for at, message in enumerate(messages):
        for each in filter(None, (manager, other)):
            each.add(message)
        if message["role"] != "user":
            continue
        request = manager.prepare()
        acted |= {report.stage for report in request.reports}
        if other is not None:
            again = other.prepare()
            assert again.messages == request.messages
            assert again.reports == request.reports
        if at % 7 == 0:
            saved = json.loads(json.dumps(manager.save(history=True)))
            other = ContextManager.restore(saved, **options)
        turns = manager.machine.states["turn_snip"].ids
        if at == len(messages) // 2:
            for each in filter(None, (manager, other)):
                each.answer("Snip", {"ids": [min(turns.values())]})
    assert acted
    assert other is not None
    assert other.recall.call({}) == manager.recall.call({})

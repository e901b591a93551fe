"""Thinking that is bound to its prefix, live: each answer is signed for the request that was sent, as a server would."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.oracle.legality import assert_legal
from ullage.counting.models import ModelTable
from ullage.levels import View
from ullage.levels.drop_stale_thinking import unbind
from ullage.levels.turn_snip import SNIP_TOOL
from ullage.manager import ContextManager
from ullage.policy import Policy
from ullage.recall.store import MemoryStore
from ullage.testing import Scenario, conversation, scenario
from ullage.testing.generator import Walk, seal, unseal

MODEL = "claude-opus-5-5"
COLLAPSE = {"collapse.enabled": True, "collapse.min_span_tokens": 500}
LINES = {"micro.line_start_percent": 30, "micro.min_freed_tokens": 300, "protect.tool_results": 2, "micro.keep_recent": 2}  # fmt: skip
POLICIES = {
    "buffered": Policy.buffered().change({"auto.start_percent": 60}),
    "ladder": Policy.ladder().change(LINES),
    "collapse": Policy.buffered().change(COLLAPSE),
    "fold": Policy.buffered().change(
        {"auto.enabled": False, "snip.enabled": False, "micro.by_supersession": False}
    ),
}


def answered(sent: list[dict], message: dict, system: str, tools: list[dict]) -> dict:
    """The message with its thinking signed for what was sent, as the server that gave it would have."""
    walk, previous = Walk(system, tools), ""
    for earlier in sent:
        walk.enter(earlier)
        for block in thoughts(earlier):
            previous, walk.step = unseal(block["signature"]).name, walk.step + 1
    before, blocks = walk.enter(message), []
    for block in message["content"]:
        if block["type"] == "thinking":
            signature, value = seal(MODEL, before, block["thinking"], previous, walk.step)
            previous, walk.step = value.name, walk.step + 1
            block = {**block, "signature": signature}
        blocks.append(block)
    return {**message, "content": blocks}


def thoughts(message: dict) -> list[dict]:
    content = message["content"]
    return [b for b in content if b["type"] == "thinking"] if isinstance(content, list) else []


def live(made: Scenario, policy: Policy, window: int, *, snips: bool = False) -> Counter[str]:
    """Play a session as if live, judge every request by signatures, and count what acted."""
    tools = [*made.tools, SNIP_TOOL.definition()]
    manager = ContextManager(
        model=MODEL,
        policy=policy,
        system=made.system,
        tools=tools,
        store=MemoryStore(),
        table=ModelTable.builtin().learned(MODEL, window),
    )
    sent: list[dict] | None = None
    acted: Counter[str] = Counter()
    for message in made.messages:
        if message["role"] == "assistant" and sent is not None:
            message = answered(sent, message, made.system, tools)
        manager.add(message)
        if message["role"] == "user":
            if snips and (ids := manager.machine.states["turn_snip"].ids) and len(ids) % 3 == 2:
                manager.answer("Snip", {"ids": [min(ids.values())]})
            request = manager.prepare()
            sent = request.messages
            acted.update(report.stage for report in request.reports)
            acted["thinking"] += sum(len(thoughts(each)) for each in sent)
            acted["rewritten"] += request.rewritten_from is not None
            assert_legal(
                "anthropic",
                sent,
                model=MODEL,
                system=made.system,
                tools=tools,
                sealed=True,
                window=0,
            )
    return acted


@pytest.mark.parametrize("name", POLICIES)
@pytest.mark.parametrize("seed", [3, 8])
def test_every_request_of_a_live_session_is_valid(name, seed):
    made = scenario(seed, tokens=60_000, model=MODEL, style="coding")
    acted = live(made, POLICIES[name], 45_000, snips=seed == 8 and name != "fold")
    assert acted["thinking"] > 0
    assert acted["rewritten"] > 0
    wanted = {"buffered": "autocompact", "ladder": "microcompact"}.get(name, name)
    assert acted[wanted] > 0


def thought(*more: dict) -> dict:
    block = {"type": "thinking", "thinking": "hm", "signature": "s"}
    return {"role": "assistant", "content": [block, *more]}


def view_of(*messages: dict) -> View:
    view = View()
    for message in messages:
        view.add(message)
    view.mark_sent()
    return view


SAID = {"type": "text", "text": "fine"}
CALL = {"type": "tool_use", "id": "t", "name": "Bash", "input": {}}
RESULT = {"type": "tool_result", "tool_use_id": "t", "content": "ok"}


def test_what_stands_before_the_rewrite_keeps_its_thinking():
    view = view_of(
        {"role": "user", "content": "a"},
        thought(SAID),
        {"role": "user", "content": "b"},
        thought(SAID),
    )
    assert unbind(view, 2) == 1
    assert view.messages[1]["content"][0]["type"] == "thinking"
    assert view.messages[3]["content"] == [SAID]
    assert unbind(view, 2) == 0


def test_a_split_open_turn_is_ended_for_good_and_a_closed_one_is_not():
    view = view_of(
        {"role": "user", "content": "a"}, thought(CALL), {"role": "user", "content": [RESULT]}
    )
    unbind(view, 1)
    assert [m["role"] for m in view.messages] == ["user", "assistant", "user", "assistant", "user"]
    assert "system-reminder" in view.messages[-1]["content"]
    assert_legal("anthropic", view.messages, model=MODEL)
    count = len(view)
    unbind(view, 0)
    assert len(view) == count
    closed = view_of(
        {"role": "user", "content": "a"}, thought(SAID), {"role": "user", "content": "b"}
    )
    unbind(closed, 0)
    assert len(closed) == 3


def test_a_message_of_thinking_alone_goes():
    view = view_of({"role": "user", "content": "a"}, thought(), {"role": "user", "content": "b"})
    unbind(view, 0)
    assert [m["content"] for m in view.messages] == ["a", "b"]


def test_models_whose_thinking_is_free_keep_it():
    policy = POLICIES["ladder"]
    manager = ContextManager(
        model="claude-opus-4-5",
        policy=policy,
        table=ModelTable.builtin().learned("claude-opus-4-5", 45_000),
    )
    for message in scenario(3, tokens=60_000, model="claude-opus-4-5").messages:
        manager.add(message)
    request = manager.prepare()
    assert any(report.stage == "microcompact" for report in request.reports)
    assert not manager.machine.view.unthought


def test_a_conversation_that_thinks_by_a_budget_is_compacted():
    thinking = {"type": "enabled", "budget_tokens": 2_000}
    manager = ContextManager(model="claude-opus-4-5", thinking=thinking)
    for message in conversation(9, tokens=30_000):
        manager.add(message)
    manager.prepare()
    assert (
        manager.on_overflow("prompt is too long: 213462 tokens > 200000 maximum").step == "compact"
    )

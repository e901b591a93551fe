"""Anthropic's context management: the exact form, what the answer says, and the same done for other providers."""

from __future__ import annotations

import copy
import json

import pytest
from hypothesis import given, settings, strategies as st

from tests.kit import view_of
from tests.level_kit import act, context_of
from tests.oracle.legality import assert_legal
from ullage.counting.models import lookup
from ullage.exceptions import InvalidPolicy
from ullage.levels import View, microcompact, provider_clearing
from ullage.levels.context_edits import apply_context_management, betas, read_edits
from ullage.levels.provider_clearing import ProviderClearing
from ullage.manager import ContextManager
from ullage.policy import Policy
from ullage.providers.registry import provider_of
from ullage.testing import conversation

ON = Policy.buffered().change({"micro.by_provider": True})
ALL = {
    "edits": [
        {"type": "clear_thinking_20251015", "keep": {"type": "thinking_turns", "value": 2}},
        {
            "type": "clear_tool_uses_20250919",
            "trigger": {"type": "input_tokens", "value": 100_000},
            "keep": {"type": "tool_uses", "value": 3},
            "clear_at_least": {"type": "input_tokens", "value": 5_000},
            "exclude_tools": ["web_search"],
            "clear_tool_inputs": False,
        },
    ]
}


def reads(count: int, size: int = 400) -> list[dict]:
    said: list[dict] = [{"role": "user", "content": "please"}]
    for number in range(1, count + 1):
        call = {
            "type": "tool_use",
            "id": f"t{number}",
            "name": "Read",
            "input": {"file_path": f"/f{number}"},
        }
        thought = {"type": "thinking", "thinking": f"thought {number} " * 20, "signature": "s"}
        text = f"{number}\n" + "word " * size
        said += [
            {"role": "assistant", "content": [thought, call]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": f"t{number}", "content": text}]},
            {"role": "assistant", "content": f"read {number}"},
            {"role": "user", "content": f"next {number}"},
        ]  # fmt: skip
    return said


# ---- the form


def test_the_example_of_the_documentation_is_read_and_written_the_same():
    edits = read_edits(ALL)
    assert [edit.kind for edit in edits] == [edit["type"] for edit in ALL["edits"]]
    assert betas(edits) == ("context-management-2025-06-27",)


def test_what_is_not_said_is_as_the_api_has_it():
    given_ = {"edits": [{"type": "clear_tool_uses_20250919"}, {"type": "compact_20260112"}]}
    clear, compact = read_edits(given_)
    assert (clear.trigger, clear.by_uses, clear.keep, clear.at_least) == (100_000, False, 3, 0)
    assert clear.inputs is False
    assert compact.trigger == 150_000
    assert betas([clear, compact]) == ("context-management-2025-06-27", "compact-2026-01-12")
    keep_all = {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]}
    assert [edit.keep for edit in read_edits(keep_all)] == [None]


@pytest.mark.parametrize(
    ("given_", "field"),
    [
        ({"edits": {}}, "context_management"),
        ({"edits": [], "more": 1}, "context_management.more"),
        ({"edits": [{"type": "clear_everything"}]}, "edits[0].type"),
        ({"edits": [{"type": "clear_tool_uses_20250919", "keep": 3}]}, "edits[0].keep.value"),
        ({"edits": [{"type": "clear_tool_uses_20250919", "kept": 3}]}, "edits[0].kept"),
        ({"edits": [{"type": "clear_tool_uses_20250919", "exclude_tools": "a"}]}, "exclude_tools"),
        (
            {"edits": [{"type": "clear_tool_uses_20250919"}, {"type": "clear_thinking_20251015"}]},
            "context_management.edits",
        ),
        ({"edits": [{"type": "clear_tool_uses_20250919"}] * 2}, "context_management.edits"),
        (
            {"edits": [{"type": "clear_thinking_20251015", "keep": {"type": "thinking_turns", "value": 0}}]},
            "edits[0].keep.value",
        ),
        (
            {"edits": [{"type": "compact_20260112", "trigger": {"type": "input_tokens", "value": 49_999}}]},
            "trigger.value",
        ),
    ],
)  # fmt: skip
def test_what_the_api_would_refuse_is_named(given_, field):
    with pytest.raises(InvalidPolicy) as caught:
        read_edits(given_)
    assert caught.value.field.endswith(field)


def test_what_the_policy_asks_for():
    policy = ON.change(
        {"micro.provider_thinking": "turns", "micro.provider_compact_tokens": 150_000}
    )
    tools = ("Read", "Ask", "memory")
    assert provider_clearing.management(policy, tools) == {
        "edits": [
            {"type": "clear_thinking_20251015", "keep": {"type": "thinking_turns", "value": 2}},
            {
                "type": "clear_tool_uses_20250919",
                "trigger": {"type": "input_tokens", "value": 180_000},
                "keep": {"type": "tool_uses", "value": 5},
                "clear_at_least": {"type": "input_tokens", "value": 140_000},
                "exclude_tools": ["Ask", "memory"],
                "clear_tool_inputs": False,
            },
            {"type": "compact_20260112", "trigger": {"type": "input_tokens", "value": 150_000}},
        ]
    }
    assert provider_clearing.management(Policy.buffered(), tools) is None


def sent(policy: Policy, provider: str, model: str) -> tuple[dict, dict]:
    """Parameters and headers that the level puts into a request."""
    where = context_of(View(), policy, provider=provider_of(provider), model=lookup(model))
    act(provider_clearing.LEVEL, where)
    return where.extras.params, where.extras.headers


def test_only_where_it_is_known():
    params, headers = sent(ON, "anthropic", "claude-opus-5-5")
    assert params["context_management"]["edits"][0]["type"] == "clear_tool_uses_20250919"
    assert headers == {"anthropic-beta": "context-management-2025-06-27"}
    assert sent(ON, "anthropic", "gpt-5") == ({}, {})
    assert sent(ON, "openai_chat", "claude-opus-5-5") == ({}, {})
    more = ON.change({"micro.provider_compact_tokens": 120_000})
    edit = {"type": "compaction", "compact_threshold": 120_000}
    assert sent(more, "openai_responses", "gpt-5") == ({"context_management": [edit]}, {})


# ---- what the answer says


def answered(uses: int, tokens: int = 900, **more: object) -> dict:
    edit = {
        "type": "clear_tool_uses_20250919",
        "cleared_tool_uses": uses,
        "cleared_input_tokens": tokens,
    }
    return {"role": "assistant", "content": "ok", "context_management": {"applied_edits": [edit]}, **more}  # fmt: skip


def test_what_was_cleared_is_taken_in_reported_once_and_left_alone_by_us():
    view, state = view_of(reads(12)), ProviderClearing(exclude_tools=["Ask"])
    provider_clearing.observe(context_of(view, Policy.buffered(), state), answered(4))
    assert state.cleared == ["t1", "t2", "t3", "t4"]
    report = act(provider_clearing.LEVEL, context_of(view, Policy.buffered(), state))
    assert report.tool_use_ids == ("t1", "t2", "t3", "t4")
    assert report.paths == ("/f1", "/f2", "/f3", "/f4")
    assert report.first_changed is None
    assert "900 tokens" in report.why
    assert act(provider_clearing.LEVEL, context_of(view, Policy.buffered(), state)) is None
    ladder = Policy.ladder().change({"micro.min_freed_tokens": 0, "micro.keep_recent": 1})
    ours = act(microcompact.LEVEL, context_of(view, ladder, percent=70))
    assert not {"t1", "t2", "t3", "t4"} & set(ours.tool_use_ids)
    provider_clearing.observe(context_of(view, Policy.buffered(), state), answered(6))
    assert act(
        provider_clearing.LEVEL, context_of(view, Policy.buffered(), state)
    ).tool_use_ids == ("t5", "t6")
    assert ProviderClearing.load(json.loads(json.dumps(state.dump()))) == state


@pytest.mark.parametrize(
    "response",
    [
        {"role": "assistant", "content": "x"},
        {"context_management": None},
        {"context_management": {"applied_edits": [None, {"type": 1}, {"cleared_tool_uses": -4}]}},
        {"message": {"role": "assistant", "context_management": {"applied_edits": 7}}},
    ],
)
def test_an_answer_that_says_nothing_of_use_clears_nothing(response):
    view, state = view_of(reads(3)), ProviderClearing()
    provider_clearing.observe(context_of(view, Policy.buffered(), state), response)
    assert state.cleared == []


def test_the_provider_comes_first_only_where_thinking_is_bound_and_until_it_was_not_enough():
    view = view_of(reads(3))
    bound, free = lookup("claude-opus-5-5"), lookup("claude-opus-4-5")
    assert provider_clearing.comes_first(context_of(view, ON, model=bound))
    assert not provider_clearing.comes_first(context_of(view, ON, model=free))
    assert not provider_clearing.comes_first(context_of(view, Policy.buffered(), model=bound))
    view.add(answered(0, usage={"input_tokens": 190_000, "output_tokens": 1}))
    assert not provider_clearing.comes_first(context_of(view, ON, model=bound))


def test_through_the_manager():
    manager = ContextManager(
        model="claude-opus-5-5",
        policy=ON,
        tools=[{"name": "Ask", "input_schema": {"type": "object"}}],
    )
    for message in reads(4):
        manager.add(message)
    request = manager.prepare()
    assert request.params["context_management"]["edits"][0]["exclude_tools"] == ["Ask"]
    assert request.headers == {"anthropic-beta": "context-management-2025-06-27"}
    assert len(request.messages) == 17
    manager.observe(answered(2, usage={"input_tokens": 1_000, "output_tokens": 5}))
    manager.add({"role": "user", "content": "go on"})
    before = manager.machine.correction
    (report,) = manager.prepare().reports
    assert report.stage == "provider_clearing"
    assert manager.machine.correction == before


# ---- the same for any provider


def test_tool_uses_are_cleared_as_the_api_would_and_accounted_for():
    messages = reads(6)
    before = copy.deepcopy(messages)
    edit = {"type": "clear_tool_uses_20250919", "trigger": {"type": "input_tokens", "value": 1_000}}
    shown, applied = apply_context_management(messages, {"edits": [edit]})
    assert messages == before
    cleared = [m for m in shown if "cleared]" in str(m["content"])]
    assert len(cleared) == 3
    assert applied[0]["type"] == "clear_tool_uses_20250919"
    assert applied[0]["cleared_tool_uses"] == 3
    assert 3 * 480 < applied[0]["cleared_input_tokens"] < 3 * 510
    assert_legal("anthropic", shown, model="claude-opus-4-5")


@pytest.mark.parametrize(
    ("more", "count"),
    [
        ({"trigger": {"type": "input_tokens", "value": 100_000}}, 0),
        ({"trigger": {"type": "tool_uses", "value": 7}}, 0),
        ({"trigger": {"type": "tool_uses", "value": 6}}, 3),
        ({"trigger": {"type": "tool_uses", "value": 1}, "keep": {"type": "tool_uses", "value": 0}}, 6),
        ({"trigger": {"type": "tool_uses", "value": 1}, "exclude_tools": ["Read"]}, 0),
        ({"trigger": {"type": "tool_uses", "value": 1}, "clear_at_least": {"type": "input_tokens", "value": 1_400}}, 3),
        ({"trigger": {"type": "tool_uses", "value": 1}, "clear_at_least": {"type": "input_tokens", "value": 1_600}}, 0),
    ],
)  # fmt: skip
def test_trigger_keep_exclusions_and_the_least(more, count):
    _, applied = apply_context_management(
        reads(6), {"edits": [{"type": "clear_tool_uses_20250919", **more}]}
    )
    assert sum(edit["cleared_tool_uses"] for edit in applied) == count


def test_inputs_are_cleared_where_asked():
    edit = {
        "type": "clear_tool_uses_20250919",
        "trigger": {"type": "tool_uses", "value": 1},
        "clear_tool_inputs": ["Read"],
    }
    shown, _ = apply_context_management(reads(6), {"edits": [edit]})
    assert shown[1]["content"][1]["input"] == {}
    assert shown[-4]["content"][1]["input"] == {"file_path": "/f6"}
    other, _ = apply_context_management(
        reads(6), {"edits": [{**edit, "clear_tool_inputs": ["Bash"]}]}
    )
    assert other[1]["content"][1]["input"] == {"file_path": "/f1"}


def test_thinking_of_older_turns_goes():
    shown, applied = apply_context_management(
        reads(5), {"edits": [{"type": "clear_thinking_20251015"}]}
    )
    thoughts = [m for m in shown if "thought" in str(m["content"])]
    assert len(thoughts) == 1
    assert applied[0]["cleared_thinking_turns"] == 4
    assert applied[0]["cleared_input_tokens"] > 0


def test_the_manager_sends_it_on_or_does_it_itself():
    config = {
        "edits": [
            {"type": "clear_tool_uses_20250919", "trigger": {"type": "tool_uses", "value": 6}}
        ]
    }
    known = ContextManager(model="claude-opus-4-5", context_management=config)
    other = ContextManager(model="gpt-5", context_management=config)
    for message in reads(6):
        known.add(message)
        other.add(message)
    sent = known.prepare()
    assert sent.params["context_management"] == config
    assert sent.applied_edits == []
    done = other.prepare()
    assert "context_management" not in done.params
    assert done.applied_edits[0]["cleared_tool_uses"] == 3
    again = other.prepare()
    assert again.applied_edits == done.applied_edits
    assert again.messages == done.messages
    saved = json.loads(json.dumps(other.save(history=True)))
    assert ContextManager.restore(saved).prepare().messages == done.messages
    (report,) = done.reports
    assert (report.stage, report.tool_use_ids) == ("context_edits", ("t1", "t2", "t3"))
    assert report.freed == done.applied_edits[0]["cleared_input_tokens"]
    assert report.first_changed is None
    # Sticky: two more uses do not reach the trigger again.
    for message in reads(8)[25:]:
        other.add(message)
    assert other.prepare().applied_edits == done.applied_edits


def test_clearing_what_was_sent_says_from_where():
    config = {
        "edits": [
            {"type": "clear_tool_uses_20250919", "trigger": {"type": "tool_uses", "value": 6}}
        ]
    }
    manager = ContextManager(model="gpt-5", context_management=config)
    messages = reads(6)
    for message in messages[:20]:
        manager.add(message)
    assert not manager.prepare().reports
    for message in messages[20:]:
        manager.add(message)
    request = manager.prepare()
    assert request.reports[0].first_changed == request.rewritten_from == 2


def test_a_compaction_of_the_provider_becomes_ours():
    config = {
        "edits": [
            {"type": "compact_20260112", "trigger": {"type": "input_tokens", "value": 60_000}}
        ]
    }
    manager = ContextManager(model="gpt-4o", context_management=config)
    window = manager.model.context_window
    assert manager.policy.auto.start_percent == 100 * 60_000 // window
    bought = ContextManager(
        model="claude-opus-4-5", provider="openai_chat", context_management=config
    )
    assert bought.policy.auto.start_percent == 30
    own = ContextManager(model="claude-opus-4-5", context_management=config)
    assert own.policy.auto.start_percent == 0
    with pytest.raises(InvalidPolicy):
        ContextManager(model="gpt-4o", context_management={"edits": [{"type": "x"}]})


def test_the_list_form_of_openai_is_in_the_request():
    policy = Policy.buffered().change({"micro.provider_compact_tokens": 120_000})
    manager = ContextManager(model="gpt-5", provider="openai_responses", policy=policy)
    manager.add({"role": "user", "content": "hi"})
    request = manager.prepare()
    edit = {"type": "compaction", "compact_threshold": 120_000}
    assert request.params["context_management"] == [edit]
    assert request.headers == {}


# ---- properties

names = st.lists(st.sampled_from(["Read", "Bash", "web_search"]), unique=True)
turns = st.integers(1, 9).map(lambda value: {"type": "thinking_turns", "value": value})


def numbers(kind: str, low: int, high: int) -> st.SearchStrategy[dict]:
    return st.integers(low, high).map(lambda value: {"type": kind, "value": value})


thinking = st.fixed_dictionaries(
    {"type": st.just("clear_thinking_20251015"), "keep": st.just("all") | turns}
)
uses = st.fixed_dictionaries(
    {
        "type": st.just("clear_tool_uses_20250919"),
        "trigger": numbers("input_tokens", 0, 10**6) | numbers("tool_uses", 0, 10**6),
        "keep": numbers("tool_uses", 0, 9),
    },
    optional={
        "clear_at_least": numbers("input_tokens", 1, 10**5),
        "exclude_tools": names,
        "clear_tool_inputs": st.booleans() | names.filter(bool),
    },
)
summary = st.fixed_dictionaries(
    {"type": st.just("compact_20260112"), "trigger": numbers("input_tokens", 50_000, 10**6)}
)
edits = st.tuples(*(st.lists(edit, max_size=1) for edit in (thinking, uses, summary))).map(
    lambda parts: {"edits": [edit for part in parts for edit in part]}
)


@settings(max_examples=40, deadline=None)
@given(edits)
def test_every_setting_is_read(management):
    for edit, asked in zip(read_edits(management), management["edits"], strict=True):
        assert edit.kind == asked["type"]
        keep, trigger = asked.get("keep", "all"), asked.get("trigger", {"value": 0})
        assert edit.keep == (None if keep == "all" else keep["value"])
        assert (edit.trigger, edit.by_uses) == (
            trigger["value"],
            trigger.get("type") == "tool_uses",
        )
        assert edit.at_least == asked.get("clear_at_least", {"value": 0})["value"]
        assert edit.exclude_tools == tuple(asked.get("exclude_tools", ()))
        inputs = asked.get("clear_tool_inputs", False)
        assert edit.inputs == (tuple(inputs) if isinstance(inputs, list) else inputs)


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 5_000), edits)
def test_any_conversation_stays_legal_and_whole(seed, management):
    messages = conversation(seed, tokens=8_000, style="coding")
    shown, applied = apply_context_management(messages, management)
    assert len(shown) == len(messages)
    assert_legal("anthropic", shown, model="claude-opus-4-5")
    if shown == messages:
        assert applied == []

"""What leaves for a provider: translated, repaired, and ready for the user's next message."""

from __future__ import annotations

import copy

import pytest

from tests.kit import user
from tests.oracle.legality import assert_legal
from ullage.exceptions import InvalidPolicy
from ullage.providers import SHAPES
from ullage.providers.anthropic import clean_entries
from ullage.requests.to_request import outgoing, report_of, rules_model

CALL = {"type": "tool_use", "id": "t1", "name": "ls", "input": {"path": "."}}
RESULT = {"type": "tool_result", "tool_use_id": "t1", "content": "a.py"}
NEXT = {
    "gemini": {"role": "user", "parts": [{"text": "go on"}]},
    "bedrock": {"role": "user", "content": [{"text": "go on"}]},
}


def assistant(*blocks):
    return {"role": "assistant", "content": list(blocks) or "hello"}


def legal(sent):
    messages = sent.messages
    if sent.awaits_user:
        messages = [*messages, NEXT.get(sent.provider, user("go on"))]
    more = {key: value for key, value in sent.parts.items() if key == "toolConfig"}
    assert_legal(sent.provider, messages, **more)


@pytest.mark.parametrize("provider", SHAPES)
def test_an_answered_conversation_awaits_the_user_and_gets_no_line_of_ours(provider):
    sent = outgoing([user(), assistant(CALL), user([RESULT]), assistant()], provider=provider)
    assert sent.awaits_user
    assert sent.left == ()
    assert "has not replied" not in str(sent.parts)
    legal(sent)


@pytest.mark.parametrize("provider", SHAPES)
def test_an_interrupted_call_is_answered_and_the_user_is_not_awaited(provider):
    sent = outgoing([user(), assistant(CALL)], provider=provider)
    assert not sent.awaits_user
    assert len(sent.repairs) >= 1
    assert "interrupted before it returned" in str(sent.parts)
    legal(sent)


@pytest.mark.parametrize("provider", SHAPES)
def test_what_another_provider_left_is_not_sent(provider):
    foreign = {"foreign": {"somebody": {"id": "secret-1"}}}
    thought = {"type": "thinking", "thinking": "hm", **foreign}
    only = {"type": "foreign", **foreign}
    messages = [user(), assistant(thought, only, {"type": "text", "text": "hello", **foreign})]
    before = copy.deepcopy(messages)
    sent = outgoing(messages, provider=provider)
    assert "secret-1" not in str(sent.parts)
    assert "foreign" not in str(sent.parts)
    assert sent.losses
    assert messages == before
    legal(sent)


def test_a_legal_conversation_passes_as_the_same_objects():
    messages = [user(), assistant(CALL), user([RESULT])]
    sent = outgoing(messages)
    assert sent.repairs == sent.losses == sent.left == ()
    assert all(new is old for new, old in zip(sent.messages, messages, strict=True))


def test_the_report_is_of_the_log_as_it_stands():
    damaged = [user(), assistant(CALL), user("and?")]
    assert report_of(damaged).rules == {"A05"}
    assert outgoing(damaged).repairs[0].rule == "A05"
    # The model's last word is where a conversation rests, not a fault of it.
    assert report_of([user(), assistant()]).ok


def test_blank_text_is_repaired_in_what_is_sent():
    sent = outgoing([user([{"type": "text", "text": " "}, {"type": "text", "text": "hi"}])])
    assert sent.messages == [user([{"type": "text", "text": "hi"}])]


def test_system_and_tools_go_where_the_provider_wants_them():
    tool = {"name": "ls", "input_schema": {"type": "object"}}
    sent = {
        name: outgoing([user()], provider=name, system="be kind", tools=[tool]).parts
        for name in SHAPES
    }
    assert sent["anthropic"]["system"] == "be kind"
    assert sent["openai_chat"]["messages"][0]["content"] == "be kind"
    assert sent["openai_responses"]["instructions"] == "be kind"
    assert sent["gemini"]["systemInstruction"]["parts"][0]["text"] == "be kind"
    assert sent["bedrock"]["toolConfig"]["tools"][0]["toolSpec"]["name"] == "ls"
    assert sent["mistral"]["tools"][0]["function"]["name"] == "ls"


def test_a_model_of_another_vendor_does_not_decide_the_rules():
    assert rules_model("gpt-5.2", "anthropic") is None
    assert rules_model("claude-opus-4-5", "anthropic") == "claude-opus-4-5"
    assert rules_model("claude-opus-4-5", "openai_chat") is None
    assert rules_model("nobody-knows", "anthropic") is None
    assert rules_model(None, "gemini") is None


def test_an_unknown_provider_is_named():
    with pytest.raises(InvalidPolicy, match="provider: must be one of"):
        outgoing([user()], provider="nobody")
    with pytest.raises(InvalidPolicy, match="provider: must be one of"):
        outgoing([user()], provider="deepseek")


def test_entries_for_a_claude_code_file_keep_their_envelope_and_usage():
    message = {**assistant({"type": "text", "text": "x", "foreign": {"a": {}}}), "usage": {"n": 1}}
    entries = [
        {"type": "user", "uuid": "u", "message": user()},
        {"type": "assistant", "uuid": "a", "message": message},
        {
            "type": "assistant",
            "uuid": "b",
            "message": assistant({"type": "foreign", "foreign": {"a": {}}}),
        },
        {"type": "system", "subtype": "compact_boundary", "uuid": "c"},
    ]
    kept, losses = clean_entries(entries)
    assert [entry["uuid"] for entry in kept] == ["u", "a", "c"]
    assert kept[0] is entries[0]
    assert kept[1]["message"] == {
        **assistant({"type": "text", "text": "x"}),
        "usage": {"n": 1},
    }
    assert len(losses) == 2

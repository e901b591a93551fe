"""Names of a request's parameters: a misspelled one is an error, never a rule that was silently not applied."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

import ullage
from ullage.exceptions import InvalidPolicy
from ullage.legality import validate
from ullage.legality.incremental import Repairer
from ullage.legality.params import RequestParameters
from ullage.legality.repairs import repair

TALK = [{"role": "user", "content": "hi"}]
CALLS = {
    "validate": lambda **named: validate(TALK, **named),
    "ullage.validate": lambda **named: ullage.validate(TALK, **named),
    "outgoing": lambda **named: ullage.outgoing(TALK, **named),
    "repair": lambda **named: repair(TALK, **named),
    "Repairer": lambda **named: Repairer(**named),
}
PROVIDERS = ("anthropic", "openai_chat", "openai_responses", "gemini", "bedrock", "mistral")


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize(
    ("wrong", "meant"),
    [("modell", "model"), ("temprature", "temperature"), ("sytem", "system"), ("max_token", "max_tokens"), ("thinkng", "thinking"),
     ("Tools", "tools"), ("provder", "provider")],
)  # fmt: skip
def test_a_misspelled_name_is_refused_with_the_nearest(call, wrong, meant):
    with pytest.raises(InvalidPolicy) as caught:
        CALLS[call](**{wrong: "gpt"})
    assert caught.value.field == wrong
    assert meant in caught.value.hint


@pytest.mark.parametrize("call", CALLS)
@given(name=st.text("abcdefghijklmnop_", min_size=1, max_size=12).filter(str.isidentifier))
def test_no_unknown_name_is_taken(call, name):
    known = RequestParameters.__optional_keys__
    if name not in known and name not in ("facts", "skip", "model", "params"):
        with pytest.raises(InvalidPolicy) as caught:
            CALLS[call](**{name: 1})
        assert caught.value.hint


@pytest.mark.parametrize("provider", PROVIDERS)
def test_known_parameters_and_new_ones_by_mapping_pass(provider):
    body = {
        "max_tokens": 100,
        "stream": True,
        "metadata": {"user_id": "x"},
        "stop_sequences": ["x"],
    }
    new = {"learned_last_week": 1}
    sent = ullage.outgoing(TALK, provider=provider).messages
    assert validate(sent, provider=provider, params=new, **body).ok
    assert repair(sent, provider=provider, params=new, **body).ok
    assert ullage.outgoing(TALK, provider=provider, params=new, **body).left == ()


def test_a_parameter_is_read_whichever_way_it_is_given():
    edits = {"edits": [{"type": "clear_thinking_20251015"}] * 2}
    by_name = validate(TALK, context_management=edits)
    by_mapping = validate(TALK, params={"context_management": edits})
    assert by_name == by_mapping
    assert "A26" in by_name.rules
    forced = {"toolConfig": {"tools": []}}
    assert validate([], provider="bedrock", **forced) == validate([], provider="bedrock", params=forced)  # fmt: skip

"""`ullage.dropin.litellm` next to litellm."""

from __future__ import annotations

import copy
import warnings

import pytest
from hypothesis import given, settings, strategies as st

from ullage.dropin import litellm as ours

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    theirs = pytest.importorskip("litellm.utils")

pytestmark = pytest.mark.filterwarnings("ignore")
MODELS = st.sampled_from(
    ["gpt-4o", "gpt-4o-mini", "gpt-4", "gpt-3.5-turbo", "gpt-3.5-turbo-0301", "gpt-4.1", "o3", "", "no-such-model"]
)  # fmt: skip
# litellm adds up counts of pieces of 1,024 characters; what is longer differs by a few tokens.
WORDS = st.text("abc XY\né日<|", max_size=80)
LONGER = st.tuples(WORDS, st.integers(1, 9)).map(lambda pair: (pair[0] * pair[1])[:1000])
CALL = st.tuples(st.integers(0, 9), WORDS).map(
    lambda pair: {
        "id": f"call_{pair[0]}",
        "type": "function",
        "function": {"name": "look", "arguments": pair[1]},
    }
)
BLOCKS = st.lists(
    st.one_of(
        WORDS.map(lambda text: {"type": "text", "text": text}),
        st.sampled_from(["low", "auto"]).map(
            lambda detail: {"type": "image_url", "image_url": {"url": "https://x/y.png", "detail": detail}}
        ),
        WORDS.map(lambda text: {"type": "thinking", "thinking": text, "signature": "abc"}),
        WORDS.map(lambda text: {"type": "tool_use", "id": "t", "name": "look", "input": {"a": text}}),
        WORDS.map(lambda text: {"type": "tool_result", "tool_use_id": "t", "content": text}),
        WORDS.map(lambda text: {"type": "tool_result", "tool_use_id": "t", "content": [{"type": "text", "text": text}]}),
    ),
    max_size=3,
)  # fmt: skip
MESSAGES = st.lists(
    st.fixed_dictionaries(
        {
            "role": st.sampled_from(["user", "assistant", "system"]),
            "content": st.one_of(st.none(), WORDS, BLOCKS),
        },
        optional={"name": st.just("ann"), "tool_calls": st.lists(CALL, min_size=1, max_size=2)},
    ),
    min_size=1,
    max_size=4,
)
SCHEMA = {
    "type": "object",
    "properties": {
        "path": {"type": "string", "description": "Where."},
        "mode": {"type": "string", "enum": ["r", "w"]},
        "lines": {"type": "array", "items": {"type": "integer"}},
        "deep": {"type": "object", "properties": {"x": {"type": "boolean"}, "y": {}}},
        "level": {"type": "integer", "enum": [1, 2]},
    },
    "required": ["path"],
}
TOOLS = [
    {"type": "function", "function": {"name": "look", "description": "Look.", "parameters": SCHEMA}},
    {"type": "function", "function": {"name": "stop"}},
    {"name": "of_anthropic", "input_schema": SCHEMA},
]  # fmt: skip


@given(model=MODELS, text=st.one_of(LONGER, st.lists(WORDS, max_size=3)))
@settings(max_examples=60, deadline=None)
def test_counts_of_text(model, text):
    assert ours.token_counter(model, text=text) == theirs.token_counter(model, text=text)


@given(
    model=MODELS,
    messages=MESSAGES,
    tools=st.sampled_from([None, TOOLS[:1], TOOLS]),
    choice=st.sampled_from([None, "auto", "none", {"type": "function", "function": {"name": "look"}}]),
    response=st.booleans(),
    image=st.booleans(),
)  # fmt: skip
@settings(max_examples=120, deadline=None)
def test_counts_of_messages(model, messages, tools, choice, response, image):
    options = {
        "messages": messages,
        "tools": tools,
        "tool_choice": choice,
        "count_response_tokens": response,
        "use_default_image_token_count": image,
    }
    assert ours.token_counter(model, **options) == theirs.token_counter(model, **options)


def test_wrong_arguments_are_value_errors_in_both():
    bad = [{"role": "user", "content": [{"type": "no_such"}]}]
    for options in ({}, {"text": "a", "messages": []}, {"text": "a", "tools": TOOLS}, {"messages": bad}):  # fmt: skip
        for module in (ours, theirs):
            with pytest.raises(ValueError):
                module.token_counter("gpt-4o", **options)
    for module in (ours, theirs):
        assert module.token_counter("gpt-4o", messages=bad, default_token_count=7) == 14


def test_a_model_without_public_vocabulary_is_estimated():
    text = "The cask is filled to the ullage line. " * 20
    estimate = ours.token_counter("claude-opus-4-5", text=text)
    assert estimate != theirs.token_counter("gpt-3.5-turbo", text=text)
    assert 100 < estimate < 400


@st.composite
def talks(draw: st.DrawFn) -> list[dict[str, str]]:
    system = draw(st.lists(WORDS.filter(str.strip), max_size=1))
    said = draw(st.lists(LONGER, max_size=6))
    talk = [{"role": "system", "content": each} for each in system]
    return talk + [
        {"role": ("user", "assistant")[at % 2], "content": text} for at, text in enumerate(said)
    ]


@given(model=st.sampled_from(["gpt-4o", "gpt-4", "no-such-model"]), talk=talks(), most=st.integers(60, 900))  # fmt: skip
@settings(max_examples=150, deadline=None)
def test_without_tools_the_same_is_kept(model, talk, most):
    before = copy.deepcopy(talk)
    assert ours.trim_messages(talk, model, max_tokens=most) == theirs.trim_messages(
        talk, model, max_tokens=most
    )
    assert talk == before


def paired(messages: list[dict[str, object]]) -> bool:
    open_calls: set[str] = set()
    for message in messages:
        if message["role"] == "tool":
            if message["tool_call_id"] not in open_calls:
                return False
            open_calls.discard(message["tool_call_id"])
        else:
            if open_calls:
                return False
            open_calls = {call["id"] for call in message.get("tool_calls", ())}
    return not open_calls


@st.composite
def tool_talks(draw: st.DrawFn) -> list[dict[str, object]]:
    talk: list[dict[str, object]] = []
    for number in range(draw(st.integers(1, 5))):
        talk.append({"role": "user", "content": draw(LONGER)})
        ids = [f"call_{number}_{at}" for at in range(draw(st.integers(0, 2)))]
        if ids:
            calls = [{"id": i, "type": "function", "function": {"name": "look", "arguments": "{}"}} for i in ids]  # fmt: skip
            talk.append({"role": "assistant", "content": None, "tool_calls": calls})
            talk += [{"role": "tool", "tool_call_id": i, "content": draw(LONGER)} for i in ids]
        if draw(st.booleans()):
            talk.append({"role": "assistant", "content": draw(WORDS)})
    return talk


@given(talk=tool_talks(), most=st.integers(30, 600))
@settings(max_examples=150, deadline=None)
def test_with_tools_no_half_of_a_pair_is_left(talk, most):
    kept = ours.trim_messages(talk, "gpt-4o", max_tokens=most)
    assert paired(kept)
    if talk[-1]["role"] != "tool":
        assert ours.token_counter("gpt-4o", messages=kept) <= most


def test_litellm_leaves_a_result_without_its_call():
    # What the page says of litellm, on its own words.
    look = {"name": "look", "arguments": '{"path": "' + "word " * 200 + '"}'}
    call = {"id": "c", "type": "function", "function": look}
    talk = [
        {"role": "user", "content": "word " * 200},
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c", "content": "found"},
        {"role": "user", "content": "and now?"},
    ]
    assert not paired(theirs.trim_messages(talk, "gpt-4o", max_tokens=40))
    kept = ours.trim_messages(talk, "gpt-4o", max_tokens=40)
    assert paired(kept)
    assert kept[-1] == talk[-1]


def test_what_is_left_for_the_response_is_always_returned():
    talk = [{"role": "user", "content": "hello"}]
    kept, left = ours.trim_messages(talk, "gpt-4o", return_response_tokens=True, max_tokens=100)
    assert kept == talk
    assert left == 100 - ours.token_counter("gpt-4o", messages=talk)


def test_the_window_of_the_model():
    talk = [{"role": "user", "content": "word " * 9000}]
    assert ours.trim_messages(talk, "no-such-model") == talk
    kept = ours.trim_messages(talk, "gpt-4")
    assert ours.token_counter("gpt-4", messages=kept) <= 8192 * 0.75


def test_the_librarys_own_objects_stay_objects():
    from litellm.types.utils import Message

    talk = [{"role": "user", "content": "What is it?"}, Message(role="assistant", content="Wine.")]
    kept = ours.utils.trim_messages(talk, "gpt-4o", max_tokens=999)
    assert kept == talk == theirs.trim_messages(talk, "gpt-4o", max_tokens=999)
    assert kept[1] is not talk[1]
    assert ours.utils.trim_messages(talk, "gpt-4o", max_tokens=14) == talk[1:]

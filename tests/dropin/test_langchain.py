"""`ullage.dropin.langchain` next to langchain-core."""

from __future__ import annotations

import pytest
from hypothesis import given, settings, strategies as st

from ullage.dropin import langchain as ours

theirs = pytest.importorskip("langchain_core.messages")
from langchain_core.messages import (  # noqa: E402
    AIMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)
from langchain_core.messages.utils import count_tokens_approximately, trim_messages  # noqa: E402

WORDS = st.text("ab \né", max_size=60)
BLOCKS = st.lists(
    st.one_of(
        WORDS,
        WORDS.map(lambda text: {"type": "text", "text": text}),
        st.just({"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}),
        WORDS.map(lambda text: {"type": "other", "data": text}),
    ),
    min_size=1,
    max_size=3,
)
CONTENT = st.one_of(WORDS, BLOCKS)
NAMES = st.one_of(st.none(), st.just("ann"))


def call(number: int, text: str = "x"):
    return {"name": "look", "args": {"path": text}, "id": f"call_{number}", "type": "tool_call"}


@st.composite
def talks(draw: st.DrawFn, *, tools: bool = True) -> list[object]:
    messages: list[object] = []
    if draw(st.booleans()):
        messages.append(SystemMessage(draw(WORDS)))
    for number in range(draw(st.integers(0, 5))):
        messages.append(HumanMessage(draw(CONTENT), name=draw(NAMES)))
        if tools and draw(st.booleans()):
            calls = [call(10 * number + at, draw(WORDS)) for at in range(draw(st.integers(1, 2)))]
            messages.append(AIMessage(draw(WORDS), tool_calls=calls))
            messages += [ToolMessage(draw(WORDS), tool_call_id=each["id"]) for each in calls]
        if draw(st.booleans()):
            usage = {
                "input_tokens": 9,
                "output_tokens": 1,
                "total_tokens": draw(st.integers(1, 90)),
            }
            vendor = {"model_provider": draw(st.sampled_from(["openai", "google"]))}
            messages.append(
                AIMessage(draw(CONTENT), usage_metadata=usage, response_metadata=vendor)
            )
    return messages


@given(
    talk=talks(),
    chars=st.sampled_from([4.0, 3.3, 1.0]),
    extra=st.sampled_from([3.0, 0.0, 2.5]),
    count_name=st.booleans(),
    scaled=st.booleans(),
)
@settings(max_examples=60, deadline=None)
def test_counts_of_messages(talk, chars, extra, count_name, scaled):
    options = {
        "chars_per_token": chars,
        "extra_tokens_per_message": extra,
        "count_name": count_name,
        "use_usage_metadata_scaling": scaled,
        "tools": [{"name": "look", "parameters": {"type": "object"}}],
    }
    assert ours.count_tokens_approximately(talk, **options) == count_tokens_approximately(
        talk, **options
    )


@given(talk=talks())
@settings(max_examples=60, deadline=None)
def test_counts_of_dicts(talk):
    dicts = theirs.convert_to_openai_messages(talk)
    assert ours.count_tokens_approximately(dicts) == count_tokens_approximately(dicts)


def test_counts_of_other_forms():
    from langchain_core.prompt_values import ChatPromptValue
    from langchain_core.tools import tool

    @tool
    def look(path: str, deep: bool = False) -> str:
        """Look at a path."""
        return path

    for given_ in (
        ["hello", ("ai", "there"), ("system", "be brief"), {"type": "human", "content": None}],
        ChatPromptValue(messages=[HumanMessage("hello")]),
        [theirs.AIMessageChunk("hel"), theirs.HumanMessageChunk("lo")],
        [theirs.ChatMessage(role="critic", content="no"), {"role": "developer", "content": "x"}],
    ):
        assert ours.count_tokens_approximately(given_, tools=[look]) == count_tokens_approximately(
            given_, tools=[look]
        )
    with pytest.raises(ValueError, match="message 0"):
        ours.count_tokens_approximately([{"content": "no role"}])


def arguments(draw: st.DrawFn) -> dict[str, object]:
    strategy = draw(st.sampled_from(["first", "last"]))
    kinds = st.sampled_from([None, "human", "ai", ["human", "tool"], HumanMessage, (AIMessage, "human")])  # fmt: skip
    options: dict[str, object] = {
        "max_tokens": draw(st.integers(0, 90)),
        "token_counter": "approximate",
        "strategy": strategy,
        "allow_partial": draw(st.booleans()),
        "end_on": draw(kinds),
    }
    if draw(st.booleans()):
        options |= {"token_counter": len, "max_tokens": draw(st.integers(0, 8))}
    if strategy == "last":
        options |= {"include_system": draw(st.booleans()), "start_on": draw(kinds)}
    return options


OPTIONS = st.composite(arguments)()


@given(talk=talks(tools=False), options=OPTIONS)
@settings(max_examples=150, deadline=None)
def test_without_tools_the_same_is_kept(talk, options):
    assert ours.trim_messages(talk, **options) == trim_messages(talk, **options)


def orphans(messages: list[object]) -> set[str]:
    calls = {each["id"] for message in messages for each in getattr(message, "tool_calls", ())}
    results = {m.tool_call_id for m in messages if isinstance(m, ToolMessage)}
    return calls ^ results


@given(talk=talks(), options=OPTIONS)
@settings(max_examples=200, deadline=None)
def test_with_tools_no_half_of_a_pair_is_left(talk, options):
    peer = trim_messages(talk, **options)
    mine = ours.trim_messages(talk, **options)
    assert orphans(mine) == set()
    if not orphans(peer):
        assert mine == peer
    counts = ours.count_tokens_approximately if options["token_counter"] != len else len
    if not options.get("include_system"):
        assert counts(mine) <= options["max_tokens"]
    # Nothing is kept that LangChain does not keep.
    assert all(each in peer for each in mine)


def test_a_function_of_one_message_and_a_splitter():
    def one(message: theirs.BaseMessage) -> int:
        return len(message.content)

    # As it is where annotations are not postponed.
    one.__annotations__["message"] = theirs.BaseMessage
    talk = [HumanMessage("a b c"), AIMessage("d e f g")]
    for each in (ours.trim_messages, trim_messages):
        kept = each(talk, max_tokens=9, token_counter=one, allow_partial=True, text_splitter=list)
        assert [m.content for m in kept] == [" c", "d e f g"]


def test_inputs_stay_as_they_are_and_objects_are_kept():
    talk = [HumanMessage("one"), AIMessage("two"), HumanMessage("three")]
    kept = ours.trim_messages(talk, max_tokens=2, token_counter=len)
    assert [id(each) for each in kept] == [id(each) for each in talk[1:]]
    assert len(talk) == 3


@pytest.mark.parametrize(
    "options",
    [
        {"strategy": "first", "start_on": "human"},
        {"strategy": "first", "include_system": True},
        {"strategy": "middle"},
        {"token_counter": "exact"},
        {"token_counter": 7},
    ],
)
def test_wrong_arguments_are_value_errors_in_both(options):
    for each in (ours.trim_messages, trim_messages):
        with pytest.raises(ValueError):
            each([HumanMessage("a")], **{"max_tokens": 5, "token_counter": len, **options})


def test_without_messages_it_is_a_runnable_for_chains():
    talk = [HumanMessage("one two three"), AIMessage("four"), HumanMessage("five")]
    about = {"max_tokens": 2, "token_counter": len, "strategy": "last"}
    chain = ours.trim_messages(**about) | (lambda kept: [each.content for each in kept])
    assert chain.invoke(talk) == ["four", "five"]
    assert (trim_messages(**about) | (lambda kept: [each.content for each in kept])).invoke(talk) == ["four", "five"]  # fmt: skip

"""Summarizers that call models, without a network: names, limits, what a plain call holds."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from ullage.compaction import compact
from ullage.compaction.summary_call import plain_messages
from ullage.exceptions import InvalidPolicy, MissingExtra
from ullage.facts.sections import HEADINGS
from ullage.summarizers import SummaryRequest, summarizer_of
from ullage.summarizers.protocol import Stopped, Watch, is_async, used_tools
from ullage.summarizers.streams import PrefixLost, extended

NINE = "\n\n".join(
    f"## {n}. {title}\nSomething of {title.lower()}." for n, title in enumerate(HEADINGS, 1)
)


# ---- names and keys --------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["", "claude", "anthropic:", "anthropic", "extractive:x", "azure:x"]
)
def test_a_name_that_is_none_is_refused(name):
    with pytest.raises(InvalidPolicy, match="summarizer"):
        summarizer_of(name)


def test_a_base_url_means_nothing_without_a_server():
    with pytest.raises(InvalidPolicy, match="base_url"):
        summarizer_of("extractive", base_url="http://127.0.0.1:1")


@pytest.mark.parametrize(("kind", "package"), [("anthropic", "anthropic"), ("openai", "openai")])
def test_a_missing_package_is_named_with_its_extra(monkeypatch, kind, package):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingExtra) as caught:
        summarizer_of(f"{kind}:m", api_key="k")
    assert caught.value.extra == kind
    assert caught.value.hint == f"pip install 'ullage[{kind}]'"


def test_a_line_is_enough_for_compact(monkeypatch):
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    monkeypatch.delenv("ANTHROPIC_AUTH_TOKEN", raising=False)
    with pytest.raises(InvalidPolicy, match="ANTHROPIC_API_KEY"):
        compact([{"role": "user", "content": "hi"}], summarizer="anthropic:claude-haiku-4-5")


def test_limits_come_from_the_model_table():
    pytest.importorskip("anthropic")
    known = summarizer_of("anthropic:claude-haiku-4-5", api_key="k")
    assert (known.window_tokens, known.max_output_tokens) == (200_000, 64_000)
    unknown = summarizer_of("anthropic:my-own-model", api_key="k")
    assert (unknown.window_tokens, unknown.max_output_tokens) == (None, None)


# ---- what a plain call holds -----------------------------------------------------------------


def test_messages_that_any_api_takes_are_the_same_objects():
    messages = [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": [{"type": "text", "text": "hello"}]},
    ]
    assert all(a is b for a, b in zip(plain_messages(messages), messages, strict=True))


def test_reasoning_markers_and_server_blocks_do_not_go_along():
    text = {"type": "text", "text": "hello", "cache_control": {"type": "ephemeral"}}
    thinking = {"type": "thinking", "thinking": "hm", "signature": "s"}
    search = {"type": "server_tool_use", "id": "srv", "name": "web_search", "input": {"q": "x"}}
    folded = {"type": "compaction", "content": "earlier", "signature": "s"}
    messages = [
        {"role": "assistant", "content": [thinking, text, search]},
        {"role": "assistant", "content": [thinking]},
        {"role": "assistant", "content": [folded]},
        {"role": "user", "content": [{"type": "image", "source": {}}]},
    ]
    first, second, third = plain_messages(messages)
    assert first["content"][0] == {"type": "text", "text": "hello"}
    assert first["content"][1]["text"].startswith("[server_tool_use: ")
    assert second["content"] == [{"type": "text", "text": "earlier"}]
    assert third["content"] == [{"type": "text", "text": "[image]"}]


def test_used_tools_are_named_once_in_order():
    call = {"type": "tool_use", "id": "t", "input": {}}
    messages = [{"role": "assistant", "content": [{**call, "name": n} for n in ("b", "a", "b")]}]
    assert [tool["name"] for tool in used_tools(messages)] == ["a", "b"]


def test_the_plain_call_of_chat_messages_is_translated():
    pytest.importorskip("anthropic")
    call = {"id": "c1", "type": "function", "function": {"name": "ls", "arguments": "{}"}}
    chat = [
        {"role": "user", "content": "list"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "a.py"},
    ]
    writer = summarizer_of("anthropic:claude-haiku-4-5", api_key="k")
    body = writer.body(SummaryRequest(messages=chat, prompt="Go.", system="S"))
    assert [m["role"] for m in body["messages"]] == ["user", "assistant", "user", "user"]
    assert body["messages"][1]["content"][0]["type"] == "tool_use"
    assert body["tool_choice"] == {"type": "none"}
    assert "thinking" not in body


def test_a_server_of_ones_own_gets_the_words_that_it_knows():
    pytest.importorskip("openai")
    own = summarizer_of("openai:m", base_url="http://127.0.0.1:1/v1")
    body = own.body(SummaryRequest(messages=[], prompt="Go.", system="S", max_output_tokens=7))
    assert body["max_tokens"] == 7
    assert "stream_options" not in body
    theirs = summarizer_of("openai:gpt-5", api_key="k")
    body = theirs.body(SummaryRequest(messages=[], prompt="Go.", system="S", max_output_tokens=7))
    assert body["max_completion_tokens"] == 7


# ---- the prefix ------------------------------------------------------------------------------


def said(*texts: str) -> list[dict[str, Any]]:
    return [{"role": "user", "content": text} for text in texts]


def test_what_was_sent_stays_the_same_objects():
    marked = {"type": "text", "text": "b", "cache_control": {"type": "ephemeral"}}
    sent = [*said("a"), {"role": "user", "content": [marked]}]
    out = extended(sent, [lambda: said("a", "b", "c")], {"role": "user", "content": "prompt"})
    assert [id(m) for m in out[:2]] == [id(m) for m in sent]
    assert [m["content"] for m in out[2:]] == ["c", "prompt"]


@pytest.mark.parametrize("ours", [said("a"), said("x", "b"), []])
def test_another_beginning_is_no_prefix(ours):
    with pytest.raises(PrefixLost):
        extended(said("a", "b"), [lambda: ours], {"role": "user", "content": "prompt"})


# ---- the watch -------------------------------------------------------------------------------


def test_a_stall_counts_from_the_last_token_and_only_in_a_stream():
    now = [0.0]
    watch = Watch(clock=lambda: now[0])
    now[0] = 100
    assert watch.late(None, 60) == ""
    watch.begin()
    now[0] = 159
    assert watch.late(None, 60) == ""
    watch.token("x")
    now[0] = 218
    assert watch.late(None, 60) == ""
    now[0] = 219
    assert watch.late(None, 60) == "no token for 60 s"
    assert watch.late(200, None) == "no answer within 200 s"


def test_a_stopped_watch_ends_the_stream_and_reports_nothing_more():
    closed, told = [], []
    watch = Watch(told.append)
    watch.begin(lambda: closed.append(True))
    watch.token("x" * 600)
    watch.stop()
    assert (closed, told) == ([True], [600])
    with pytest.raises(Stopped):
        watch.token("y" * 600)
    assert told == [600]
    assert repr(watch) == "Watch(stopped, 600 characters)"


# ---- pydantic-ai -----------------------------------------------------------------------------


def any_writer(function: Any) -> Any:
    pytest.importorskip("pydantic_ai")
    from pydantic_ai.models.function import FunctionModel

    from ullage.summarizers import AnySummarizer

    return AnySummarizer(FunctionModel(stream_function=function))


CALL = {"type": "tool_use", "id": "t1", "name": "ls", "input": {"path": "."}}
TALK = [
    {"role": "user", "content": "list the files"},
    {"role": "assistant", "content": [{"type": "text", "text": "I look."}, CALL]},
    {
        "role": "user",
        "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "a.py " * 4_000}],
    },
    {"role": "assistant", "content": [{"type": "text", "text": "There is a.py."}]},
]


def test_any_provider_through_pydantic_ai():
    seen: list[Any] = []

    async def answer(messages: Any, info: Any) -> Any:
        seen.append((messages, info))
        for line in NINE.splitlines(keepends=True):
            yield line

    result = compact(TALK, summarizer=any_writer(answer), keep=0)
    assert "## 9. " in result.summary_messages[0]["content"]
    parts = [part.part_kind for message in seen[0][0] for part in message.parts]
    ours = ["user-prompt", "text", "tool-call", "tool-return", "text", "user-prompt"]
    assert parts == ["system-prompt", *ours]
    assert seen[0][0][3].parts[0].tool_name == "ls"
    assert seen[0][1].model_settings["max_tokens"] > 0


def test_any_provider_that_breaks_is_an_api_error():
    from ullage.exceptions import CompactionError
    from ullage.policy import Policy

    async def answer(messages: Any, info: Any) -> Any:
        raise ConnectionError("gone")
        yield ""

    policy = Policy().change({"summary.retries": 0})
    with pytest.raises(CompactionError, match="gone") as caught:
        compact(TALK, summarizer=any_writer(answer), keep=0, policy=policy)
    assert caught.value.code == "api_error"


@pytest.mark.parametrize(
    ("forms", "in_loop", "said", "awaited"),
    [
        (("summarize",), True, None, False),
        (("asummarize",), False, None, True),
        (("asummarize",), False, False, True),
        (("summarize", "asummarize"), False, None, False),
        (("summarize", "asummarize"), True, None, True),
        (("summarize", "asummarize"), False, True, True),
        (("summarize", "asummarize"), True, False, False),
        ((), True, None, False),
    ],
)
def test_one_answer_to_whether_a_summarizer_is_awaited(forms, in_loop, said, awaited):
    of_object = dict.fromkeys(forms, lambda self, request: "")
    writer = type("Writer", (), {**of_object, **({} if said is None else {"is_async": said})})()
    assert is_async(writer, in_loop=in_loop) is awaited

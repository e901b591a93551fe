"""Counts of whole requests: parts, bytes, images, budgets; exact counts; the remote endpoint and what it falls back on."""

from __future__ import annotations

import asyncio
import itertools
import json
import struct
import threading
import zlib
from base64 import b64encode

import orjson
import pytest
from hypothesis import given, settings, strategies as st

import ullage
from ullage.counting.exact import count_tokens_exact
from ullage.exceptions import InvalidMessage, InvalidPolicy
from ullage.requests import RemoteCounter, count_request
from ullage.testing import scenario

pytestmark = pytest.mark.both_engines

MADE = scenario(3, tokens=9_000)
ASK = [{"role": "user", "content": "hello"}]


def png(width: int, height: int) -> str:
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    chunk = struct.pack(">I", len(head)) + b"IHDR" + head
    return b64encode(
        b"\x89PNG\r\n\x1a\n" + chunk + struct.pack(">I", zlib.crc32(b"IHDR" + head))
    ).decode()


def image(width: int, height: int) -> dict:
    source = {"type": "base64", "media_type": "image/png", "data": png(width, height)}
    return {"type": "image", "source": source}


# ---- the whole request -------------------------------------------------------------------------


def test_the_parts_are_the_whole():
    count = count_request(
        MADE.messages, model="claude-opus-4-5", system=MADE.system, tools=MADE.tools, pending=ASK
    )
    bare = [{k: v for k, v in m.items() if k not in ("usage",)} for m in MADE.messages]
    free = count_request(
        bare, model="claude-opus-4-5", system=MADE.system, tools=MADE.tools, pending=ASK
    )
    assert free.basis == "estimate"
    parts = (free.system_tokens, free.tool_tokens, free.message_tokens, free.pending_tokens)
    assert all(parts)
    assert free.tokens == sum(parts)
    assert free.message_tokens == ullage.estimate_tokens(bare, model="claude-opus-4-5")
    assert count.message_tokens == free.message_tokens
    assert free.fits


def test_reported_usage_stands_for_all_that_was_sent():
    usage = {"input_tokens": 50_000, "output_tokens": 10}
    talk = [*ASK, {"role": "assistant", "id": "m1", "content": "hi", "usage": usage}]
    count = count_request(talk, model="claude-opus-4-5", system="x" * 10_000, pending=ASK)
    assert count.basis == "usage"
    assert count.tokens == 50_010 + count.pending_tokens


def test_bytes_are_those_of_the_body():
    count = count_request(ASK, system="Be brief.", tools=[{"name": "Read"}])
    body = {"system": "Be brief.", "tools": [{"name": "Read"}], "messages": ASK}
    assert count.bytes == len(orjson.dumps(body))


def test_a_lone_surrogate_is_counted_as_it_would_be_sent():
    talk = [{"role": "user", "content": "a\ud800b"}]
    assert count_request(talk).bytes == len(json.dumps({"messages": talk}, separators=(",", ":")))


def test_budgets_name_value_and_limit():
    talk = [{"role": "user", "content": "word " * 300_000}]
    count = count_request(talk, model="claude-opus-4-5")
    assert not count.fits
    assert [(each.what, each.limit) for each in count.over] == [("tokens", 200_000)]
    assert str(count.over[0]) == f"tokens: {count.tokens:,} of 200,000"


def test_the_body_has_a_limit_of_its_own():
    data = {"type": "base64", "media_type": "application/pdf", "data": "A" * 33_000_000}
    talk = [{"role": "user", "content": [{"type": "document", "source": data}]}]
    count = count_request(talk, model="claude-opus-4-5")
    assert ("bytes", 32_000_000) in [(each.what, each.limit) for each in count.over]


def test_images_are_counted_wherever_they_are():
    result = {"type": "tool_result", "tool_use_id": "t1", "content": [image(300, 400)]}
    call = {"type": "tool_use", "id": "t1", "name": "Read", "input": {}}
    talk = [
        {"role": "user", "content": [image(100, 50)]},
        {"role": "assistant", "content": [call]},
        {"role": "user", "content": [result]},
    ]
    count = count_request(talk, model="claude-opus-4-5")
    assert (count.images, count.largest_edge_px) == (2, 400)


def test_an_openai_image_is_an_image():
    url = {"url": f"data:image/png;base64,{png(64, 900)}"}
    talk = [{"role": "user", "content": [{"type": "image_url", "image_url": url}]}]
    count = count_request(talk, model="gpt-5")
    assert (count.images, count.largest_edge_px) == (1, 900)


@pytest.mark.parametrize(
    ("images", "edge", "over"), [(20, 2500, False), (21, 2500, True), (1, 8001, True)]
)
def test_many_images_must_be_small(images, edge, over):
    talk = [{"role": "user", "content": [image(edge, 10)] * images}]
    count = count_request(talk, model="claude-opus-4-5")
    assert ("image edge in pixels" in [each.what for each in count.over]) is over


def test_a_bad_message_names_its_place():
    with pytest.raises(InvalidMessage) as caught:
        count_request([*ASK, {"role": "wizard", "content": ""}])
    assert caught.value.index == 1


# ---- exact -------------------------------------------------------------------------------------


def test_exact_counts_follow_the_cookbook():
    talk = [
        {"role": "system", "content": "You are a helpful assistant."},
        {"role": "user", "name": "ada", "content": "Hello there"},
    ]
    texts = ["system", talk[0]["content"], "user", "ada", talk[1]["content"]]
    framed = 3 * 2 + 1 + 3
    count = count_request(talk, model="gpt-4o", exact=True)
    assert count.basis == "exact"
    assert count.tokens == framed + sum(count_tokens_exact(text) for text in texts)


def test_exact_counts_calls_results_and_thinking():
    arguments = {"path": "src/app.py"}
    talk = [
        {"role": "assistant", "content": [
            {"type": "thinking", "thinking": "let me look"},
            {"type": "tool_use", "id": "t", "name": "Read", "input": arguments},
        ]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": [{"type": "text", "text": "x = 1"}]}]},
    ]  # fmt: skip
    texts = ["assistant", "let me look", "Read", orjson.dumps(arguments).decode(), "user", "x = 1"]
    expected = 3 * 2 + 3 + sum(count_tokens_exact(text) for text in texts)
    assert count_request(talk, model="gpt-4o", exact=True).tokens == expected


def test_exact_needs_a_public_vocabulary():
    with pytest.raises(InvalidPolicy, match="claude"):
        count_request(ASK, model="claude-opus-4-5", exact=True)


# ---- the endpoint ------------------------------------------------------------------------------


class Clock:
    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


def test_a_request_is_asked_for_once():
    seen = []
    counter = RemoteCounter(lambda body: seen.append(body) or 77, model="claude-opus-4-5")
    first, second = (counter.count(ASK, system="Be brief.") for _ in range(2))
    assert (first.tokens, first.source, second.tokens, second.source) == (77, "remote", 77, "cache")
    assert seen == [{"model": "claude-opus-4-5", "messages": ASK, "system": "Be brief."}]
    assert counter.count(ASK, system="Be long.").source == "remote"


def test_the_cache_forgets_the_oldest():
    counter = RemoteCounter(lambda body: 1, model="claude-opus-4-5", cache_size=2)
    talks = [[{"role": "user", "content": str(n)}] for n in range(3)]
    for talk in talks:
        counter.count(talk)
    assert [counter.count(talk).source for talk in reversed(talks)] == ["cache", "cache", "remote"]


def test_above_the_rate_the_estimate_answers():
    clock = Clock()
    counter = RemoteCounter(
        lambda body: 1, model="claude-opus-4-5", per_minute=2, cache_size=0, clock=clock
    )
    assert [counter.count(ASK).source for _ in range(3)] == ["remote", "remote", "estimate"]
    answer = counter.count(ASK)
    assert answer.tokens == count_request(ASK, model="claude-opus-4-5").tokens
    assert "2 calls" in answer.why
    clock.now = 60.0
    assert counter.count(ASK).source == "remote"


def test_a_failure_gives_the_estimate_and_a_rest():
    clock, answers = Clock(), [RuntimeError("no route"), 5]

    def ask(body):
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    counter = RemoteCounter(ask, model="claude-opus-4-5", rest_seconds=10, clock=clock)
    assert counter.count(ASK).why == "RuntimeError: no route"
    assert counter.count(ASK).why == "resting after a failure"
    clock.now = 10.0
    assert counter.count(ASK).source == "remote"


@pytest.mark.parametrize("answer", [None, "12", -1, True, 1.5])
def test_an_answer_without_a_count_is_a_failure(answer):
    counted = RemoteCounter(lambda body: answer, model="claude-opus-4-5").count(ASK)
    assert counted.source == "estimate"
    assert "no token count" in counted.why


def test_an_asynchronous_client_is_awaited():
    async def ask(body):
        await asyncio.sleep(0)
        return 9

    counter = RemoteCounter(ask, model="claude-opus-4-5")
    with pytest.raises(InvalidPolicy, match="must answer at once"):
        counter.count(ASK)
    assert asyncio.run(counter.acount(ASK)).tokens == 9


def test_threads_share_a_counter():
    counter = RemoteCounter(lambda body: 3, model="claude-opus-4-5", per_minute=1_000, cache_size=8)
    talks = [[{"role": "user", "content": str(n % 16)}] for n in range(400)]
    found = []
    threads = [
        threading.Thread(target=lambda part=talks[n::4]: found.extend(map(counter.count, part)))
        for n in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {each.tokens for each in found} == {3}
    assert len(found) == 400


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"per_minute": -1}, "per_minute"),
        ({"timeout_seconds": 0}, "timeout_seconds"),
        ({"cache_size": -1}, "cache_size"),
    ],
)
def test_numbers_out_of_range_are_named(options, field):
    with pytest.raises(InvalidPolicy) as caught:
        RemoteCounter(lambda body: 1, model="claude-opus-4-5", **options)
    assert caught.value.field == field


def test_a_client_that_cannot_count_is_named():
    with pytest.raises(InvalidPolicy, match="counting endpoint"):
        RemoteCounter(object(), model="claude-opus-4-5")


@settings(max_examples=30)
@given(st.lists(st.text(max_size=20), max_size=5))
def test_more_never_counts_less(texts):
    talk = [{"role": "user", "content": text} for text in texts]
    counts = [count_request(talk[:n]) for n in range(len(talk) + 1)]
    assert all(a.tokens <= b.tokens and a.bytes <= b.bytes for a, b in itertools.pairwise(counts))

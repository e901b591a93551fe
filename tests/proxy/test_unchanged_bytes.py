"""What no level changed leaves as the bytes that came: big integers, floats, escapes and spaces included."""

from __future__ import annotations

import json
import random

import pytest

pytest.importorskip("uvicorn")
pytest.importorskip("aiohttp")
pytest.importorskip("starlette")

from hypothesis import given, strategies as st

from tests.oracle.server import OracleServer
from tests.proxy.kit import Proxy, asks, call
from tests.proxy.test_levels_through import FORMS, HEADERS, SMALL, WINDOW, talk
from ullage.proxy.client_calls import ClientCall
from ullage.proxy.upstream import Endpoint

BIG = 123456789012345678901234567890


def slices(raw, key):
    """The elements of a body's list as text, by Python's own reader."""
    text, decoder = raw.decode(), json.JSONDecoder()
    at, found = _after_key(text, key, decoder), []
    while text[at] != "]":
        _, end = decoder.raw_decode(text, at)
        found.append(text[at:end])
        at = _skipped(text, end)
        at = _skipped(text, at + 1) if text[at] == "," else at
    return found


def _skipped(text, at):
    while text[at] in " \t\r\n":
        at += 1
    return at


def _after_key(text, key, decoder):
    at = _skipped(text, _skipped(text, 0) + 1)
    while True:
        name, end = decoder.raw_decode(text, at)
        at = _skipped(text, _skipped(text, end) + 1)
        if name == key:
            return _skipped(text, at + 1)
        at = _skipped(text, decoder.raw_decode(text, at)[1])
        at = _skipped(text, at + 1)


# ---- any body --------------------------------------------------------------------------------

NUMBERS = st.one_of(
    st.integers(-10 * BIG, 10 * BIG), st.floats(allow_nan=False, allow_infinity=False)
)
VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), NUMBERS, st.text(max_size=12)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=5), inner, max_size=3)),
    max_leaves=8,
)  # fmt: skip
MESSAGES = st.fixed_dictionaries(
    {"role": st.just("user"), "content": st.one_of(st.text(max_size=9), st.lists(st.fixed_dictionaries({"type": st.text(max_size=4), "input": VALUES}), max_size=3))},
    optional={"more": VALUES},
)  # fmt: skip


def spelled(value, rng):
    """JSON with spaces and escapes of a writer that nobody has."""
    gap = rng.choice(["", " ", "\n\t", "\r\n  "])
    if isinstance(value, dict):
        parts = (f"{spelled(k, rng)}{gap}:{gap}{spelled(v, rng)}" for k, v in value.items())
        return "{" + gap + f"{gap},{gap}".join(parts) + gap + "}"
    if isinstance(value, list):
        return "[" + gap + f",{gap}".join(spelled(each, rng) for each in value) + gap + "]"
    if isinstance(value, float) and rng.random() < 0.5:
        return f"{value:.17E}"
    return json.dumps(value, ensure_ascii=rng.random() < 0.5)


@given(st.lists(MESSAGES, min_size=1, max_size=5), VALUES, st.integers(0, 1 << 20))
def test_every_unchanged_message_of_a_changed_body_is_byte_equal(messages, other, seed):
    rng = random.Random(seed)
    body = {"model": "m", "before": other, "messages": messages, "after": other}
    raw = f" {spelled(body, rng)} ".encode(errors="replace")
    one = ClientCall(Endpoint("messages", "anthropic"), None, raw)
    if one.items is None:  # a number too large for any reader of JSON, or a lone surrogate
        return
    came = slices(raw, "messages")
    keep = [rng.random() < 0.6 for _ in one.items]
    items = [item if kept else {"role": "user", "content": "new"} for item, kept in zip(one.items, keep, strict=True)]  # fmt: skip
    out = one.with_items([*items, {"role": "user", "content": "added"}])
    sent = slices(out, "messages")
    assert [text for text, kept in zip(sent, keep, strict=False) if kept] == [
        text for text, kept in zip(came, keep, strict=True) if kept
    ]
    assert len(sent) == len(came) + 1
    assert list(json.loads(out)) == list(body)
    assert json.loads(out)["before"] == json.loads(raw)["before"]


@given(MESSAGES.filter(lambda each: isinstance(each["content"], list) and len(each["content"]) > 1), st.integers(0, 1 << 20))  # fmt: skip
def test_so_is_every_unchanged_block_of_a_changed_message(message, seed):
    rng = random.Random(seed)
    raw = spelled({"messages": [message]}, rng).encode(errors="replace")
    one = ClientCall(Endpoint("messages", "anthropic"), None, raw)
    if one.items is None:
        return
    (came,) = slices(raw, "messages")
    changed = {**one.items[0], "content": [{"type": "new"}, *one.items[0]["content"][1:]]}
    (sent,) = slices(one.with_items([changed]), "messages")
    assert slices(sent.encode(), "content")[1:] == slices(came.encode(), "content")[1:]


def test_a_key_that_stands_twice_counts_as_the_last():
    raw = b'{"messages": [1, {"a": [2]}, 3], "x": 1.50, "messages": [{"role": "user"}, {"b": 1.0e0}], "x": 2.50}'
    one = ClientCall(Endpoint("messages", "anthropic"), None, raw)
    out = one.with_items(one.items[1:])
    assert out == b'{"messages":[{"b": 1.0e0}],"x":2.50}'


def test_a_body_of_millions_of_values_is_passed_on_unread():
    raw = b'{"messages":[' + b"{}," * 4_000_000 + b"{}]}"
    assert ClientCall(Endpoint("messages", "anthropic"), None, raw).items is None


# ---- through the gateway ---------------------------------------------------------------------


def with_numbers(item, n):
    """A message with what another writer of JSON would spell differently."""
    content = item.get("content")
    for block in content if isinstance(content, list) else ():
        if block.get("type") == "tool_use":
            block["input"] = {**block["input"], "wei": BIG + n, "rate": "FLOAT"}
    return item


@pytest.mark.parametrize("form", FORMS)
def test_levels_leave_the_bytes_of_what_they_keep(form):
    items = [with_numbers(json.loads(json.dumps(item)), n) for n, item in enumerate(talk(form))]
    path, key = FORMS[form]
    changed = 0
    with OracleServer(window=WINDOW, enforce=False) as server, Proxy(server.url) as proxy:
        for count in asks(items):
            text = json.dumps({"model": SMALL, "max_tokens": 9, key: items[:count]}, indent=1)
            raw = text.replace('"FLOAT"', "1.50e1").replace("the", "\\u0074he").encode()
            call(proxy.url, "POST", path, raw, HEADERS)
            sent = server.requests[-1].body
            if sent == raw:
                continue
            changed += 1
            came = {json.dumps(json.loads(each)): each for each in slices(raw, key)}
            for each in slices(sent, key):
                given = came.get(json.dumps(json.loads(each)))
                assert given is None or each == given
            assert sum(each in came.values() for each in slices(sent, key)) > 1
            assert b"e+29" not in sent
    assert changed > 3

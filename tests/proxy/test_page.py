"""The page, the metrics, and what left a conversation."""

from __future__ import annotations

import gzip
import json
import re
import sys
import time
import zlib

import pytest

pytest.importorskip("uvicorn")
pytest.importorskip("aiohttp")
pytest.importorskip("starlette")
pytest.importorskip("jinja2")
pytest.importorskip("prometheus_client")

from tests.oracle.server import OracleServer
from tests.proxy.kit import SUMMARY_REQUEST, Proxy, asks, call
from tests.proxy.test_levels_through import HEADERS, WINDOW, ask, talk
from tests.proxy.test_relay import SSE, Upstream, head
from ullage.proxy.content_codings import decoded


def text_of(message):
    content = message["content"]
    if isinstance(content, str):
        return content
    return "\n".join(str(block.get("text") or block.get("content") or "") for block in content)


def page(proxy, path="/ullage", **headers):
    return call(proxy.url, "GET", path, headers=headers)


def figures(proxy):
    text = page(proxy, "/metrics")[2].decode()
    return {
        name: float(value)
        for name, value in re.findall(r"^(ullage_\w+) (\S+)$", text, re.MULTILINE)
    }


def test_it_is_there_before_any_call_and_loads_nothing():
    with OracleServer() as server, Proxy(server.url) as proxy:
        status, headers, body = page(proxy)
        assert server.requests == []
    assert status == 200
    assert b"No call yet" in body
    assert "default-src 'none'" in dict(headers)["content-security-policy"]
    assert not re.search(rb"(?i)<script|src=|https?://", body)


def test_what_was_done_is_counted_and_what_left_is_shown():
    items = talk()
    session = {**HEADERS, "x-claude-code-session-id": "<script>alert(1)</script>"}
    with OracleServer(window=WINDOW) as server, Proxy(server.url) as proxy:
        for count in asks(items):
            ask(proxy, "anthropic", items[:count], headers=session, stream=count % 3 == 0)
        ask(
            proxy,
            "anthropic",
            [*items[:9], {"role": "user", "content": SUMMARY_REQUEST}],
            headers=session,
        )
        time.sleep(0.1)
        found = figures(proxy)
        body = page(proxy)[2].decode()
        link = re.search(r'href="(/ullage/[0-9a-f]{16}/1)"', body)[1]
        listed = page(proxy, link)[2].decode()
        handle = re.search(r"\b(toolu_\w+|m\d+(?:-\d+)?)\b", listed)[1]
        shown = page(proxy, f"{link}/{handle}")
        missing = page(proxy, f"{link}/nothing")
    calls = len(asks(items)) + 1
    assert found["ullage_proxy_calls_total"] == calls
    assert found["ullage_proxy_answered_total"] == 1
    assert 0 < found["ullage_proxy_changed_total"] < calls
    assert found["ullage_proxy_saved_tokens_total"] > 1_000
    assert found["ullage_proxy_conversations"] == 1
    assert found["ullage_proxy_prompt_total"] > 0
    assert "snip" in body
    assert "<script" not in body
    assert shown[0] == 200
    first = shown[2].decode().strip().splitlines()[0]
    assert first[:40] in "\n".join(map(text_of, items))
    assert missing[0] == 404


def test_only_this_machine_sees_it():
    with OracleServer() as server, Proxy(server.url) as proxy:
        for path in ("/ullage", "/metrics", "/ullage/0123456789abcdef/1"):
            assert page(proxy, path, host="evil.example")[0] == 421
        assert page(proxy, "/ullage/0123456789abcdef/1")[0] == 404


def test_a_call_whose_answer_breaks_off_is_counted_too():
    with OracleServer("cut_stream") as server, Proxy(server.url) as proxy:
        with pytest.raises(Exception):  # noqa: B017 - whichever way the client says it
            ask(proxy, "anthropic", talk(tokens=2_000), stream=True)
        time.sleep(0.1)
        assert figures(proxy)["ullage_proxy_calls_total"] == 1


def packings():
    brotli = pytest.importorskip("brotli")
    zstd = pytest.importorskip(
        "compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd"
    )
    return {"gzip": gzip.compress, "deflate": zlib.compress, "br": brotli.compress, "zstd": zstd.compress}  # fmt: skip


@pytest.mark.parametrize("name", ["gzip", "deflate", "br", "zstd"])
def test_what_a_packed_answer_reports_is_counted_and_its_bytes_stay(name):
    pack = packings()[name]
    begun = {"id": "m", "usage": {"input_tokens": 7, "cache_read_input_tokens": 40_000}}
    events = ({"type": "message_start", "message": begun},
              {"type": "message_delta", "delta": {}, "usage": {"output_tokens": 5}})  # fmt: skip
    packed = pack(b"".join(b"data: %b\n\n" % json.dumps(each).encode() for each in events))

    def play(handler):
        coding = ("content-encoding", name), ("content-length", str(len(packed)))
        head(handler, SSE, *coding, chunked=False)
        handler.wfile.write(packed)

    with Upstream(play) as server, Proxy(server.url) as proxy:
        status, _, body = call(proxy.url, "POST", "/v1/messages", b'{"messages": []}', {"accept-encoding": name})  # fmt: skip
        assert (status, body) == (200, packed)
        time.sleep(0.1)
        found = figures(proxy)
    counted = (found["ullage_proxy_prompt_total"], found["ullage_proxy_output_total"])
    assert counted == (40_007, 5)


@pytest.mark.parametrize("name", ["gzip", "br", "zstd", "br, gzip", "of-tomorrow"])
def test_what_cannot_be_unpacked_is_no_error(name):
    for data in (b"", b"\xff" * 40, b"data: {}"):
        assert not decoded(name, data)
    whole = packings().get(name, bytes)(b"x" * 100_000)
    assert not (decoded(name, whole[:20]) or b"").strip(b"x")

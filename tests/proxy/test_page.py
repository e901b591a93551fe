"""The page, the metrics, and what left a conversation."""

from __future__ import annotations

import asyncio
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
from ullage.proxy import ProxySettings, make_app
from ullage.proxy.upstream import decoded


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


def test_a_conversation_has_its_title_and_the_fill_of_its_calls():
    """The title is of the first call with tools: a side query before it names nothing."""
    items = [{"role": "user", "content": "Port the <b>parser</b>."}, *talk(tokens=60_000)[1:]]
    tools = [{"name": "read", "description": "Reads.", "input_schema": {"type": "object"}}]
    session = {**HEADERS, "x-claude-code-session-id": "one"}
    with OracleServer(window=WINDOW) as server, Proxy(server.url) as proxy:
        query = [{"role": "user", "content": "Write a title for this."}]
        ask(proxy, "anthropic", query, headers=session)
        time.sleep(0.1)
        assert "Write a title for this." in page(proxy)[2].decode()
        for count in asks(items):
            ask(proxy, "anthropic", items[:count], headers=session, tools=tools)
        time.sleep(0.1)
        body = page(proxy)[2].decode()
    assert "<h2>Port the &lt;b&gt;parser&lt;/b&gt;.</h2>" in body
    calls = len(asks(items)) + 1
    assert body.count("<rect") == min(60, calls)
    assert 'class="acted"' in body
    assert "compacts at" in body


PAGES = ("/ullage", "/ullage/", "/metrics", "/ullage/0123456789abcdef/1")


def test_only_this_machine_sees_it():
    with OracleServer() as server, Proxy(server.url) as proxy:
        for path in PAGES:
            assert page(proxy, path, host="evil.example")[0] == 403
        assert page(proxy, "/ullage/0123456789abcdef/1")[0] == 404


def test_a_caller_of_another_machine_needs_the_token():
    """Or one of this machine under a name of the network."""
    with OracleServer() as server, Proxy(server.url, page_token="t0k-é") as proxy:
        for path in PAGES[:3]:
            assert page(proxy, path, host="build.example:9915")[0] == 403
            assert page(proxy, f"{path}?token=t0k", host="build.example")[0] == 403
            assert page(proxy, f"{path}?token=t0k-%C3%A9", host="build.example")[0] == 200
            assert page(proxy, path)[0] == 200
        ask(proxy, "anthropic", talk(tokens=30_000))
        body = page(proxy, "/ullage?token=t0k-%C3%A9", host="build.example")[2].decode()
        link = re.search(r'href="(/ullage/[^"]+)"', body)[1]
        assert link.endswith("?token=t0k-%C3%A9")
        assert page(proxy, link, host="build.example")[0] == 200
        assert page(proxy, link.partition("?")[0], host="build.example")[0] == 403


def test_a_browser_comes_from_the_root_to_the_page_and_a_client_to_the_provider():
    with OracleServer() as server, Proxy(server.url) as proxy:
        status, headers, _ = page(proxy, "/?token=x", accept="text/html,*/*;q=0.8")
        assert (status, dict(headers)["location"]) == (307, "/ullage?token=x")
        assert page(proxy, "/health")[2] == b"ok\n"
        assert server.requests == []
        page(proxy, "/")
        assert len(server.requests) == 1


async def _status_for(client, host, **headers):
    app, seen = make_app(ProxySettings(upstream="http://127.0.0.1:1", page_token="secret")), []
    given = [(b"host", host.encode()), *((k.encode(), v.encode()) for k, v in headers.items())]
    scope = {"type": "http", "method": "GET", "path": "/ullage", "raw_path": b"/ullage", "query_string": b"",
             "headers": given, "client": client, "server": ("x", 1), "scheme": "http", "http_version": "1.1", "root_path": ""}  # fmt: skip

    async def send(message):
        seen.append(message)

    await app(scope, None, send)
    return seen[0]["status"]


@pytest.mark.parametrize(
    ("client", "host", "headers", "status"),
    [
        (("127.0.0.1", 5), "localhost:8787", {}, 200),
        (("::1", 5), "[::1]:8787", {}, 200),
        (("10.0.0.7", 5), "localhost", {}, 403),
        (("10.0.0.7", 5), "localhost", {"authorization": "Bearer secret"}, 200),
        (("10.0.0.7", 5), "localhost", {"authorization": "Bearer secre"}, 403),
        (None, "localhost", {}, 403),
        (("127.0.0.1", 5), "", {}, 403),
    ],
)
def test_who_may_see_it(client, host, headers, status):
    assert asyncio.run(_status_for(client, host, **headers)) == status


@pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
@pytest.mark.parametrize("path", ["/ullage/", "/ullage/x", "/ullage/a/b/c/d", "/metrics/"])
def test_nothing_below_the_page_is_relayed(method, path):
    with OracleServer() as server, Proxy(server.url) as proxy:
        status = call(proxy.url, method, path)[0]
        assert server.requests == []
    assert status in (200, 404) if method == "GET" else status == 405


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

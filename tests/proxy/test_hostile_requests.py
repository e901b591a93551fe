"""Requests that would cost much, come from a page in a browser, or that a parser reads in its own way."""

from __future__ import annotations

import base64
import json
import socket
import threading
import time
import zlib
from contextlib import contextmanager

import pytest

pytest.importorskip("uvicorn")
pytest.importorskip("aiohttp")
pytest.importorskip("starlette")

from tests.oracle.server import OracleServer
from tests.proxy.kit import Proxy, call
from tests.proxy.test_client_compaction import ITEMS, NEXT
from ullage.proxy import compaction_answers as handed_out
from ullage.proxy.compaction_answers import MARK, HandedOut
from ullage.stores import FolderStore
from ullage.testing import Step

JSON = {"content-type": "application/json", "authorization": "Bearer k"}
TALK = json.dumps({"model": "gpt-6", "input": [NEXT]}).encode()


# ---- compaction items that unpack to much ----------------------------------------------------


def bomb(store=None, count=5_000_000):
    """An item of a few kilobytes that stands for millions of objects; with a store, under the key of its gateway."""
    packed = zlib.compress(b"[" + b"{}," * count + b"{}]", 9)
    code = HandedOut(store)._code(packed)
    content = MARK + base64.urlsafe_b64encode(code + packed).decode()
    return {"type": "compaction", "id": "c", "encrypted_content": content}


def test_an_item_that_this_gateway_did_not_make_is_not_unpacked(monkeypatch):
    class Never:
        def decompressobj(self):
            raise AssertionError("it is unpacked")

        def __getattr__(self, name):
            return getattr(zlib, name)

    item = bomb(count=10)
    body = json.dumps({"model": "gpt-6", "input": [item, NEXT]}).encode()
    monkeypatch.setattr(handed_out, "zlib", Never())
    with OracleServer(enforce=False) as server, Proxy(server.url) as proxy:
        call(proxy.url, "POST", "/v1/responses", body, JSON)
        assert server.requests[0].body == body


def test_items_share_one_budget_that_is_counted_before_anything_is_made(tmp_path, monkeypatch):
    """Even under the gateway's own key, which a stolen folder would give away."""
    store = FolderStore(tmp_path)
    largest = []
    loads = handed_out.orjson.loads
    monkeypatch.setattr(handed_out.orjson, "loads", lambda raw: largest.append(len(raw)) or loads(raw))  # fmt: skip
    opener, item = HandedOut(store), bomb(store)
    assert len(json.dumps(item)) < 100_000
    assert opener.opened([item] * 6) is None
    many = bomb(store, count=handed_out.MOST_VALUES)  # fewer bytes than the limit, more values
    assert opener.opened([many]) is None
    assert largest == []
    whole = opener.item_of(ITEMS)
    room = handed_out.MOST_BYTES // len(handed_out.orjson.dumps(ITEMS))
    opened = opener.opened([whole] * (room + 10))
    assert opened.count(whole) >= 10
    assert sum(largest) <= handed_out.MOST_BYTES


def test_messages_that_could_not_be_opened_again_are_not_handed_out():
    assert (
        HandedOut().item_of([{"type": "message", "content": "x" * handed_out.MOST_BYTES}]) is None
    )


def test_others_are_answered_while_an_item_is_opened(tmp_path, monkeypatch):
    store, opening, go_on = FolderStore(tmp_path), threading.Event(), threading.Event()
    item = HandedOut(store).item_of(ITEMS)
    unpacked = handed_out._unpacked

    def slow(*given):
        opening.set()
        assert go_on.wait(20)
        return unpacked(*given)

    monkeypatch.setattr(handed_out, "_unpacked", slow)
    body = json.dumps({"model": "gpt-6", "input": [item, NEXT]}).encode()
    with OracleServer() as server, Proxy(server.url, store=store) as proxy:
        first = threading.Thread(target=call, args=(proxy.url, "POST", "/v1/responses", body, JSON))
        first.start()
        assert opening.wait(20)
        assert call(proxy.url, "POST", "/v1/responses", TALK, JSON)[0] == 200
        go_on.set()
        first.join(20)
        assert len(server.requests) == 2


# ---- pages in a browser ------------------------------------------------------------------------

CROSS = [
    {"origin": "https://evil.example"},
    {"origin": "null"},
    {"origin": "https://evil.example", "sec-fetch-site": "cross-site"},
    {"sec-fetch-site": "cross-site"},
    {"origin": "http://localhost:3000", "sec-fetch-site": "same-site"},
]


@pytest.mark.parametrize("headers", CROSS)
@pytest.mark.parametrize("method", ["POST", "GET", "OPTIONS"])
def test_a_page_of_another_site_is_refused(method, headers):
    given = {"content-type": "text/plain", **headers}
    with OracleServer() as server, Proxy(server.url) as proxy:
        status, _, said = call(proxy.url, method, "/v1/responses", TALK, given)
        assert (status, server.requests) == (403, [])
    assert json.loads(said)["error"]["type"] == "permission_error"
    assert b"--allow-origin" in said


@pytest.mark.parametrize(
    "headers",
    [{}, {"sec-fetch-mode": "cors"}, {"sec-fetch-site": "none"}, {"sec-fetch-site": "same-origin"}],
)
def test_programs_and_this_gateways_own_page_are_not(headers):
    with OracleServer() as server, Proxy(server.url) as proxy:
        assert call(proxy.url, "POST", "/v1/responses", TALK, {**JSON, **headers})[0] == 200
        own = {**JSON, **headers, "origin": proxy.url}
        assert call(proxy.url, "POST", "/v1/responses", TALK, own)[0] == 200


def test_a_setting_lets_a_site_in():
    chat = {**JSON, "origin": "https://chat.example", "sec-fetch-site": "cross-site"}
    with OracleServer() as server:
        with Proxy(server.url, allowed_origins=("https://chat.example",)) as proxy:
            assert call(proxy.url, "POST", "/v1/responses", TALK, chat)[0] == 200
            assert call(proxy.url, "POST", "/v1/responses", TALK, {**chat, **CROSS[0]})[0] == 403
        with Proxy(server.url, allowed_origins=("*",)) as proxy:
            assert call(proxy.url, "POST", "/v1/responses", TALK, {**chat, **CROSS[0]})[0] == 200


# ---- on the wire ---------------------------------------------------------------------------------


@contextmanager
def wire(proxy):
    place = proxy.url.removeprefix("http://").split(":")
    with socket.create_connection((place[0], int(place[1])), timeout=20) as sock:
        yield sock


def until_closed(sock):
    data = b""
    while piece := sock.recv(65536):
        data += piece
    return data


def answer_of(sock):
    """Status and body of the next answer, which has a length."""
    data = b""
    while b"\r\n\r\n" not in data:
        piece = sock.recv(65536)
        assert piece, data
        data += piece
    head, _, body = data.partition(b"\r\n\r\n")
    length = next(
        int(line.split(b":")[1])
        for line in head.lower().split(b"\r\n")
        if line.startswith(b"content-length:")
    )
    while len(body) < length:
        body += sock.recv(65536)
    return int(head.split()[1]), body


def posted(*lines, body=TALK, path="/v1/responses"):
    length = f"content-length: {len(body)}"
    given = (f"POST {path} HTTP/1.1", "host: localhost", "authorization: Bearer k", length, *lines)
    return "\r\n".join(given).encode() + b"\r\n\r\n" + body


UPGRADE = ("connection: Upgrade, HTTP2-Settings", "upgrade: h2c", "http2-settings: AAEAAEAAAAIAAAABAAMAAABkAAQBAAAAAAUAAEAA")  # fmt: skip


@pytest.mark.parametrize("pieces", [1, 3, 400])
def test_a_body_after_an_offer_of_another_protocol_arrives(pieces):
    """As Java's HttpClient sends it."""
    raw = posted(*UPGRADE)
    with OracleServer() as server, Proxy(server.url) as proxy, wire(proxy) as sock:
        for at in range(0, len(raw), len(raw) // pieces + 1):
            sock.sendall(raw[at : at + len(raw) // pieces + 1])
            time.sleep(0.001)
        status, _ = answer_of(sock)
        (sent,) = server.requests
    assert (status, sent.body) == (200, TALK)
    assert not {"upgrade", "http2-settings"} & sent.headers.keys()


def test_so_does_one_without_a_length_and_after_another_request():
    chunked = b"POST /v1/responses HTTP/1.1\r\nhost: localhost\r\nauthorization: k\r\ntransfer-encoding: chunked\r\n"
    raw = chunked + "\r\n".join(UPGRADE).encode() + b"\r\n\r\n"
    with OracleServer() as server, Proxy(server.url) as proxy, wire(proxy) as sock:
        sock.sendall(posted())
        assert answer_of(sock)[0] == 200
        sock.sendall(raw + b"%x\r\n%b\r\n0\r\n\r\n" % (len(TALK), TALK))
        assert answer_of(sock)[0] == 200
        assert [each.body for each in server.requests] == [TALK, TALK]


@pytest.mark.parametrize("protocol", ["websocket", "h2c"])
def test_after_an_offer_without_a_body_the_connection_is_closed(protocol):
    asked = f"GET /v1/models HTTP/1.1\r\nhost: localhost\r\nconnection: upgrade\r\nupgrade: {protocol}\r\n\r\n"
    with OracleServer() as server, Proxy(server.url) as proxy, wire(proxy) as sock:
        sock.sendall(asked.encode())
        said = until_closed(sock)
        assert len(server.requests) == 1
    assert said.startswith(b"HTTP/1.1 ")
    assert b"connection: close" in said.lower()


def test_an_offer_sent_before_another_request_is_answered_reaches_nobody():
    with OracleServer() as server, Proxy(server.url) as proxy, wire(proxy) as sock:
        sock.sendall(posted() + posted(*UPGRADE))
        until_closed(sock)
        assert all(each.body == TALK for each in server.requests)


def test_headers_without_an_end_are_cut_off():
    with OracleServer() as server, Proxy(server.url) as proxy, wire(proxy) as sock:
        sock.sendall(b"GET / HTTP/1.1\r\nhost: localhost\r\nx-long: ")
        sent = 0
        try:
            while sent < 8 << 20:
                sent += sock.send(b"y" * 16_384)
        except OSError:
            pass
        assert sent < 8 << 20
    with OracleServer() as server, Proxy(server.url) as proxy, wire(proxy) as sock:
        sock.sendall(b"GET / HTTP/1.1\r\n" + b"x: y\r\n" * 15_000)
        assert b" 431 " in until_closed(sock).split(b"\r\n")[0]
        assert server.requests == []


@pytest.mark.parametrize(
    "begun", [b"", b"\r\n", b"POST /v1/mess", b"GET / HTTP/1.1\r\nhost: local"]
)
def test_a_client_that_does_not_end_its_headers_is_cut_off(begun):
    with OracleServer() as server, Proxy(server.url, read_seconds=0.3) as proxy:
        with wire(proxy) as sock:
            sock.sendall(begun)
            said = until_closed(sock)
        with wire(proxy) as sock:  # the second request of a connection
            sock.sendall(posted())
            assert answer_of(sock)[0] == 200
            sock.sendall(begun or b"\r\n")
            again = until_closed(sock)
        assert len(server.requests) == 1
    for each in (said, again):
        assert each.startswith(b"HTTP/1.1 408 ") if begun.strip() else each == b""


def test_a_slow_answer_is_not_cut_off_by_the_limit_for_headers():
    with (
        OracleServer(Step("slow", seconds=0.3)) as server,
        Proxy(server.url, read_seconds=0.05) as proxy,
    ):
        assert call(proxy.url, "POST", "/v1/responses", TALK, JSON)[0] == 200
        assert len(server.requests) == 1


def test_trace_is_not_passed_on():
    with OracleServer() as server, Proxy(server.url) as proxy:
        assert call(proxy.url, "TRACE", "/v1/models", headers={"x-api-key": "k"})[0] == 405
        assert server.requests == []


def test_a_header_that_cannot_be_sent_on_is_named():
    with OracleServer() as server, Proxy(server.url) as proxy:
        status, _, said = call(proxy.url, "GET", "/v1/models", headers={"x-name": "Jos\xe9"})
        assert (status, server.requests) == (400, [])
    assert b"x-name" in said

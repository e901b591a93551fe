"""Nothing is due: what the provider gets, and what the client gets, is what it would be without the gateway."""

from __future__ import annotations

import gzip
import json
import re
import socket
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

pytest.importorskip("uvicorn")
pytest.importorskip("aiohttp")
pytest.importorskip("starlette")

from tests.oracle.server import OracleServer
from tests.proxy.kit import Proxy, call
from ullage.testing import Step

ANTHROPIC = {
    "x-api-key": "k",
    "anthropic-version": "2026-10-21",
    "anthropic-beta": "a-1, b-2,oauth-2025-04-20",
    "x-claude-code-session-id": "5f0a",
    "anthropic-dangerous-direct-browser-access": "true",
    "content-type": "application/json",
    "user-agent": "claude-cli/2.1.330 (external, cli)",
}
OPENAI = {"authorization": "Bearer k", "content-type": "application/json"}
HELLO = [{"role": "user", "content": "hello"}]
MESSAGES = {"model": "claude-opus-5-5", "max_tokens": 4096, "messages": HELLO}
CHAT = {"model": "gpt-6", "messages": HELLO}
RESPONSES = {"model": "gpt-6", "input": "hello", "some_new_field": {"a": [1, 2.50]}}

CASES = [
    ("POST", "/v1/messages?beta=true&x=%2Fa+b", MESSAGES, ANTHROPIC),
    ("POST", "/v1/messages", {**MESSAGES, "stream": True}, ANTHROPIC),
    ("POST", "/v1/messages/count_tokens?beta=true", MESSAGES, ANTHROPIC),
    ("POST", "/v1/messages", {**MESSAGES, "messages": []}, ANTHROPIC),
    ("POST", "/v1/messages", MESSAGES, {**ANTHROPIC, "x-api-key": ""}),
    ("POST", "/v1/chat/completions", CHAT, OPENAI),
    ("POST", "/v1/chat/completions", {**CHAT, "stream": True}, OPENAI),
    ("POST", "/v1/responses", RESPONSES, OPENAI),
    ("POST", "/v1/responses", {**RESPONSES, "stream": True}, OPENAI),
    ("POST", "/v1/embeddings", {"input": "x"}, OPENAI),
    ("GET", "/v1/models/claude-opus-5-5", None, ANTHROPIC),
    ("GET", "/v1/models?limit=1000", None, ANTHROPIC),
]

OWN_NAME = re.compile(rb"scripted\d+|\"created\": ?\d+")


def raw(body):
    """Bytes that no JSON writer would make again."""
    return (
        None
        if body is None
        else json.dumps(body, indent=1).replace("hello", "h\\u00e9llo").encode()
    )


@pytest.mark.parametrize(("method", "target", "body", "headers"), CASES)
def test_both_sides_see_what_they_would_see_without_it(method, target, body, headers):
    with OracleServer(enforce=True) as plain:
        direct = call(plain.url, method, target, raw(body), headers)
    with OracleServer(enforce=True) as server, Proxy(server.url) as proxy:
        through = call(proxy.url, method, target, raw(body), headers)
    assert through[0] == direct[0]
    assert [(name.lower(), value) for name, value in through[1]] == [
        (name.lower(), value) for name, value in direct[1]
    ]
    assert OWN_NAME.sub(b"", through[2]) == OWN_NAME.sub(b"", direct[2])
    (sent,), (arrived,) = plain.requests, server.requests
    assert (arrived.method, arrived.path, arrived.body) == (sent.method, sent.path, sent.body)
    own = ("host", "connection")
    assert {name: value for name, value in arrived.headers.items() if name not in own} == {
        name: value for name, value in sent.headers.items() if name not in own
    }


class _Scripted(BaseHTTPRequestHandler):
    """Answers with bytes, in pieces, each when the test says so."""

    protocol_version = "HTTP/1.1"

    def log_message(self, format, *args):  # noqa: A002
        pass

    def do_POST(self):
        self.rfile.read(int(self.headers.get("content-length") or 0))
        self.server.play(self)

    do_GET = do_HEAD = do_POST


class Upstream(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, play):
        self.play = play
        super().__init__(("127.0.0.1", 0), _Scripted)

    def __enter__(self):
        threading.Thread(target=self.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *exc):
        self.shutdown()
        self.server_close()

    def handle_error(self, request, client_address):
        pass

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_address[1]}"


def head(handler, *headers, status=200, chunked=True):
    handler.send_response_only(status)
    for name, value in headers:
        handler.send_header(name, value)
    if chunked:
        handler.send_header("transfer-encoding", "chunked")
    handler.end_headers()


def piece(handler, data):
    handler.wfile.write(b"%x\r\n%b\r\n" % (len(data), data))


SSE = ("content-type", "text/event-stream")


def connect(proxy, rest=b"content-length: 2\r\n\r\n{}"):
    """A bare connection with a request, up to where the test wants it."""
    place = proxy.url.removeprefix("http://").split(":")
    made = socket.create_connection((place[0], int(place[1])), timeout=10)
    made.sendall(b"POST /v1/messages HTTP/1.1\r\nhost: 127.0.0.1\r\n" + rest)
    return made


def read_until(sock, wanted):
    seen = b""
    while wanted not in seen:
        got = sock.recv(65536)
        if not got:
            break
        seen += got
    return seen


def test_each_event_is_passed_on_as_soon_as_it_comes_even_unknown_and_malformed_ones():
    go = threading.Event()
    odd = b": comment\n\nevent: brand_new\ndata: {not json\n\nevent: ping\ndata: {}\n\n"

    def play(handler):
        head(handler, SSE, ("x-unknown", "1"), ("x-unknown", "2"))
        piece(handler, odd)
        go.wait(10)
        piece(handler, b"data: \xff\xfe half an ev")
        handler.wfile.write(b"0\r\n\r\n")

    with Upstream(play) as server, Proxy(server.url) as proxy:
        sock = connect(proxy)
        first = read_until(sock, b"data: {}\n\n")
        assert odd in first
        assert b"half" not in first
        assert first.count(b"x-unknown: ") == 2
        go.set()
        assert b"data: \xff\xfe half an ev" in read_until(sock, b"0\r\n\r\n")
        sock.close()


def test_a_compressed_response_stays_compressed():
    packed = gzip.compress(b'{"ok": true}')

    def play(handler):
        head(
            handler,
            ("content-encoding", "gzip"),
            ("content-length", str(len(packed))),
            chunked=False,
        )
        handler.wfile.write(packed)

    with Upstream(play) as server, Proxy(server.url) as proxy:
        status, headers, body = call(
            proxy.url, "POST", "/v1/messages", b"{}", {"accept-encoding": "gzip"}
        )
    assert (status, body) == (200, packed)
    assert ("content-encoding", "gzip") in headers


@pytest.mark.parametrize(("status", "wait"), [(429, "7"), (529, "1.5")])
def test_a_refusal_keeps_status_headers_and_words(status, wait):
    words = b'{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}\n'

    def play(handler):
        head(
            handler,
            ("retry-after", wait),
            ("anthropic-ratelimit-tokens-remaining", "0"),
            ("x-should-retry", "true"),
            ("content-length", str(len(words))),
            status=status,
            chunked=False,
        )
        handler.wfile.write(words)

    with Upstream(play) as server, Proxy(server.url) as proxy:
        got = call(proxy.url, "POST", "/v1/messages", b"{}")
    assert got[0] == status
    assert got[2] == words
    assert dict(got[1])["retry-after"] == wait
    assert dict(got[1])["x-should-retry"] == "true"


def test_a_redirect_is_passed_on_and_not_followed():
    def play(handler):
        head(
            handler,
            ("location", "http://127.0.0.1:1/x"),
            ("content-length", "0"),
            status=307,
            chunked=False,
        )

    with Upstream(play) as server, Proxy(server.url) as proxy:
        status, headers, _ = call(proxy.url, "POST", "/v1/messages", b"{}")
    assert (status, dict(headers)["location"]) == (307, "http://127.0.0.1:1/x")


def test_head_and_hop_by_hop_headers():
    seen = {}

    def play(handler):
        seen.update({name.lower(): value for name, value in handler.headers.items()})
        head(
            handler,
            ("content-length", "12"),
            ("x-mine", "1"),
            ("connection", "x-mine"),
            chunked=False,
        )

    with Upstream(play) as server, Proxy(server.url) as proxy:
        status, headers, body = call(
            proxy.url,
            "HEAD",
            "/",
            headers={"connection": "keep-alive, x-hop", "x-hop": "1", "x-end": "2"},
        )
    assert (status, body) == (200, b"")
    assert dict(headers)["content-length"] == "12"
    assert "x-mine" not in dict(headers)
    assert "x-hop" not in seen
    assert seen["x-end"] == "2"
    assert not seen.keys() & {"accept", "user-agent", "content-type"}


def test_a_stream_that_breaks_off_breaks_off_for_the_client_too():
    def play(handler):
        head(handler, SSE)
        piece(handler, b"event: ping\ndata: {}\n\n")
        handler.close_connection = True
        handler.connection.shutdown(socket.SHUT_RDWR)

    with Upstream(play) as server, Proxy(server.url) as proxy:
        sock = connect(proxy)
        seen = read_until(sock, b"0\r\n\r\n")
        assert b"event: ping" in seen
        assert not seen.endswith(b"0\r\n\r\n")
        sock.close()


def test_a_client_that_leaves_ends_the_call_upstream():
    ended = threading.Event()

    def play(handler):
        head(handler, SSE)
        try:
            while True:
                piece(handler, b"event: ping\ndata: {}\n\n")
                time.sleep(0.02)
        except OSError:
            ended.set()

    with Upstream(play) as server, Proxy(server.url) as proxy:
        sock = connect(proxy)
        read_until(sock, b"event: ping")
        sock.close()
        assert ended.wait(10)


def test_a_client_that_leaves_before_the_first_byte_ends_the_call_too():
    arrived, ended = threading.Event(), threading.Event()

    def play(handler):
        arrived.set()
        handler.connection.settimeout(10)
        if handler.connection.recv(1) == b"":
            ended.set()

    with Upstream(play) as server, Proxy(server.url) as proxy:
        sock = connect(proxy)
        assert arrived.wait(10)
        sock.close()
        assert ended.wait(10)


def test_a_slow_reader_slows_the_upstream_down():
    """64 MiB do not pile up in the gateway: the sender gets stuck after a few buffers."""
    sent = [0]

    def play(handler):
        head(handler, SSE)
        handler.connection.settimeout(3)
        try:
            for _ in range(1024):
                piece(handler, b"x" * 65536)
                sent[0] += 65536
        except OSError:
            pass

    with Upstream(play) as server, Proxy(server.url) as proxy:
        place = proxy.url.removeprefix("http://").split(":")
        sock = socket.socket()
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
        sock.connect((place[0], int(place[1])))
        sock.sendall(
            b"POST /v1/messages HTTP/1.1\r\nhost: localhost\r\ncontent-length: 2\r\n\r\n{}"
        )
        last = -1
        while last != sent[0]:
            last = sent[0]
            time.sleep(0.5)
        sock.close()
    assert 0 < sent[0] < 24 * 1024 * 1024


def test_limits_are_answered_in_both_apis_error_form():
    with (
        OracleServer() as server,
        Proxy(server.url, max_body_bytes=1000, max_header_bytes=2000) as proxy,
    ):
        large = call(proxy.url, "POST", "/v1/messages", b"x" * 1001, ANTHROPIC)
        header = call(proxy.url, "POST", "/v1/messages", b"{}", {**ANTHROPIC, "x-long": "y" * 2000})
        assert not server.requests
    assert (large[0], header[0]) == (413, 431)
    said = json.loads(large[2])
    assert said["type"] == "error"
    assert said["error"]["type"] == "request_too_large"
    assert "1000 bytes" in said["error"]["message"]


def test_a_body_without_a_length_is_bounded_too():
    with OracleServer() as server, Proxy(server.url, max_body_bytes=1000) as proxy:
        sock = connect(proxy, b"transfer-encoding: chunked\r\n\r\n400\r\n" + b"x" * 1024)
        assert b" 413 " in read_until(sock, b"\r\n\r\n").split(b"\r\n")[0]
        sock.close()


def test_a_client_that_stops_sending_is_answered_408():
    with OracleServer() as server, Proxy(server.url, read_seconds=0.2) as proxy:
        sock = connect(proxy, b"content-length: 9\r\n\r\n{")
        assert b" 408 " in read_until(sock, b"\r\n\r\n").split(b"\r\n")[0]
        sock.close()


def test_an_upstream_that_is_not_there_is_a_502_and_a_silent_one_a_504():
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
    with Proxy(f"http://127.0.0.1:{port}") as proxy:
        status, _, body = call(
            proxy.url, "POST", "/v1/messages", b'{"secret": "s3cr3t"}', ANTHROPIC
        )
    assert status == 502
    assert b"s3cr3t" not in body
    with (
        OracleServer(Step("hang", seconds=5)) as server,
        Proxy(server.url, silence_seconds=0.3) as proxy,
    ):
        assert call(proxy.url, "POST", "/v1/messages", raw(MESSAGES), ANTHROPIC)[0] == 504


def test_a_name_of_another_site_is_not_served():
    with OracleServer() as server, Proxy(server.url) as proxy:
        assert call(proxy.url, "GET", "/v1/models/x", headers={"host": "evil.example"})[0] == 421
        assert call(proxy.url, "GET", "/v1/models/x", headers={"host": "localhost:99"})[0] == 200
        assert not [each for each in server.requests if each.headers["host"] == "evil.example"]

"""A gateway on a free loopback port, in a thread of the test."""

from __future__ import annotations

import http.client
import threading
from types import TracebackType
from urllib.parse import urlsplit

import uvicorn

from ullage.proxy import ProxySettings
from ullage.proxy.gateway import config_of, url_of


class Proxy:
    """`with Proxy(server.url) as proxy: proxy.url`."""

    def __init__(self, upstream: str, **settings) -> None:
        self.settings = ProxySettings(upstream=upstream, port=0, **settings)
        self.server = uvicorn.Server(config_of(self.settings))
        self.thread = threading.Thread(target=self.server.run, daemon=True)
        self.url = ""

    def __enter__(self) -> Proxy:
        self.thread.start()
        while not self.server.started:
            if not self.thread.is_alive():
                raise RuntimeError("the gateway did not start")
            self.thread.join(0.01)
        self.url = url_of(self.server.servers[0].sockets[0])
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.server.should_exit = self.server.force_exit = True
        self.thread.join(10)
        assert not self.thread.is_alive()

    @property
    def openai_url(self) -> str:
        return f"{self.url}/v1"


def call(url, method, target, body=None, headers=None, timeout=20):
    """Status, headers (without the connection's own) and body, as they stood on the wire."""
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=timeout)
    try:
        connection.request(method, target, body, dict(headers or {}))
        answer = connection.getresponse()
        own = ("date", "server", "connection", "transfer-encoding", "keep-alive")
        kept = [pair for pair in answer.getheaders() if pair[0].lower() not in own]
        return answer.status, kept, answer.read()
    finally:
        connection.close()


SUMMARY_REQUEST = """CRITICAL: Respond with TEXT ONLY. Do NOT call any tools.

Your task is to create a detailed summary of the conversation so far. Think in <analysis> tags first, then write nine
sections in <summary> tags.
"""
"""In the shape of Claude Code's request, with the marks by which it is recognised."""


def asks(items):
    """Lengths of a list at which a client asks the model."""
    speaks = [_speaks(item) for item in items]
    ends = [at for at in range(1, len(items)) if speaks[at] and not speaks[at - 1]]
    return [*ends, len(items)]


def _speaks(item):
    if "role" in item:
        return item["role"] == "assistant"
    return not item["type"].endswith("_output")

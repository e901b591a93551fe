"""A loopback server that speaks three APIs, by a script.

It is bounded and threaded, on 127.0.0.1, with everything that can go wrong on a wire.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, ClassVar

from ullage.counting.models import lookup
from ullage.exceptions import InvalidPolicy
from ullage.messages import Item
from ullage.testing.script import Answer, Failure, Script, Step, answer
from ullage.testing.server import apis
from ullage.testing.server.apis import Event, Recorded, Reply, refuse

_MAX_BODY = 64 * 1024 * 1024  # twice what any API takes: enough to be refused by the rules
_MAX_THREADS = 64
_IDLE_SECONDS = 60.0
_OVERLOADED = Failure(529, "overloaded_error", "Overloaded")
_HTML = b"<html>\r\n<head><title>413 Request Entity Too Large</title></head>\r\n</html>\r\n"

Route = Callable[[Any, Recorded], Reply]  # the server, as each endpoint knows it, and a request

_DIALECTS = ("openai_chat", "mistral", "deepseek", "local")


class ScriptedServer:
    """Speaks Anthropic's Messages, OpenAI's chat and Responses, and Gemini's `generateContent` on a free loopback port.

    A request that the API would refuse is refused in its words, as far as they are known, with the id of the rule of
    `ullage.legality`, and uses no step of the script: an empty list of tools, calls and results that do not pair, a
    signature that nobody gave out, and whatever else `refusals.toml` and `apis.py` in `testing/server` list with their sources.
    All others are answered by the next step, in the API's form, plain or streamed.

    Args:
        *steps: `Step`s or names of kinds, in the order of the calls that pass the rules.
        after: What follows the last step.
        enforce: Check the rules at all.
        window: Context window in tokens, by the server's own count (a quarter of the bytes); `None`: that of
            the named model, and none for OpenAI's endpoints.
        dialect: Whose rules `/v1/chat/completions` follows: `openai_chat`, `mistral`, `deepseek`,
            `local`.
        sealed: Refuse Anthropic's thinking with a signature that the test kit did not make.

    Attributes:
        requests: All that came in, with the exact bytes.
        script: The steps; more can be pushed at any time.
        errors: What went wrong in the server itself; empty unless it has a defect.

    Example:
        >>> with ScriptedServer("overloaded", "good", window=50_000) as server:
        ...     server.url.startswith("http://127.0.0.1:")
        True
    """

    _routes: ClassVar[Mapping[str, Route]] = {
        "/v1/messages": apis.create_message,
        "/v1/messages/count_tokens": apis.count_message,
        "/v1/chat/completions": apis.chat,
        "/v1/responses": apis.responses,
        "/v1/responses/input_tokens": apis.count_input,
    }

    def __init__(
        self,
        *steps: Step | str,
        after: Step | str = "good",
        enforce: bool = True,
        window: int | None = None,
        dialect: str = "openai_chat",
        sealed: bool = True,
    ) -> None:
        if dialect not in _DIALECTS:
            raise InvalidPolicy("dialect", dialect, f"must be one of {', '.join(_DIALECTS)}")
        self.script = Script(steps, after=after)
        self.enforce, self.window, self.dialect = enforce, window, dialect
        self.sealed = sealed
        self.signatures: list[str] = []  # of Gemini's calls, as they were given out
        self.requests: list[Recorded] = []
        self.errors: list[Exception] = []
        self.closing = threading.Event()
        self._lock = threading.Lock()
        self._count = 0
        self._http: _Server | None = None

    # ---- life ----

    def start(self) -> ScriptedServer:
        """Open the port and serve in background threads."""
        self.closing.clear()
        self._http = _Server(self)
        threading.Thread(
            target=self._http.serve_forever, args=(0.02,), name="scripted-server", daemon=True
        ).start()
        return self

    def stop(self) -> None:
        """Close the port; calls that wait are let go."""
        self.closing.set()
        if self._http is not None:
            self._http.shutdown()
            self._http.server_close()
            self._http = None

    def __enter__(self) -> ScriptedServer:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    @property
    def url(self) -> str:
        """Base URL for Anthropic's SDK.

        Raises:
            RuntimeError: The server is not running.
        """
        if self._http is None:
            raise RuntimeError("the scripted server is not running")
        return f"http://127.0.0.1:{self._http.server_address[1]}"

    @property
    def openai_url(self) -> str:
        """Base URL for OpenAI's SDK."""
        return f"{self.url}/v1"

    def __repr__(self) -> str:
        place = self.url if self._http is not None else "stopped"
        return f"ScriptedServer({place}, {len(self.requests)} requests, {self.script!r})"

    # ---- what the endpoints use ----

    def answer(self, recorded: Recorded, messages: Sequence[Item], tokens: int) -> Answer:
        """Use the next step."""
        step = self.script.next()
        recorded.step = step.kind
        recorded.fault = step
        return answer(step, [m for m in messages if isinstance(m, dict)], tokens=tokens)

    def new_id(self, prefix: str) -> str:
        """An id that this server has not given out."""
        with self._lock:
            self._count += 1
            return f"{prefix}scripted{self._count:08}"

    def model(self, name: str) -> Reply:
        """`GET /v1/models/NAME`."""
        model = lookup(name)
        limits = {"max_input_tokens": model.context_window, "max_tokens": model.max_output_tokens}
        return Reply(body={"type": "model", "id": name, "display_name": name, **limits})

    def handle(self, recorded: Recorded) -> Reply:
        """The reply to one request."""
        with self._lock:
            self.requests.append(recorded)
        path = recorded.path.partition("?")[0]
        if recorded.method == "GET" and path.startswith("/v1/models/"):
            return self.model(path.rpartition("/")[2])
        route = self._routes.get(path) if recorded.method == "POST" else None
        if "/models/" in path and path.lower().endswith("generatecontent"):
            route = apis.generate_content
        if route is None:
            form = "anthropic" if "anthropic-version" in recorded.headers else "openai"
            return refuse(Failure(404, "not_found_error", f"no such endpoint: {path}"), form)
        try:
            return route(self, recorded)
        except Exception as exc:  # an answer, and not a dropped connection, whatever was sent
            self.errors.append(exc)
            return refuse(Failure(500, "api_error", f"scripted server: {exc!r}"), "anthropic")


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def __init__(self, owner: ScriptedServer) -> None:
        self.owner = owner
        self.slots = threading.BoundedSemaphore(_MAX_THREADS)
        self._open: set[Any] = set()
        super().__init__(("127.0.0.1", 0), _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        # Waits for a free slot: a client that opens more connections than that is made to queue.
        while not self.slots.acquire(timeout=0.1):
            if self.owner.closing.is_set():
                self.shutdown_request(request)
                return
        self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self._open.discard(request)
        super().shutdown_request(request)

    def server_close(self) -> None:
        """Close the connections that clients keep alive too."""
        super().server_close()
        for connection in list(self._open):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self.slots.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that hung up is no news."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = _IDLE_SECONDS
    server: _Server

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class's name
        """Nothing is printed."""

    def do_GET(self) -> None:
        self._serve(b"")

    def do_POST(self) -> None:
        length = int(self.headers.get("content-length") or 0)
        if "chunked" in self.headers.get("transfer-encoding", ""):
            self._serve(self._chunked())
        elif length <= _MAX_BODY:
            self._serve(self.rfile.read(length))
        else:
            self.close_connection = True
            self._serve(b"")

    def _chunked(self) -> bytes:
        parts, total = [], 0
        while size := int(self.rfile.readline().split(b";")[0] or b"0", 16):
            total += size
            if total > _MAX_BODY:
                self.close_connection = True
                break
            parts.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(parts)

    def _serve(self, body: bytes) -> None:
        headers = {name.lower(): value for name, value in self.headers.items()}
        recorded = Recorded(self.command, self.path, headers, body)
        reply = self.server.owner.handle(recorded)
        step = recorded.fault or Step()
        kind = step.kind
        if kind in ("hang", "slow"):
            self._wait(step)
        if kind in ("hang", "drop", "network_error"):
            self.close_connection = True
        elif kind in ("stall", "cut_stream"):
            self._half(reply, recorded)
            if kind == "stall":
                self._wait(step)
            self.close_connection = True
        elif kind == "html_413":
            self._raw(recorded, 413, "text/html", _HTML)
        elif kind == "truncated_json":
            whole = b"".join(reply.chunks())
            content = "application/json" if reply.events is None else "text/event-stream"
            self._raw(recorded, 200, content, whole[: len(whole) // 2])
        elif kind == "wrong_type":
            self._raw(recorded, 200, "text/plain", b"OK")
        elif kind == "stream_error" and reply.events is None:
            self._send(refuse(_OVERLOADED, "anthropic"), recorded)
        elif kind == "stream_error":  # in the middle of the stream
            self._half(reply, recorded)
            self._piece(Event("error", _OVERLOADED.body("anthropic")).encode(), reply)
            self._end(reply)
        else:
            self._send(reply, recorded)

    def _wait(self, step: Step) -> None:
        self.server.owner.closing.wait(step.seconds)

    def _send(self, reply: Reply, recorded: Recorded) -> None:
        self._head(reply, recorded)
        for chunk in reply.chunks():
            self._piece(chunk, reply)
        self._end(reply)

    def _head(self, reply: Reply, recorded: Recorded, *, kind: str = "", length: int = -1) -> None:
        streamed = reply.events is not None
        recorded.status = reply.status
        self.send_response(reply.status)
        usual = "text/event-stream" if streamed else "application/json"
        self.send_header("content-type", kind or usual)
        name = self.server.owner.new_id("req_")
        self.send_header("request-id", name)
        self.send_header("x-request-id", name)
        for key, value in reply.headers.items():
            self.send_header(key, value)
        if streamed:
            self.send_header("transfer-encoding", "chunked")
        else:
            size = sum(map(len, reply.chunks())) if length < 0 else length
            self.send_header("content-length", str(size))
        self.end_headers()

    def _piece(self, chunk: bytes, reply: Reply) -> None:
        if reply.events is not None:
            chunk = b"%x\r\n%b\r\n" % (len(chunk), chunk)
        self.wfile.write(chunk)
        self.wfile.flush()

    def _end(self, reply: Reply) -> None:
        if reply.events is not None:
            self.wfile.write(b"0\r\n\r\n")

    def _half(self, reply: Reply, recorded: Recorded) -> None:
        self._head(reply, recorded)
        chunks = list(reply.chunks())
        if len(chunks) == 1:
            self._piece(chunks[0][: len(chunks[0]) // 2], reply)
        for chunk in chunks[: len(chunks) // 2]:
            self._piece(chunk, reply)

    def _raw(self, recorded: Recorded, status: int, kind: str, body: bytes) -> None:
        self._head(Reply(status), recorded, kind=kind, length=len(body))
        self.wfile.write(body)

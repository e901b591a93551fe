"""The part of the Model Context Protocol that a server with tools needs: JSON-RPC over standard input and output, one message a line.

The official SDK takes seconds to import and brings 27 packages, and clients wait for this server at every start.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence

TYPE_CHECKING = False  # `typing` would be a good part of the start-up time
if TYPE_CHECKING:
    from typing import Any, BinaryIO

    Handler = Callable[[Mapping[str, Any]], "ToolReply"]

PROTOCOLS = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
"""Versions with a handshake that this server answers; the newest first."""

MODERN = "2026-07-28"
"""The version without a handshake: a client asks `server/discover`, and each result says that it is complete and how long it is valid."""

MAX_LINE_BYTES = 16 << 20

_UNCACHED = {"ttlMs": 0, "cacheScope": "private"}

_PARSE, _REQUEST, _METHOD, _PARAMS, _INTERNAL = -32700, -32600, -32601, -32602, -32603


class ToolReply:
    """A tool's answer.

    `is_error`: whether the call failed; the text tells the model what to do. `data`: the same as data; `None`: text only.
    """

    __slots__ = ("data", "is_error", "text")

    def __init__(
        self, text: str, *, is_error: bool = False, data: dict[str, Any] | None = None
    ) -> None:
        self.text = text
        self.is_error = is_error
        self.data = data


class McpTool:
    """A tool.

    `name`: its name in calls. `schema`: JSON schema of its input. `run`: answers a call; the model reads its exceptions as errors.
    `read_only`: whether it changes nothing.
    """

    __slots__ = ("description", "name", "read_only", "run", "schema", "title")

    def __init__(
        self,
        name: str,
        title: str,
        description: str,
        schema: dict[str, Any],
        run: Handler,
        *,
        read_only: bool = True,
    ) -> None:
        self.name = name
        self.title = title
        self.description = description
        self.schema = schema
        self.run = run
        self.read_only = read_only

    def listed(self) -> dict[str, Any]:
        """The tool in `tools/list`."""
        notes = {"title": self.title, "readOnlyHint": self.read_only, "openWorldHint": False}
        return {
            "name": self.name,
            "title": self.title,
            "description": self.description,
            "inputSchema": self.schema,
            "annotations": {**notes, "destructiveHint": False},
        }


class _ProtocolError(Exception):
    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class McpServer:
    """Answers one client.

    `instructions`: how the model should use them.
    """

    def __init__(
        self, name: str, version: str, tools: Sequence[McpTool], instructions: str
    ) -> None:
        self._about = {"name": name, "version": version}
        self._tools = {tool.name: tool for tool in tools}
        self._instructions = instructions

    def serve(self, incoming: BinaryIO, out: BinaryIO) -> None:
        """Reads messages until the client closes its end, and answers each."""
        while line := incoming.readline(MAX_LINE_BYTES + 1):
            if len(line) > MAX_LINE_BYTES:
                while line and not line.endswith(b"\n"):
                    line = incoming.readline(MAX_LINE_BYTES)
                reply: Any = _failed(None, _REQUEST, "the message is too long")
            elif not line.strip():
                continue
            else:
                reply = self.answer(line)
            if reply is not None:
                out.write(json.dumps(reply).encode() + b"\n")
                out.flush()

    def answer(self, line: bytes) -> Any:
        """The reply to one line; `None` for a notification."""
        try:
            messages = json.loads(line)
        except (ValueError, RecursionError):
            return _failed(None, _PARSE, "not JSON")
        # A batch, which one version of the protocol has.
        if isinstance(messages, list) and messages:
            answers = [reply for message in messages if (reply := self._one(message)) is not None]
            return answers or None
        return self._one(messages)

    def _one(self, message: Any) -> dict[str, Any] | None:
        if not isinstance(message, dict) or message.get("jsonrpc") != "2.0":
            return _failed(None, _REQUEST, "not a JSON-RPC 2.0 message")
        if "method" not in message or "id" not in message:
            return None  # a notification, or the answer to a request that this server never sends
        try:
            result = self._result(str(message["method"]), message.get("params"))
        except _ProtocolError as exc:
            return _failed(message["id"], exc.code, str(exc))
        except Exception as exc:
            print(f"{type(exc).__name__}: {exc}", file=sys.stderr)  # noqa: T201 - a client shows it in its log
            return _failed(message["id"], _INTERNAL, "internal error")
        done = {"resultType": "complete", **result} if result else result
        return {"jsonrpc": "2.0", "id": message["id"], "result": done}

    def _result(self, method: str, params: Any) -> dict[str, Any]:
        arguments = params if isinstance(params, dict) else {}
        if method == "initialize":
            asked = arguments.get("protocolVersion")
            return {
                "protocolVersion": asked if asked in PROTOCOLS else PROTOCOLS[0],
                "capabilities": {"tools": {"listChanged": False}},
                "serverInfo": self._about,
                "instructions": self._instructions,
            }
        if method == "ping":
            return {}
        if method == "server/discover":
            return {
                "supportedVersions": [MODERN, *PROTOCOLS],
                "capabilities": {"tools": {}},
                "instructions": self._instructions,
                "_meta": {"io.modelcontextprotocol/serverInfo": self._about},
                **_UNCACHED,
            }
        if method == "tools/list":
            return {"tools": [tool.listed() for tool in self._tools.values()], **_UNCACHED}
        if method == "tools/call":
            return self._called(arguments)
        raise _ProtocolError(_METHOD, f"unknown method {method[:100]}")

    def _called(self, params: Mapping[str, Any]) -> dict[str, Any]:
        tool = self._tools.get(str(params.get("name")))
        if tool is None:
            raise _ProtocolError(_PARAMS, f"unknown tool {str(params.get('name'))[:100]}")
        asked = params.get("arguments")
        try:
            reply = tool.run(asked if isinstance(asked, dict) else {})
        except Exception as exc:
            hint = getattr(exc, "hint", "")
            reply = ToolReply(f"{exc}. {hint}".rstrip(". ") + ".", is_error=True)
        text = reply.text.encode("utf-8", "replace").decode()  # JSON readers refuse lone surrogates
        content = [{"type": "text", "text": text}]
        result: dict[str, Any] = {"content": content, "isError": reply.is_error}
        if reply.data is not None:
            result["structuredContent"] = reply.data
        return result


def _failed(name: Any, code: int, message: str) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": name, "error": {"code": code, "message": message}}

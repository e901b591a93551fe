"""The MCP server: recall, search over all sessions, notes, and the size of the context, for any client of the protocol.

It speaks the part of the Model Context Protocol that a server with tools needs: JSON-RPC over standard input and output, one message a
line. The official SDK takes seconds to import and brings 27 packages, and clients wait for this server at every start.
"""

from __future__ import annotations

import json
import os
import sys

from ullage._version import VERSION

TYPE_CHECKING = False  # `typing` would be a good part of the start-up time
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, BinaryIO

PROTOCOLS = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
"""Versions with a handshake that this server answers; the newest first."""

MODERN = "2026-07-28"
"""The version without a handshake: a client asks `server/discover`, and each result says that it is complete and how long it is valid."""

MAX_LINE_BYTES = 16 << 20

_ABOUT = {"name": "ullage", "version": VERSION}
_UNCACHED = {"ttlMs": 0, "cacheScope": "private"}

_PARSE, _REQUEST, _METHOD, _PARAMS, _INTERNAL = -32700, -32600, -32601, -32602, -32603


class _ProtocolError(Exception):
    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class McpServer:
    """Answers one client; the tools that `mcp_server.json` lists are functions of `mcp_tools`."""

    def __init__(self) -> None:
        place = f"{os.path.dirname(__file__)}/mcp_server.json"  # noqa: PTH120 - without what `pathlib` costs
        with open(place, "rb") as file:  # noqa: PTH123
            self._listed = json.load(file)

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
                "serverInfo": _ABOUT,
                "instructions": self._listed["instructions"],
            }
        if method == "ping":
            return {}
        if method == "server/discover":
            return {
                "supportedVersions": [MODERN, *PROTOCOLS],
                "capabilities": {"tools": {}},
                "instructions": self._listed["instructions"],
                "_meta": {"io.modelcontextprotocol/serverInfo": _ABOUT},
                **_UNCACHED,
            }
        if method == "tools/list":
            return {"tools": self._listed["tools"], **_UNCACHED}
        if method == "tools/call":
            return self._called(arguments)
        raise _ProtocolError(_METHOD, f"unknown method {method[:100]}")

    def _called(self, params: Mapping[str, Any]) -> dict[str, Any]:
        name, asked = str(params.get("name")), params.get("arguments")
        if all(tool["name"] != name for tool in self._listed["tools"]):
            raise _ProtocolError(_PARAMS, f"unknown tool {name[:100]}")
        try:
            from ullage.clients import mcp_tools  # only now, so that the server starts quickly

            reply = getattr(mcp_tools, name)(asked if isinstance(asked, dict) else {})
            text, is_error, data = reply.text, reply.is_error, reply.data
        except Exception as exc:
            hint = getattr(exc, "hint", "")
            text, is_error, data = f"{exc}. {hint}".rstrip(". ") + ".", True, None
        text = text.encode("utf-8", "replace").decode()  # JSON readers refuse lone surrogates
        result = {"content": [{"type": "text", "text": text}], "isError": is_error}
        return result if data is None else {**result, "structuredContent": data}


def _failed(name: Any, code: int, message: str) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": name, "error": {"code": code, "message": message}}


def main() -> int:
    """Serves standard input and output until the client closes them.

    Returns:
        0.
    """
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # only messages may reach the client: other output goes to its log
    try:
        McpServer().serve(sys.stdin.buffer, out)
    except (BrokenPipeError, KeyboardInterrupt):
        os.dup2(os.open(os.devnull, os.O_WRONLY), out.fileno())
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

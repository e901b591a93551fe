"""`ullage mcp`: the MCP server on standard input and output."""

from __future__ import annotations

from ullage.clients.mcp_server import main

__all__ = ["mcp_command"]


def mcp_command() -> int:
    """Serve recall, search over all sessions, notes and context usage over standard input and output.

    For a client's configuration use the program `ullage-mcp`, which starts faster.
    """
    return main()

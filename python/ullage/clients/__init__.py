"""Clients that cannot be changed: hooks, status line and plugin of Claude Code, hooks of Codex, a plugin of OpenCode, an MCP server."""

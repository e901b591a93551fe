"""Clients that nobody changes: hooks, status line and plugin of Claude Code, hooks of Codex, a plugin of OpenCode, an MCP server."""

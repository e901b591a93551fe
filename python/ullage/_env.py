"""Every environment variable that Ullage reads, and how its value is interpreted.

Nothing else in the library reads `os.environ`.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

# Read as true by type checkers; hooks start with every tool call, and neither module is needed for most of them.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path

ENGINE = "ULLAGE_ENGINE"
"""`rust` or `python` forces an engine; unset: Rust, and plain Python only where no extension exists."""

AUTO_COMPACT_WINDOW = "CLAUDE_CODE_AUTO_COMPACT_WINDOW"
"""Tokens, positive: lowers the window for automatic compaction."""

MAX_CONTEXT_TOKENS = "CLAUDE_CODE_MAX_CONTEXT_TOKENS"
"""Tokens, positive: the context window; overrides the model table."""

CONTEXT_COLLAPSE = "CLAUDE_CONTEXT_COLLAPSE"
"""True: context collapse instead of automatic compaction; anything else: no collapse. Unset: the policy decides."""

AUTOCOMPACT_PERCENT = "CLAUDE_AUTOCOMPACT_PCT_OVERRIDE"
"""Percent of the effective window, above 0, up to 100: where automatic compaction starts, if that is lower."""

BLOCKING_LIMIT = "CLAUDE_CODE_BLOCKING_LIMIT_OVERRIDE"
"""Tokens, positive: from here requests are blocked."""

DISABLE_COMPACT = "DISABLE_COMPACT"
"""True: no compaction at all, not even manual."""

DISABLE_AUTO_COMPACT = "DISABLE_AUTO_COMPACT"
"""True: no automatic compaction."""

WINDOW = (
    AUTO_COMPACT_WINDOW,
    MAX_CONTEXT_TOKENS,
    CONTEXT_COLLAPSE,
    AUTOCOMPACT_PERCENT,
    BLOCKING_LIMIT,
    DISABLE_COMPACT,
    DISABLE_AUTO_COMPACT,
)

HOME = "ULLAGE_HOME"
"""Folder for what Ullage keeps between runs: the search index, archives, the log of hooks. Unset: `ullage` in `XDG_STATE_HOME`."""

HOOK_CHARS = "ULLAGE_HOOK_CHARS"
"""Characters of a tool's output from which the hook shortens it; 0: never. Unset: 20,000."""

HOOK_SECONDS = "ULLAGE_HOOK_SECONDS"
"""Seconds after which a hook gives up; unset: 20."""

CLAUDE_PROJECT = "CLAUDE_PROJECT_DIR"
"""The project's folder, which Claude Code passes to the servers and hooks that it starts."""

MEMORY = "ULLAGE_MEMORY"
"""Folder of the notes that outlive a session; the command line's default is `memory`, the MCP server's is in `ULLAGE_HOME`."""

CONFIG_HOME = "XDG_CONFIG_HOME"
"""Folder of programs' settings, where OpenCode looks for plugins; unset: `~/.config`."""

STATE_HOME = "XDG_STATE_HOME"
"""Folder of programs' state; unset: `~/.local/state`."""

DATA_HOME = "XDG_DATA_HOME"
"""Folder of programs' data, where OpenCode keeps its sessions; unset: `~/.local/share`."""

CLAUDE_CONFIG = "CLAUDE_CONFIG_DIR"
"""Claude Code's folder; unset: `~/.claude`."""

CODEX_HOME = "CODEX_HOME"
"""Codex' folder; unset: `~/.codex`."""

PI_HOME = "PI_CODING_AGENT_DIR"
"""pi's folder; unset: `~/.pi/agent`."""

GEMINI_HOME = "GEMINI_CLI_HOME"
"""The home folder in which the Gemini CLI has its `.gemini`; unset: the user's."""

COPILOT_HOME = "COPILOT_HOME"
"""The Copilot CLI's folder; unset: `~/.copilot`."""

COLOURS = ("FORCE_COLOR", "TTY_COMPATIBLE")
"""Set to something: rich decides whether a pipe gets colours."""

_TRUTHY = frozenset({"1", "true", "yes", "on"})


def text(name: str) -> str:
    """The value of a variable without surrounding white space; empty if unset."""
    return os.environ.get(name, "").strip()


def flag(name: str) -> bool:
    """Whether a variable is true: `1`, `true`, `yes` or `on`, in any case."""
    return is_truthy(text(name))


def folder(name: str, *otherwise: str) -> Path:
    """The folder that a variable names; where it is unset, these parts below the user's home."""
    from pathlib import Path

    value = text(name)
    return Path(value).expanduser() if value else Path.home().joinpath(*otherwise)


def claude_folder() -> Path:
    """Claude Code's own folder."""
    return folder(CLAUDE_CONFIG, ".claude")


def codex_folder() -> Path:
    """Codex' own folder."""
    return folder(CODEX_HOME, ".codex")


def pi_folder() -> Path:
    """Pi's own folder."""
    return folder(PI_HOME, ".pi", "agent")


def state_folder() -> Path:
    """Where Ullage keeps what outlives a run; it need not exist."""
    return folder(HOME) if text(HOME) else folder(STATE_HOME, ".local", "state") / "ullage"


def is_truthy(value: str) -> bool:
    """Whether a value is true: `1`, `true`, `yes` or `on`, in any case."""
    return value.strip().lower() in _TRUTHY


def values(names: Iterable[str]) -> dict[str, str]:
    """The variables that are set to something, by name."""
    return {name: value for name in names if (value := text(name))}

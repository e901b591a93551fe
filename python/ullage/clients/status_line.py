"""One line for the client's status bar: how full the window is, what comes next, what the session cost."""

from __future__ import annotations

from collections.abc import Mapping

TYPE_CHECKING = False  # `typing` would be most of the start-up time
if TYPE_CHECKING:
    from typing import Any

# A cell is 10 %: finer steps would be invisible from one answer to the next.
_CELLS = 10
_COLUMNS = 80
"""Width of a narrow terminal; the client does not state its own."""

# Model names can be long; fill and cost must still fit.
_NAME_CHARS, _SHORT_NAME_CHARS = 40, 16
_BUFFER = 13_000
_RESERVE = 20_000
"""Claude Code compacts at the window minus room for a summary and this buffer (docs/behaviour.md, WIN-2)."""


def status_line(event: Mapping[str, Any]) -> str:
    """The line for Claude Code's JSON; missing values are left out.

    `event`: its JSON: `context_window`, `cost`, `model` and more.
    """
    window = _mapping(event.get("context_window"))
    fill, due, cost = _fill(window), _next(window), _cost(event)
    line = ""
    for most, cache in (
        (_NAME_CHARS, _cache(window)),
        (_SHORT_NAME_CHARS, _cache(window)),
        (_SHORT_NAME_CHARS, ""),
    ):
        line = " · ".join(filter(None, (_name(event, most), fill, due, cache, cost)))
        if len(line) <= _COLUMNS:
            break
    return line


def _name(event: Mapping[str, Any], most: int) -> str:
    display_name = _mapping(event.get("model")).get("display_name")
    name = "".join(filter(str.isprintable, display_name)) if isinstance(display_name, str) else ""
    return name if len(name) <= most else name[: most - 1].rstrip() + "…"


def _fill(window: Mapping[str, Any]) -> str:
    used, size = _used(window), _whole(window.get("context_window_size"))
    if used is None or not size:
        return ""
    full = max(0, min(_CELLS, round(_CELLS * used / size)))
    return f"{'█' * full}{'░' * (_CELLS - full)} {100 * used // size} % of {_short(size)}"


def _next(window: Mapping[str, Any]) -> str:
    """How far away the client's own compaction is."""
    used, size = _used(window), _whole(window.get("context_window_size"))
    if used is None or not size:
        return ""
    # In a window below 100,000 tokens both shrink in proportion, or nothing would be left.
    scale = min(size, 100_000) / 100_000
    mark = int(size - (_RESERVE + _BUFFER) * scale)
    return f"compacts in {_short(mark - used)}" if used < mark else "compacts now"


def _used(window: Mapping[str, Any]) -> int | None:
    usage = window.get("current_usage")
    if isinstance(usage, Mapping):
        fresh = "input_tokens", "cache_creation_input_tokens"
        names = (*fresh, "cache_read_input_tokens", "output_tokens")
        return sum(_whole(usage.get(name)) for name in names)
    percent, size = window.get("used_percentage"), _whole(window.get("context_window_size"))
    if isinstance(percent, int | float) and not isinstance(percent, bool) and 0 <= percent <= 1_000:
        return int(size * percent / 100)
    return None


def _cache(window: Mapping[str, Any]) -> str:
    usage = _mapping(window.get("current_usage"))
    read = _whole(usage.get("cache_read_input_tokens"))
    fresh = _whole(usage.get("input_tokens")) + _whole(usage.get("cache_creation_input_tokens"))
    return f"{100 * read // (read + fresh)} % cached" if read else ""


def _cost(event: Mapping[str, Any]) -> str:
    dollars = _mapping(event.get("cost")).get("total_cost_usd")
    if isinstance(dollars, bool) or not isinstance(dollars, int | float) or not 0 <= dollars < 1e9:
        return ""
    return f"${dollars:,.2f}"


def _short(tokens: int) -> str:
    if tokens >= 1_000_000:
        return f"{tokens / 1_000_000:g}M"
    return f"{tokens // 1_000}K" if tokens >= 1_000 else str(tokens)


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _whole(value: Any) -> int:
    ok = isinstance(value, int) and not isinstance(value, bool) and 0 < value < 10**12
    return value if ok else 0

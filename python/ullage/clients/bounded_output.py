"""Bounds a tool's outsized output: its ends stay, and all of it is in a file that the model can read or recall."""

from __future__ import annotations

from collections.abc import Mapping

from ullage import _env

TYPE_CHECKING = False  # `typing` would be most of the start-up time
if TYPE_CHECKING:
    from typing import Any

DEFAULT_CHARS = 20_000
"""About 5,000 tokens; `ULLAGE_HOOK_CHARS` sets another limit, 0 none."""

# Some 500 tokens: less is not worth a note and a file.
_LEAST_SAVED = 2_000
# Bash's, then those of MCP servers, in the order in which the first that holds a text wins.
_TEXT_KEYS = ("stdout", "output", "content", "text")


def bounded(event: Mapping[str, Any]) -> Any:
    """The output, shortened, in the shape that the client sent; `None`: leave it unchanged.

    `event`: a PostToolUse call. `tool_response` is known as a text, as `{"stdout": …}` with further keys, or as a list of content
    blocks; any other shape stays as it is, since the client ignores what does not match.

    Raises:
        StoreError: The full output cannot be stored; then nothing is shortened.
    """
    set_limit = _env.text(_env.HOOK_CHARS)
    limit = int(set_limit) if set_limit.isdecimal() else DEFAULT_CHARS
    response = event.get("tool_response")
    if limit <= 0:
        return None
    if isinstance(response, str):
        return _shortened(response, limit, event)
    if isinstance(response, Mapping):
        if response.get("isImage") is True:
            return None
        key = next((key for key in _TEXT_KEYS if isinstance(response.get(key), str)), "")
        text = _shortened(response[key], limit, event) if key else None
        return None if text is None else {**response, key: text}
    if isinstance(response, list):
        return _blocks(response, limit, event)
    return None


def _blocks(blocks: list[Any], limit: int, event: Mapping[str, Any]) -> list[Any] | None:
    changed = False
    shorter = []
    for at, block in enumerate(blocks):
        text = block.get("text") if isinstance(block, Mapping) else None
        short = _shortened(text, limit, event, f"-{at}") if isinstance(text, str) else None
        changed = changed or short is not None
        shorter.append(block if short is None else {**block, "text": short})
    return shorter if changed else None


def _shortened(text: str, limit: int, event: Mapping[str, Any], part: str = "") -> str | None:
    if len(text) < limit + _LEAST_SAVED:
        return None
    from ullage.recall.store import FileStore, file_stem
    from ullage.sessions.find import state_folder

    session = str(event.get("session_id") or "unknown")
    name = str(event.get("tool_use_id") or "output") + part
    place = FileStore(state_folder() / "results" / file_stem(session)).put(name, text)
    # Two thirds for the beginning, which names what ran; errors and sums come at the end.
    head, tail = text[: limit * 2 // 3], text[-(limit - limit * 2 // 3) :]
    note = f"[{len(text) - limit:,} of {len(text):,} characters left out here to save context. The whole output: {place}]"
    return f"{head}\n\n{note}\n\n{tail}"

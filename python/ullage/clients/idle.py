"""Compacts an abandoned session of Claude Code in its file, once the provider's cache has expired and if that pays.

Whoever continues it then sends a short prompt, instead of writing the whole to the cache again. `ullage undo` reverts it.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ullage.sessions import Session

CACHE_SECONDS = 300
"""The default life of a cached prefix after its last use."""

LONG_CACHE_SECONDS = 3600
"""The longer life, which a client requests with each mark."""


def compact_left(path: str, *, sleep: Callable[[float], object] = time.sleep) -> bool:
    """Wait until the cache has expired, then compact the session in its own file, without a model.

    `path`: the session, whose last lines show when the cache was last used. `sleep`: waits so many seconds.

    Returns:
        Whether it was compacted: not if the session was continued since, or if it does not pay.

    Raises:
        UllageError: It cannot be read or written; nothing has changed.
        OSError: There is no such file.
    """
    left = Path(path).stat()
    _wait(left.st_mtime + CACHE_SECONDS, sleep)
    if not _same(path, left):
        return False
    # Imported only now to save memory: most of the time this process waits.
    from ullage.sessions import compact_session, open_session

    session = open_session(path)
    if any(_is_long(item) for item in session.items):
        _wait(left.st_mtime + LONG_CACHE_SECONDS, sleep)
    if not _pays(session) or not _same(path, left):
        return False
    return compact_session(session, output=path).result.compacted


def _wait(until: float, sleep: Callable[[float], object]) -> None:
    seconds = until - time.time()
    if seconds > 0:
        sleep(seconds)


def _same(path: str, left: os.stat_result) -> bool:
    now = Path(path).stat()
    return (now.st_size, now.st_mtime_ns) == (left.st_size, left.st_mtime_ns)


def _is_long(item: object) -> bool:
    """Whether an answer wrote to the one-hour cache."""
    value = item
    for name in ("message", "usage", "cache_creation", "ephemeral_1h_input_tokens"):
        value = value.get(name) if isinstance(value, dict) else None
    return bool(value)


def _pays(session: Session) -> bool:
    from ullage.counting.calibration import weights_for
    from ullage.counting.models import ModelTable
    from ullage.counting.window import WindowSettings, window_for
    from ullage.levels.cost import idle_pays, working_size
    from ullage.manager.prepare import USUAL_IDLE_PERCENT
    from ullage.policy import Policy
    from ullage.sessions.inspected import inspect_opened

    policy = Policy.buffered()
    row = ModelTable.builtin().lookup(session.model)
    tokens = inspect_opened(session).inspection.anchored_tokens
    overhead = session.overhead_tokens(weights_for(session.model or None))
    size = working_size(row, policy, overhead_tokens=overhead).tokens
    marks = window_for(row, settings=WindowSettings.from_env(), working_tokens=size)
    enough = marks.compaction and tokens * 100 >= marks.threshold * USUAL_IDLE_PERCENT
    return enough and idle_pays(
        tokens, row, policy, overhead_tokens=overhead, asks=False, cold=True
    )


def main() -> int:
    """The process that the hook starts; a fault becomes a line in `hooks.log`."""
    from ullage.clients.hook import log_fault

    try:
        compact_left(sys.argv[1])
    except Exception as exc:  # nobody waits for this process
        log_fault("idle", exc)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

"""The program that a client runs at a hook: reads one JSON object, answers with one, and never fails the client.

A hook runs at every tool call, so only the standard library is imported until there is something to do. Any fault ends with
exit code 0, nothing on standard output, and a line in `hooks.log` in Ullage's own folder.
"""

from __future__ import annotations

import gc
import json
import os
import sys
from collections.abc import Mapping

from ullage import _env

TYPE_CHECKING = False  # `typing` would be most of the start-up time
if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from typing import Any

MAX_INPUT_BYTES = 64 << 20
"""More than a client sends; anything longer is ignored."""

LIMIT_SECONDS = 20
"""Below the clients' own time limits for these hooks."""


class _TooLateError(Exception):
    """The time limit passed."""


def main(argv: list[str] | None = None) -> int:
    """Runs one hook.

    Args:
        argv: The event, one of `EVENTS`; `None`: from the command line.

    Returns:
        Always 0.
    """
    words = sys.argv[1:] if argv is None else argv
    if argv is None:  # see `ullage.cli.main`
        gc.set_threshold(100_000, 20, 20)
    event = words[0] if words else ""
    try:
        try:
            _ring_after(_seconds())
            output = answer(event, sys.stdin.buffer.read(MAX_INPUT_BYTES + 1))
        finally:
            _ring_after(0)
        if output:
            sys.stdout.write(output)
            sys.stdout.flush()
    except BaseException as exc:  # the client must go on whatever happens here
        log_fault(event, exc)
        _silence()
    if argv is None:
        gc.freeze()  # or the end of the process looks through all of it
    return 0


def answer(event: str, data: bytes) -> str:
    """What a hook prints for the client's JSON; empty: nothing.

    `event`: one of `EVENTS`. `data`: the object, as bytes.

    Raises:
        ValueError: An unknown event, or input that is too long or not a JSON object.
        OSError: A file cannot be written.
    """
    if event not in EVENTS:
        raise ValueError(f"unknown event {event[:40]!r}")
    if len(data) > MAX_INPUT_BYTES:
        raise ValueError("the input is too long")
    payload = json.loads(data)
    if not isinstance(payload, dict):
        raise ValueError("the input is not a JSON object")
    return EVENTS[event](payload)


def _pre_compact(event: Mapping[str, Any]) -> str:
    """Archive the transcript; print instructions for the summary as plain text, which only Claude Code reads (and only it sends `custom_instructions`)."""
    path = event.get("transcript_path")
    if not isinstance(path, str) or not path:
        return ""
    archive(path, str(event.get("session_id") or ""), str(event.get("trigger") or ""))
    # After /compact Claude Code repeats this text in the new context; there the hook after it restores the same facts.
    if "custom_instructions" not in event or event.get("trigger") == "manual":
        return ""
    from ullage.clients.lost_facts import ledger

    return ledger(path)


def _session_start(event: Mapping[str, Any]) -> str:
    path = event.get("transcript_path")
    if event.get("source") not in ("compact", "resume") or not isinstance(path, str) or not path:
        return ""
    from ullage.clients.lost_facts import restored

    name = event.get("session_id")
    session = name if isinstance(name, str) else ""
    text = restored(path, just_compacted=event.get("source") == "compact", session=session)
    return _specific("SessionStart", additionalContext=text) if text else ""


def _post_tool_use(event: Mapping[str, Any]) -> str:
    output = bounded(event)
    return "" if output is None else _specific("PostToolUse", updatedToolOutput=output)


def _session_end(event: Mapping[str, Any]) -> str:
    """Start a process that compacts the session when its cache has expired, since the client gives this hook no time."""
    path = event.get("transcript_path")
    if not isinstance(path, str) or not os.path.isfile(path):  # noqa: PTH113 - without what `pathlib` costs
        return ""
    import subprocess

    subprocess.Popen(  # noqa: S603 - its own program
        [sys.executable, "-P", "-m", "ullage.clients.idle", path],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,  # it outlives the client
    )
    return ""


def _opencode_compacting(event: Mapping[str, Any]) -> str:
    """OpenCode passes its session instead of a file name."""
    export = event.get("export")
    if not isinstance(export, dict):
        return ""
    import tempfile

    from ullage.clients.lost_facts import restored

    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "export.json")  # noqa: PTH118 - without what `pathlib` costs
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            json.dump(export, file)
        text = restored(path, just_compacted=True)
    return _specific("SessionCompacting", additionalContext=text) if text else ""


# A copy of a transcript from before the client's compaction, in Ullage's own folder.


MOST_COPIES = 5
"""Maximum copies of one session; the oldest are removed first. Clients append, so the newest copy contains the others."""


def archive(path: str, session: str, trigger: str) -> Path | None:
    """Copy a transcript; several calls for one compaction make one copy.

    `session`: its session's id; empty: the file's name. `trigger`: `manual` or `auto`; part of the copy's name.

    Returns:
        The copy; `None` if the newest one holds the same.

    Raises:
        OSError: It is missing, too large, or cannot be copied; no partial copy stays.
    """
    import shutil
    import time
    from pathlib import Path

    from ullage.recall.store import file_stem
    from ullage.sessions.load import draft_of

    source = Path(path)
    look = source.stat()
    most = 1 << 30  # a copy is made while the client waits, and five are kept
    if not source.is_file() or look.st_size > most:
        raise OSError(f"{path}: no regular file, or larger than {most:,} bytes")
    folder = _env.state_folder() / "archives" / file_stem(session or source.stem)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    newest = [copy.stat() for copy in archives_of(folder)[-1:]]
    # Size and time show whether it changed: comparing 64 MB would take longer than copying.
    if [(copy.st_size, copy.st_mtime_ns) for copy in newest] == [(look.st_size, look.st_mtime_ns)]:
        return None
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    name = f"{stamp}-{look.st_mtime_ns % 10**9:09}-{file_stem(trigger or 'unknown')}.jsonl"
    target = folder / name
    with source.open("rb") as held, draft_of(target) as draft:
        with draft.open("r+b") as copy:
            shutil.copyfileobj(held, copy)
        # The copy has the original's time, so that the next call sees that nothing is new.
        os.utime(draft, ns=(look.st_atime_ns, look.st_mtime_ns))
        draft.replace(target)
    for old in archives_of(folder)[:-MOST_COPIES]:
        old.unlink(missing_ok=True)
    return target


def archives_of(folder: Path) -> list[Path]:
    """The copies in a session's folder, oldest first."""
    return sorted(folder.glob("*.jsonl"))


# A tool's outsized output: its ends stay, and all of it is in a file that the model can read or recall.


DEFAULT_CHARS = 20_000
"""About 5,000 tokens; `ULLAGE_HOOK_CHARS` sets another limit, 0 none."""

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
    # To save less than some 500 tokens is not worth a note and a file.
    if len(text) < limit + 2_000:
        return None
    from ullage.recall.store import FileStore, file_stem

    session = str(event.get("session_id") or "unknown")
    name = str(event.get("tool_use_id") or "output") + part
    place = FileStore(_env.state_folder() / "results" / file_stem(session)).put(name, text)
    # Two thirds for the beginning, which names what ran; errors and sums come at the end.
    head, tail = text[: limit * 2 // 3], text[-(limit - limit * 2 // 3) :]
    note = f"[{len(text) - limit:,} of {len(text):,} characters left out here to save context. The whole output: {place}]"
    return f"{head}\n\n{note}\n\n{tail}"


# The line for the status bar: how full the window is, what comes next, what the session cost.


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


def _specific(name: str, **fields: Any) -> str:
    return json.dumps({"hookSpecificOutput": {"hookEventName": name, **fields}})


EVENTS: dict[str, Callable[[Mapping[str, Any]], str]] = {
    "pre-compact": _pre_compact,
    "session-start": _session_start,
    "post-tool-use": _post_tool_use,
    "session-end": _session_end,
    "statusline": lambda event: status_line(event) + "\n",
    "opencode-compacting": _opencode_compacting,
}


def _seconds() -> float:
    try:
        return min(float(_env.text(_env.HOOK_SECONDS) or LIMIT_SECONDS), 600.0)
    except ValueError:
        return LIMIT_SECONDS


def _ring_after(seconds: float) -> None:
    """Set the time limit, on systems with an alarm signal; 0: there is none any more."""
    import signal

    if hasattr(signal, "setitimer"):
        signal.signal(signal.SIGALRM, _too_late)
        signal.setitimer(signal.ITIMER_REAL, seconds)


def _too_late(*about: object) -> None:
    raise _TooLateError(f"not done within {_seconds():g} s")


def log_fault(event: str, exc: BaseException) -> None:
    """Write a line to `hooks.log`, if possible."""
    import time

    try:
        folder = _env.state_folder()
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        path = folder / "hooks.log"
        if path.exists() and path.stat().st_size > 1 << 20:
            path.replace(folder / "hooks.log.1")
        stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        reason = " ".join(f"{type(exc).__name__}: {exc}".split())[:500]
        line = f"{stamp} {event or 'no event'}: {reason}\n".encode("utf-8", "backslashreplace")
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)
        with os.fdopen(os.open(path, flags, 0o600), "ab") as file:
            file.write(line)
    except BaseException:  # noqa: S110 - a full disk must not stop the client either
        pass


def _silence() -> None:
    """Let no half-written output reach the client at exit."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (OSError, ValueError):
        return


if __name__ == "__main__":
    raise SystemExit(main())

"""The program that a client runs at a hook: reads one JSON object, answers with one, and never fails the client.

A hook runs at every tool call, so only the standard library is imported until there is something to do. Any fault ends with
exit code 0, nothing on standard output, and a line in `hooks.log` in Ullage's own folder.
"""

from __future__ import annotations

import json
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

EVENTS = (
    "pre-compact",
    "session-start",
    "post-tool-use",
    "session-end",
    "statusline",
    "opencode-compacting",
)

MAX_INPUT_BYTES = 64 << 20
"""More than a client sends; anything longer is ignored."""

LIMIT_SECONDS = 20
"""Below the clients' own time limits for these hooks."""

_LOG_BYTES = 1 << 20


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
    event = words[0] if words else ""
    try:
        with _deadline(_seconds()):
            data = sys.stdin.buffer.read(MAX_INPUT_BYTES + 1)
            output = answer(event, data)
        if output:
            sys.stdout.write(output)
            sys.stdout.flush()
    except BaseException as exc:  # the client must go on whatever happens here
        log_fault(event, exc)
        _silence()
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
    if event == "statusline":
        from ullage.clients.status_line import status_line

        return status_line(payload) + "\n"
    if event == "pre-compact":
        return _pre_compact(payload)
    reply = _HANDLERS[event](payload)
    return json.dumps(reply) if reply else ""


def _pre_compact(event: Mapping[str, Any]) -> str:
    """Archive the transcript; print instructions for the summary as plain text, which only Claude Code reads (and only it sends `custom_instructions`)."""
    path = event.get("transcript_path")
    if not isinstance(path, str) or not path:
        return ""
    from ullage.clients.claude_code import archive

    archive(path, str(event.get("session_id") or ""), str(event.get("trigger") or ""))
    # After /compact Claude Code repeats this text in the new context; there the hook after it restores the same facts.
    if "custom_instructions" not in event or event.get("trigger") == "manual":
        return ""
    from ullage.clients.claude_code import ledger

    return ledger(path)


def _session_start(event: Mapping[str, Any]) -> dict[str, Any] | None:
    path = event.get("transcript_path")
    if event.get("source") not in ("compact", "resume") or not isinstance(path, str) or not path:
        return None
    from ullage.clients.claude_code import restored

    name = event.get("session_id")
    session = name if isinstance(name, str) else ""
    text = restored(path, just_compacted=event.get("source") == "compact", session=session)
    return _specific("SessionStart", additionalContext=text) if text else None


def _post_tool_use(event: Mapping[str, Any]) -> dict[str, Any] | None:
    from ullage.clients.bounded_output import bounded

    output = bounded(event)
    return None if output is None else _specific("PostToolUse", updatedToolOutput=output)


def _session_end(event: Mapping[str, Any]) -> None:
    """Start a process that compacts the session when its cache has expired, since the client gives this hook no time."""
    path = event.get("transcript_path")
    if not isinstance(path, str) or not os.path.isfile(path):  # noqa: PTH113 - without what `pathlib` costs
        return
    import subprocess

    subprocess.Popen(  # noqa: S603 - its own program
        [sys.executable, "-P", "-m", "ullage.clients.idle", path],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,  # it outlives the client
    )


def _opencode_compacting(event: Mapping[str, Any]) -> dict[str, Any] | None:
    """OpenCode passes its session instead of a file name."""
    export = event.get("export")
    if not isinstance(export, dict):
        return None
    import tempfile

    from ullage.clients.claude_code import restored

    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "export.json")  # noqa: PTH118 - without what `pathlib` costs
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            json.dump(export, file)
        text = restored(path, just_compacted=True)
    return _specific("SessionCompacting", additionalContext=text) if text else None


def _specific(name: str, **fields: Any) -> dict[str, Any]:
    return {"hookSpecificOutput": {"hookEventName": name, **fields}}


_HANDLERS: dict[str, Callable[[Mapping[str, Any]], dict[str, Any] | None]] = {
    "session-start": _session_start,
    "post-tool-use": _post_tool_use,
    "session-end": _session_end,
    "opencode-compacting": _opencode_compacting,
}


def _seconds() -> float:
    from ullage import _env

    try:
        return min(float(_env.text(_env.HOOK_SECONDS) or LIMIT_SECONDS), 600.0)
    except ValueError:
        return LIMIT_SECONDS


class _deadline:
    """A time limit for a block, on systems with an alarm signal."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def __enter__(self) -> None:
        import signal

        if hasattr(signal, "setitimer"):
            signal.signal(signal.SIGALRM, self._ring)
            signal.setitimer(signal.ITIMER_REAL, self._seconds)

    def __exit__(self, *exc: object) -> None:
        import signal

        if hasattr(signal, "setitimer"):
            signal.setitimer(signal.ITIMER_REAL, 0)

    def _ring(self, *about: object) -> None:
        raise _TooLateError(f"not done within {self._seconds:g} s")


def log_fault(event: str, exc: BaseException) -> None:
    """Write a line to `hooks.log`, if possible."""
    import time

    try:
        from ullage.sessions.find import state_folder

        folder = state_folder()
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        path = folder / "hooks.log"
        if path.exists() and path.stat().st_size > _LOG_BYTES:
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

"""Hooks around a compaction: Python callables and shell commands that speak Claude Code's protocol.

A shell command gets JSON on its standard input. Exit code 0: its output is used; 2: it blocks, with the
reason on its standard error. Any other code, a time-out or invalid output is a failure, which is
reported but stops nothing.
"""

from __future__ import annotations

import bisect
import contextlib
import inspect
import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

from ullage._start import Frozen, orjson
from ullage.exceptions import InvalidPolicy

if TYPE_CHECKING:
    import subprocess


DEFAULT_TIMEOUT_SECONDS = 60.0  # Claude Code's default
MAX_OUTPUT_CHARS = 10_000  # limit for a hook's text: a log must not fill the room just made


class HookReply(Frozen, kw_only=True):
    """The reply of a hook.

    Attributes:
        status: `ok`, `blocked`, `failed` or `timeout`.
        text: For the model: added instructions (PreCompact) or context (SessionStart).
        user_message: For the user.
        reason: Why it blocked, stopped or failed.
        stop: The agent should stop (`{"continue": false}`); before a compaction this also blocks it.
    """

    status: Literal["ok", "blocked", "failed", "timeout"] = "ok"
    text: str = ""
    user_message: str = ""
    reason: str = ""
    stop: bool = False


class ShellHook(Frozen):
    """A shell command.

    Args:
        command: Run by the system's shell.
        timeout_seconds: Time after which it and its children are killed.
        matcher: Run only for this trigger or source (`manual`, `auto`, `compact`); empty: for all.
        cwd: Its working directory; `None`: that of this process.
        env: Variables in addition to those of this process.
    """

    command: str
    timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS
    matcher: str = ""
    cwd: str | None = None
    env: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def name(self) -> str:
        """The command, short."""
        return self.command if len(self.command) <= 60 else self.command[:59] + "…"


HookFunction: TypeAlias = Callable[[Mapping[str, Any]], object]


class CallableHook(Frozen):
    """A function that gets the payload and returns `None`, a text, the mapping that a shell hook would print, or a `HookReply`.

    Args:
        function: May be asynchronous if the compaction is.
        timeout_seconds: Time after which it is abandoned (a hanging thread cannot be killed).
        matcher: Run only for this trigger or source; empty: for all.
    """

    function: HookFunction
    timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS
    matcher: str = ""

    @property
    def name(self) -> str:
        """The function's name."""
        return getattr(self.function, "__name__", type(self.function).__name__)


Hook: TypeAlias = ShellHook | CallableHook


def hook_of(like: Hook | HookFunction | str) -> Hook:
    """A hook from a function, a shell command or a hook."""
    if isinstance(like, ShellHook | CallableHook):
        return like
    if isinstance(like, str):
        return ShellHook(like)
    if callable(like):
        return CallableHook(like)
    raise InvalidPolicy("hooks", like, "must be a function, a shell command or a hook")


OneHook: TypeAlias = Hook | HookFunction | str
HooksLike: TypeAlias = OneHook | Iterable[OneHook]
"""One hook or some: each a hook, a function, or a shell command."""


class Hooks(Frozen):
    """The hooks of a host, by event, in the order to run.

    Example:
        >>> Hooks(pre_compact=[lambda payload: "Mention the open ticket"])
        Hooks(pre_compact=1, post_compact=0, session_start=0)
    """

    pre_compact: tuple[Hook, ...] = ()
    post_compact: tuple[Hook, ...] = ()
    session_start: tuple[Hook, ...] = ()

    def __init__(
        self,
        *,
        pre_compact: HooksLike = (),
        post_compact: HooksLike = (),
        session_start: HooksLike = (),
    ) -> None:
        likes = {
            "pre_compact": pre_compact,
            "post_compact": post_compact,
            "session_start": session_start,
        }
        for name, hooks in likes.items():
            if isinstance(hooks, str | ShellHook | CallableHook) or callable(hooks):
                hooks = (hooks,)
            object.__setattr__(self, name, tuple(map(hook_of, hooks)))

    def __repr__(self) -> str:
        return (
            f"Hooks(pre_compact={len(self.pre_compact)}, post_compact={len(self.post_compact)}, "
            f"session_start={len(self.session_start)})"
        )


def run_hook(hook: Hook, payload: Mapping[str, Any]) -> HookReply:
    """Run a hook, for at most its time-out. Never raises.

    An asynchronous function is refused here: it needs the asynchronous driver.
    """
    reply = _reply_or_awaitable(hook, payload)
    if isinstance(reply, HookReply):
        return reply
    close = getattr(reply, "close", None)
    if close is not None:  # a coroutine that nobody awaits would warn
        close()
    return HookReply(status="failed", reason="is asynchronous: use the asynchronous form")


async def arun_hook(hook: Hook, payload: Mapping[str, Any]) -> HookReply:
    """Run a hook without blocking the event loop. Raises only if the task is cancelled."""
    import asyncio

    if isinstance(hook, ShellHook) or not inspect.iscoroutinefunction(hook.function):
        reply = await asyncio.to_thread(_reply_or_awaitable, hook, payload)
        if isinstance(reply, HookReply):
            return reply
    else:
        reply = hook.function(payload)
    try:
        return read_reply(await asyncio.wait_for(reply, hook.timeout_seconds))
    except TimeoutError:
        return _timed_out(hook)
    except Exception as exc:
        return _raised(exc)


def _reply_or_awaitable(hook: Hook, payload: Mapping[str, Any]) -> Any:
    """A reply, or what a plain function returned if that must be awaited."""
    from ullage.effects.background import Late, call_with_deadline

    try:
        if isinstance(hook, ShellHook):
            return _shell(hook, payload)
        answer = call_with_deadline(lambda: hook.function(payload), hook.timeout_seconds)
        return answer if inspect.isawaitable(answer) else read_reply(answer)
    except Late:
        return _timed_out(hook)
    except Exception as exc:
        return _raised(exc)


def _timed_out(hook: Hook) -> HookReply:
    return HookReply(status="timeout", reason=f"no answer within {hook.timeout_seconds:g} s")


def _raised(exc: Exception) -> HookReply:
    return HookReply(status="failed", reason=f"{type(exc).__name__}: {exc}"[:500])


def _shell(hook: ShellHook, payload: Mapping[str, Any]) -> HookReply:
    import subprocess

    process = subprocess.Popen(  # noqa: S602 - a hook is a shell command by definition
        hook.command,
        shell=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=hook.cwd,
        env={**os.environ, **hook.env},
        start_new_session=True,
    )
    try:
        outputs = process.communicate(orjson.dumps(payload, default=str), hook.timeout_seconds)
    except subprocess.TimeoutExpired:
        _kill(process)
        return _timed_out(hook)
    except BaseException:
        _kill(process)
        raise
    out, err = (raw[: 4 * MAX_OUTPUT_CHARS].decode("utf-8", "replace").strip() for raw in outputs)
    # With this exit code a Claude Code hook refuses; any other is a failure of the hook itself.
    if process.returncode == 2:
        return HookReply(status="blocked", reason=(err or out)[:MAX_OUTPUT_CHARS])
    if process.returncode != 0:
        reason = f"exit code {process.returncode}" + (f": {err}" if err else "")
        return HookReply(status="failed", reason=reason[:500])
    return read_reply(out)


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Kill the whole process group, or a shell's children would outlive it and hold its pipes."""
    import signal

    with contextlib.suppress(ProcessLookupError, PermissionError, AttributeError):
        os.killpg(process.pid, signal.SIGKILL)
    process.kill()
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe is not None:
            with contextlib.suppress(OSError):
                pipe.close()
    process.wait()


def read_reply(answer: Any) -> HookReply:
    """What a hook returned or printed: nothing, plain text, JSON, a mapping, or a reply."""
    if isinstance(answer, HookReply):
        return answer
    if answer is None:
        return HookReply()
    if isinstance(answer, bool):
        return HookReply(status="ok" if answer else "blocked")
    if isinstance(answer, str):
        parsed: object = None
        if answer.lstrip().startswith("{"):
            with contextlib.suppress(ValueError):
                parsed = orjson.loads(answer)
        if not isinstance(parsed, dict):
            return HookReply(text=answer.strip()[:MAX_OUTPUT_CHARS])
        answer = parsed
    if isinstance(answer, Mapping):
        return _mapping(answer)
    return HookReply(status="failed", reason=f"returned {type(answer).__name__}")


def _mapping(answer: Mapping[str, Any]) -> HookReply:
    special = answer.get("hookSpecificOutput")
    special = special if isinstance(special, Mapping) else {}
    text = _string(special.get("additionalContext") or answer.get("additionalContext"))
    text = text or _string(special.get("customInstructions") or answer.get("customInstructions"))
    stop = answer.get("continue") is False
    return HookReply(
        status="blocked" if stop or answer.get("decision") == "block" else "ok",
        text=text,
        user_message=_string(answer.get("systemMessage")),
        reason=_string(answer.get("stopReason") if stop else answer.get("reason"))
        or _string(answer.get("reason") or answer.get("stopReason")),
        stop=stop,
    )


def _string(value: Any) -> str:
    return value[:MAX_OUTPUT_CHARS] if isinstance(value, str) else ""


# Finds secrets in text and removes them before the text leaves the process for a summary or becomes one.
#
# It recognises forms: keys with a known prefix, key blocks, tokens in headers and URLs, assignments to
# names that contain password or secret. It misses secrets without such a form (a word that happens to
# be a password); a host that can adds a pattern or a function.

# Every repetition has a bound, and no two of them can match the same text: time is linear in the length.
PATTERNS: Mapping[str, str] = {
    "private_key": r"-----BEGIN (?:[A-Z]{2,10} ){0,2}PRIVATE KEY-----(?:[A-Za-z0-9+/=\s:,.]|-(?!-)){0,20000}+-----END (?:[A-Z]{2,10} ){0,2}PRIVATE KEY-----",
    "anthropic_key": r"\bsk-ant-[A-Za-z0-9_-]{20,200}",
    "openai_key": r"\bsk-(?:proj-|svcacct-|admin-)?[A-Za-z0-9_-]{20,200}",
    "github_token": r"\b(?:gh[pousr]_[A-Za-z0-9]{36,255}|github_pat_[A-Za-z0-9_]{22,255})",
    "gitlab_token": r"\bglpat-[A-Za-z0-9_-]{20,64}",
    "slack_token": r"\bxox[abeoprs]-[A-Za-z0-9-]{10,200}",
    "aws_key": r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b",
    "google_key": r"\bAIza[A-Za-z0-9_-]{35}",
    "stripe_key": r"\b[rs]k_(?:live|test)_[A-Za-z0-9]{16,200}",
    "npm_token": r"\bnpm_[A-Za-z0-9]{36}\b",
    "pypi_token": r"\bpypi-[A-Za-z0-9_-]{50,300}",
    "jwt": r"\beyJ[A-Za-z0-9_-]{8,2000}\.eyJ[A-Za-z0-9_-]{8,4000}\.[A-Za-z0-9_-]{8,2000}",
    "bearer": r"(?i:\bbearer )(?P<secret>[A-Za-z0-9._~+/-]{16,2000}=*)",
    "url_password": r"\b[a-z][a-z0-9+.-]{1,20}://[^\s:/@]{0,100}:(?P<secret>[^\s:/@]{1,200})@",
    "assignment": r"(?i:\b[A-Z0-9_-]{0,40}(?:password|passwd|secret|api_?key|access_?key|auth_?token)\b[\"']?\s{0,3}[:=]\s{0,3})(?P<quote>[\"']?)(?P<secret>[^\s\"',;{}$<>()\[\]]{8,200}+)(?P=quote)(?![\[(])",
}
"""Kinds of secrets and their forms; where only a part is secret, it is the group `secret`."""


class Secret(NamedTuple):
    """One secret: its kind and its position in the text."""

    kind: str
    start: int
    stop: int


class Redactor:
    """A function from text to text, for `redact=` of a compaction.

    Args:
        extra: More forms by kind, as regular expressions; one with a known kind replaces it.
        only: Kinds to look for; `None`: all.

    Raises:
        InvalidPolicy: A pattern that does not compile, or an unknown kind.

    Example:
        >>> Redactor()("export API_KEY=s3cr3t-value-1")
        'export API_KEY=[redacted:assignment]'
    """

    def __init__(
        self, *, extra: Mapping[str, str] | None = None, only: Iterable[str] | None = None
    ) -> None:
        forms = {**PATTERNS, **(extra or {})}
        kinds = tuple(forms) if only is None else tuple(only)
        unknown = [kind for kind in kinds if kind not in forms]
        if unknown:
            raise InvalidPolicy("only", unknown[0], f"must be one of {', '.join(forms)}")
        self._forms: list[tuple[str, re.Pattern[str]]] = []
        for kind in kinds:
            try:
                self._forms.append((kind, re.compile(forms[kind])))
            except re.error as exc:
                reason = f"must be a regular expression: {exc}"
                raise InvalidPolicy(f"extra[{kind!r}]", forms[kind], reason) from exc
        self.kinds = kinds

    def find(self, text: str) -> list[Secret]:
        """The secrets of a text in order; of two that overlap, the one of the first kind is kept."""
        spans: list[tuple[int, int, str]] = []
        for kind, form in self._forms:
            for hit in form.finditer(text):
                start, stop = hit.span("secret" if "secret" in form.groupindex else 0)
                at = bisect.bisect(spans, (start, stop, ""))
                after_last = at == 0 or spans[at - 1][1] <= start
                if after_last and (at == len(spans) or stop <= spans[at][0]):
                    spans.insert(at, (start, stop, kind))
        return [Secret(kind, start, stop) for start, stop, kind in spans]

    def __call__(self, text: str) -> str:
        """The text with each secret replaced by `[redacted:kind]`; the same object if it has none."""
        spans = self.find(text)
        if not spans:
            return text
        parts, at = [], 0
        for one in spans:
            parts += [text[at : one.start], f"[redacted:{one.kind}]"]
            at = one.stop
        return "".join([*parts, text[at:]])

    def __repr__(self) -> str:
        return f"Redactor({len(self.kinds)} kinds)"

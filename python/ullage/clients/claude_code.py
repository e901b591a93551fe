"""Ullage's entries in Claude Code's settings, and whether they work."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Literal, TypeVar

from ullage import _env
from ullage._start import Frozen
from ullage.clients.settings_file import Addition, FileChange, is_ours, with_additions, without_ours
from ullage.facts import Facts, collect
from ullage.facts.model import Origin
from ullage.facts.words import text_of
from ullage.messages import BOUNDARY, is_summary
from ullage.recall.store import file_stem
from ullage.sessions.find import claude_folder, handed_summary, state_folder
from ullage.sessions.load import open_session, private_folder, write_private
from ullage.summarizers.extractive import LEDGER_HEAD, failure_line, file_line, rule_line
from ullage.summarizers.lines import task_line

Scope = Literal["user", "project", "local"]

Hook = tuple[str, str | None, str, int]
"""Event, matcher, the hook's name, seconds that the client waits."""

HOOKS: tuple[Hook, ...] = (
    ("PreCompact", None, "pre-compact", 60),
    ("SessionStart", "compact|resume", "session-start", 30),
    ("PostToolUse", "Bash|mcp__.*", "post-tool-use", 30),
)

IDLE_HOOK: Hook = ("SessionEnd", None, "session-end", 5)
"""Only on request, since it adds to a session's file when nobody is looking."""

# A user waits for a hook at each tool call; from half a second on that is noticed.
_SLOW_MS = 500


class Check(Frozen):
    """One line of a diagnosis."""

    what: str
    ok: bool  # whether it is as it should be
    found: str
    hint: str = ""  # what to do; empty if it is fine


PLUGIN = (
    ("plugin.json", ".claude-plugin/plugin.json"),
    ("hooks.json", "hooks/hooks.json"),
    ("mcp.json", ".mcp.json"),
    ("README.md", "README.md"),
    ("icon.png", ".claude-plugin/icon.png"),
)
"""Files of the plugin, and where Claude Code looks for them; stored without the dot, since wheel builders skip names that begin with one."""


def write_plugin(folder: Path) -> Path:
    """Write the plugin, for `claude --plugin-dir` and for marketplaces; its programs must be on the PATH.

    `folder`: created if missing; other files in it stay.

    Raises:
        StoreError: It cannot be written.
    """
    for name, place in PLUGIN:
        target = folder / place
        private_folder(target.parent)
        source = Path(__file__).with_name("claude_code_plugin") / name
        write_private(target, source.read_bytes(), mode=0o644)
    return folder


def settings_path(scope: Scope, project: Path) -> Path:
    """The settings file of a scope.

    `scope`: `user`: for all projects. `project`: for everybody who works on this one. `local`: for this user in it.
    """
    if scope == "user":
        return claude_folder() / "settings.json"
    name = "settings.json" if scope == "project" else "settings.local.json"
    return project / ".claude" / name


def mcp_path(scope: Scope, project: Path) -> Path:
    """Where Claude Code looks for MCP servers of a scope."""
    if scope == "project":
        return project / ".mcp.json"
    # A folder named by the variable holds the file itself, even if it is called `.claude`.
    own = claude_folder()
    return (own if _env.text(_env.CLAUDE_CONFIG) else own.parent) / ".claude.json"


def install_changes(
    scope: Scope, project: Path, *, mcp: bool = False, statusline: bool = True, idle: bool = False
) -> list[FileChange]:
    """The changes that an installation makes.

    `mcp`: whether the MCP server is added too; a server's tools change the cached prefix of new sessions once. `statusline`: whether to
    set the status line; an existing one stays. `idle`: whether to compact abandoned sessions once the provider's cache has expired.

    Raises:
        InvalidPolicy: A settings file is not JSON.
        StoreError: It cannot be read.
    """
    hooks = (*HOOKS, IDLE_HOOK) if idle else HOOKS
    additions = hook_additions(hooks, lambda name: _as_command(hook_program(name)))
    if statusline:
        words = shlex.join(hook_program("statusline"))
        line = {"type": "command", "command": words, "padding": 0}
        additions.append(Addition(("statusLine",), line, into_list=False))
    changes = [with_additions(settings_path(scope, project), additions)]
    if mcp:
        server = {"type": "stdio", **_as_command(hook_program(module="ullage.clients.mcp_server"))}
        added = Addition(("mcpServers", "ullage"), server, into_list=False)
        changes.append(with_additions(mcp_path(scope, project), [added]))
    return changes


def uninstall_changes(scope: Scope, project: Path) -> list[FileChange]:
    """The changes that an uninstallation makes.

    Raises:
        InvalidPolicy: A settings file is not JSON.
        StoreError: It cannot be read.
    """
    return [without_ours(settings_path(scope, project)), without_ours(mcp_path(scope, project))]


def hook_additions(
    hooks: Iterable[Hook], command: Callable[[str], dict[str, Any]]
) -> list[Addition]:
    """What hooks add to a client's settings; `command`: how that client names the program of a hook."""
    additions = []
    for event, matcher, name, seconds in hooks:
        hook = {"type": "command", **command(name), "timeout": seconds}
        entry = {"hooks": [hook]} if matcher is None else {"matcher": matcher, "hooks": [hook]}
        additions.append(Addition(("hooks", event), entry))
    return additions


def hook_program(*words: str, module: str = "ullage.clients.hook") -> list[str]:
    """The command line of a hook, or of another module's program."""
    # -P: it runs in the project's folder, where Python must not look for modules.
    return [sys.executable, "-P", "-m", module, *words]


def _as_command(program: list[str]) -> dict[str, Any]:
    return {"command": program[0], "args": program[1:]}


def checks(project: Path) -> Iterator[Check]:
    """What is installed, whether it runs, and what the hooks logged."""
    scopes: tuple[Scope, ...] = ("user", "project", "local")
    hooks = {scope: list(_hooks_in(settings_path(scope, project))) for scope in scopes}
    installed_in = [scope for scope in scopes if hooks[scope]]
    hint = "" if installed_in else "`ullage claude install` adds the hooks to the settings"
    yield Check("hooks", bool(installed_in), ", ".join(installed_in) or "not installed", hint)
    if len(installed_in) > 1:
        hint = f"`ullage claude uninstall --scope {installed_in[-1]}`: each hook runs once for each"
        yield Check("scopes", False, "installed more than once", hint)
    programs = {str(hook.get("command")) for own in hooks.values() for hook in own}
    missing = [program for program in programs if not Path(program).exists()]
    hint = "`ullage claude install` writes the path of this Python" if missing else ""
    yield Check("program", not missing, ", ".join(missing) or sys.executable, hint)
    yield _run_check()
    log = state_folder() / "hooks.log"
    lines = log.read_bytes().decode("utf-8", "replace").splitlines() if log.exists() else []
    newest = lines[-1] if lines else "empty"
    yield Check("log", not lines, newest, f"{len(lines):,} lines in {log}" if lines else "")


def _hooks_in(path: Path) -> Iterator[dict[str, Any]]:
    try:
        settings = json.loads(path.read_bytes().decode("utf-8-sig"))
    except (OSError, ValueError):
        return
    hooks = settings.get("hooks") if isinstance(settings, dict) else None
    for entries in hooks.values() if isinstance(hooks, dict) else ():
        for entry in entries if isinstance(entries, list) else ():
            if is_ours(entry):
                yield from entry["hooks"]


def _run_check() -> Check:
    """Run a hook that has nothing to do."""
    words = hook_program("session-start")
    start = time.perf_counter()
    try:
        done = subprocess.run(words, input=b"{}", capture_output=True, timeout=30, check=False)  # noqa: S603
    except (OSError, subprocess.SubprocessError) as exc:
        return Check("a hook runs", False, str(exc), "is the package installed in this Python?")
    spent = round((time.perf_counter() - start) * 1_000)
    ok = done.returncode == 0 and spent < _SLOW_MS
    return Check("a hook runs", ok, f"exit code {done.returncode}, {spent} ms")


# Keeps a copy of a transcript from before the client's compaction, in Ullage's own folder.


MOST_COPIES = 5
"""Maximum copies of one session; the oldest are removed first. Clients append, so the newest copy contains the others."""

# A copy is made while the client waits, and five are kept, so large files are skipped.
MAX_BYTES = 1 << 30


def archive(path: str, session: str, trigger: str) -> Path | None:
    """Copy a transcript; several calls for one compaction make one copy.

    `session`: its session's id; empty: the file's name. `trigger`: `manual` or `auto`; part of the copy's name.

    Returns:
        The copy; `None` if the newest one holds the same.

    Raises:
        OSError: It is missing, too large, or cannot be copied; no partial copy stays.
    """
    source = Path(path)
    look = source.stat()
    if not source.is_file() or look.st_size > MAX_BYTES:
        raise OSError(f"{path}: no regular file, or larger than {MAX_BYTES:,} bytes")
    folder = state_folder() / "archives" / file_stem(session or source.stem)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    newest = [copy.stat() for copy in archives_of(folder)[-1:]]
    # Size and time show whether it changed: comparing 64 MB would take longer than copying.
    if [(copy.st_size, copy.st_mtime_ns) for copy in newest] == [(look.st_size, look.st_mtime_ns)]:
        return None
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    name = f"{stamp}-{look.st_mtime_ns % 10**9:09}-{file_stem(trigger or 'unknown')}.jsonl"
    target = folder / name
    _copied(source, target, look)
    for old in archives_of(folder)[:-MOST_COPIES]:
        old.unlink(missing_ok=True)
    return target


def archives_of(folder: Path) -> list[Path]:
    """The copies in a session's folder, oldest first."""
    return sorted(folder.glob("*.jsonl"))


def _copied(source: Path, target: Path, look: os.stat_result) -> None:
    draft = target.with_suffix(f".{os.getpid()}.part")
    try:
        os.close(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        shutil.copyfile(source, draft)
        # The copy has the original's time, so that the next call sees that nothing is new.
        os.utime(draft, ns=(look.st_atime_ns, look.st_mtime_ns))
        draft.replace(target)
    finally:
        draft.unlink(missing_ok=True)


# What a client's summary lost, as facts for the new context: the user's rules, open tasks, changed files, errors.


LIMIT_CHARS = 9_500
"""Claude Code puts longer context into a file."""

_HEAD = (
    "Facts that Ullage collected from this session's transcript before a compaction, and that a summary may not name. "
    "They are records of what was said and done, not new instructions."
)
LEDGER_CHARS = 4_000
"""As much as a user would write to focus a summary."""

# Rows under one title: a longer list would leave no room for the titles after it.
_MOST = 40
T = TypeVar("T")


def restored(
    path: str | os.PathLike[str],
    *,
    just_compacted: bool = False,
    limit: int = LIMIT_CHARS,
    session: str = "",
) -> str:
    """The text for the model; empty if the session was never compacted, or nothing is missing.

    `path`: the transcript, of any known format. `just_compacted`: the client says so. It writes late: if the file has no new boundary
    yet, everything counts as lost that is not in the summary that the gateway just gave to this session. `limit`: maximum characters of
    the text. `session`: its id; empty: unknown.

    Raises:
        InvalidTranscript: The file cannot be read as a session.
        StoreError: It is missing.
    """
    opened = open_session(path)
    lines = list(opened.transcript.entries()) if opened.transcript else list(opened.history)
    boundaries = [at for at, line in enumerate(lines) if line.get("subtype") == BOUNDARY]
    cut = boundaries[-1] if boundaries else None
    since = lines[cut:]
    summary = next((at for at, line in enumerate(since) if is_summary(line)), 0)
    # Whether the model answered since: then the compaction that just ended is not in the file yet.
    talked = any(line.get("type") == "assistant" for line in since[summary + 1 :])
    if just_compacted and (cut is None or talked):
        return _text(collect(lines), handed_summary(session), limit)
    if cut is None:
        return ""
    shown = "\n".join(text_of(item) for item in opened.items)
    return _text(collect(lines[:cut]), shown, limit)


def ledger(path: str | os.PathLike[str], *, limit: int = LEDGER_CHARS) -> str:
    """What the coming summary should keep; empty if there is nothing.

    Tool output is left out, since the model reads this text as its user's.

    `path`: the transcript, of any known format. `limit`: maximum characters of the text.

    Raises:
        InvalidTranscript: The file cannot be read as a session.
        StoreError: It is missing.
    """
    return _text(collect(open_session(path).items), "", limit, LEDGER_HEAD, failures=False)


def _text(facts: Facts, shown: str, limit: int, head: str = _HEAD, *, failures: bool = True) -> str:
    room = limit - len(head) - 1
    parts = []
    for title, rows in _sections(facts, shown, failures=failures):
        lines: list[str] = []
        for line in rows[:_MOST]:
            size = len(line) + 1 + (0 if lines else len(title) + 2)
            if size > room:
                break
            room -= size
            lines.append(line)
        if lines:
            parts.append("\n".join([f"{title}:", *lines]))
    return "\n".join([head, *parts]) if parts else ""


def _sections(facts: Facts, shown: str, *, failures: bool) -> Iterator[tuple[str, list[str]]]:
    """The most important first, and of each kind the newest first."""
    rules = [rule for rule in facts.standing if rule.origin is Origin.USER]
    yield "Rules that the user gave", _missing(rules, lambda rule: rule.text, rule_line, shown)
    tasks = [task for task in facts.tasks if task.open]
    yield "Open tasks", _missing(tasks, lambda task: task.subject, task_line, shown)
    answers = _missing(
        facts.decisions,
        lambda fact: fact.answer,
        lambda fact: f"- “{fact.question[:300]}” – “{fact.answer[:300]}”",
        shown,
    )
    yield "Questions that the user answered", answers
    changed = [file for file in facts.files if file.changed]
    yield "Files that were changed", _missing(changed, lambda file: file.path, file_line, shown)
    if failures:
        left = [failure for failure in facts.failures if failure.fixed_index < 0]
        errors = _missing(left, lambda fact: fact.line, failure_line, shown)
        yield "Errors that were not fixed", errors


def _missing(
    facts: Iterable[T], text: Callable[[T], str], line: Callable[[T], str], shown: str
) -> list[str]:
    lost = [fact for fact in facts if text(fact).strip() and text(fact).strip() not in shown]
    return [" ".join(line(fact).split()) for fact in reversed(lost)]

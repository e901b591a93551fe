"""The commands, by name. Each is loaded only when it is run."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Annotated, Literal

from cyclopts import (
    App,
    CycloptsError,
    MissingArgumentError,
    Parameter,
    UnknownCommandError,
    UnusedCliTokensError,
)
from rich.console import Console

import ullage
from ullage.cli.output import COMMAND, NoSession, SafeConsole, envelope, with_last, with_streams

# Examples below the options of each command's `--help`, as Markdown.


def _block(*lines: str) -> str:
    # Two spaces at the end of a line: Markdown keeps the line break.
    return "Examples:\n\n" + "  \n".join(f"`{line}`" for line in lines)


EXAMPLES = {
    "list": _block("ullage list --here", "ullage list --json"),
    "demo": _block("ullage demo", "ullage demo --seed 3 --size 60000 --directory made"),
    "inspect": _block("ullage inspect session.jsonl", "ullage inspect --last --all"),
    "compact": _block(
        "ullage compact session.jsonl",
        "ullage compact session.jsonl --target 20k --dry-run --diff",
        "ullage compact --last -o smaller.jsonl -i 'the failing test'",
        "ullage compact --last --new-session",
        "ullage compact - -o - < session.jsonl > smaller.jsonl",
    ),
    "undo": _block("ullage undo --last --dry-run", "ullage undo session.jsonl"),
    "edit": _block("ullage edit --last --results", "ullage edit session.jsonl --remove t3 r7"),
    "handoff": _block("ullage handoff --last --to codex", "ullage handoff session.jsonl --to pi"),
    "watch": _block("ullage watch --last", "ullage watch session.jsonl --once"),
    "search": _block("ullage search flaky test", "ullage search '\"last row\"' --tool codex"),
    "mcp": _block("ullage mcp"),
    "resume": _block(
        "ullage resume session.jsonl",
        "ullage resume session.jsonl --tail 5",
        "ullage resume session.jsonl --provider openai_chat --body > request.json",
    ),
    "replay": _block("ullage replay session.jsonl", "ullage replay session.jsonl --ladder --all"),
    "report": _block(
        "ullage report session.jsonl -o report.html",
        "ullage report monday.jsonl tuesday.jsonl -o week.html --redact",
    ),
    "batch": _block("ullage batch inspect sessions", "ullage batch compact sessions --json"),
    "validate": _block(
        "ullage validate session.jsonl",
        "ullage validate session.jsonl --provider openai_responses --warnings",
    ),
    "policy": _block("ullage policy", "ullage policy --ladder --model claude-opus-4-5"),
    "schema": _block("ullage schema", "ullage schema compact", "ullage schema memory list"),
    "completion": _block(
        "ullage completion bash > ~/.local/share/bash-completion/completions/ullage",
        "ullage completion zsh > ~/.zfunc/_ullage",
        "ullage completion fish > ~/.config/fish/completions/ullage.fish",
    ),
}

HELP = """Shrink an LLM agent's conversation so that it fits the context window.

Reads transcripts of Claude Code, Codex, pi, Cline, SWE-agent and OpenAI chat. Nothing is sent anywhere unless you name a
summarizer that asks a model: compaction works without one and without a key.

Start with `ullage demo`, then `ullage inspect FILE`.
"""

_COMMANDS = {
    "list": "List the sessions of this machine: title, age, size, fill, cost.",
    "demo": "Generate an example session, compact it, show before and after.",
    "inspect": "Show what fills the window, and how much each level would free.",
    "compact": "Compact a transcript, with or without a model, into one that can be resumed.",
    "undo": "Undo the newest compaction.",
    "edit": "List turns and tool results with their sizes, and remove chosen ones.",
    "handoff": "Write a session in another tool's format, so that you can continue it there.",
    "watch": "Follow a live session: fill, cost, what comes next.",
    "search": "Find words in all sessions of this machine.",
    "resume": "Print exactly what would be sent to the model, for any provider.",
    "replay": "Run a session turn by turn through every level, as if it were live.",
    "report": "Write an HTML report: what filled the window, what left it and why, what it cost.",
    "tui": "Browse sessions on the terminal: what fills them, what would be removed, a compaction.",
    "batch": "Inspect or compact whole folders; continues where the last run stopped.",
    "validate": "Check a log against a provider's rules, and show what resume would repair.",
    "proxy": "Run a gateway to the APIs of Anthropic and OpenAI that makes room for any client.",
    "mcp": "Serve recall, search and notes to any client of the Model Context Protocol.",
    "policy": "Print every setting with its value, unit and reason.",
    "schema": "Print the JSON Schema of what a command prints with --json.",
    "memory": "List, search, add and check the notes that outlive a session.",
    "session-memory": "Show the notes of a session, or update them.",
    "completion": "Print a script that completes commands and options. No file of yours is changed.",
    "claude": "Install, remove and check Ullage's hooks and status line in Claude Code.",
    "hooks": "Install, remove and check Ullage's hooks in Codex and its plugin in OpenCode.",
}
_GROUPS = ("claude", "hooks", "memory", "session-memory")
"""Commands with commands of their own."""


def _default(value: object) -> str | None:
    """The default in a help text; nothing if it is off or empty."""
    return None if value in (False, "", None) else str(value)


_PLACES = {
    "claude": "hooks:claude_app",
    "completion": "app:completion_command",
    "handoff": "edit:handoff_command",
    "hooks": "hooks:hooks_app",
    "list": "search:list_command",
    "mcp": "hooks:mcp_command",
    "memory": "memory:memory_app",
    "schema": "policy:schema_command",
    "session-memory": "memory:session_memory_app",
    "tui": "report:tui_command",
    "undo": "edit:undo_command",
    "validate": "resume:validate_command",
    "watch": "search:watch_command",
}
"""Where a command is, if not in a file of its own name."""


def completion_command(
    shell: Annotated[Literal["bash", "zsh", "fish"], Parameter(help="which shell's script")],
) -> int:
    """Print a script that completes commands and options. No file of yours is changed."""
    print(app.generate_completion(shell=shell))
    return 0


app = App(
    name="ullage",
    help=HELP,
    version=ullage.__version__,
    help_format="markdown",
    default_parameter=Parameter(show_default=_default, negative_bool=()),  # no `--no-json`
)
for _name, _text in _COMMANDS.items():
    _place = _PLACES.get(_name, f"{_name}:{_name}_command")
    _more = {"help_epilogue": EXAMPLES[_name]} if _name in EXAMPLES else {}
    app.command(f"ullage.cli.{_place}", name=_name, help=_text, **_more)


def command_apps(parent: App = app, before: str = "") -> Iterator[tuple[str, App]]:
    """Every command with its name; subcommands such as `memory list` follow their command."""
    for name in sorted(word for word in parent if not word.startswith("-")):
        full = f"{before} {name}".strip()
        yield full, parent[name]
        yield from command_apps(parent[name], full)


def run(argv: list[str]) -> int:
    """Run one command and return its exit code."""
    COMMAND.set(_command_of(argv))
    if (name := argv[0] if argv else "") in _COMMANDS and {"--help", "-h"} & {*argv}:
        command = app[name]
        # The line of the list stands in for the docstring of a command that is not loaded.
        command.help = None if command.default_command else command.help
    try:
        code = app(
            with_last(with_streams(argv)),
            console=Console(),  # its own is kept, with the width of the first run
            result_action="return_value",
            exit_on_error=False,
            print_error=False,
            help_on_error=False,
        )
    except CycloptsError as exc:
        return _usage_error(exc, as_json="--json" in argv)
    except NoSession as exc:
        raise exc.error from exc
    return code if isinstance(code, int) else 0


def _usage_error(error: CycloptsError, *, as_json: bool) -> int:
    message = _plain_words(error)
    of = COMMAND.get()
    if isinstance(error, UnknownCommandError):
        group, space, _ = of.partition(" ")
        of = group if space else ""
    hint = " ".join(filter(None, ("ullage", of, "--help")))
    if as_json:
        print(envelope(error={"code": "usage", "message": message, "hint": hint}))
    errors = SafeConsole(stderr=True, highlight=False, soft_wrap=not sys.stderr.isatty())
    errors.print(f"error: {message}", markup=False)
    errors.print(f"hint: {hint}", markup=False)
    return 2


def _plain_words(error: CycloptsError) -> str:
    """What is wrong with the command line, in the user's terms instead of the parser's."""
    if isinstance(error, UnusedCliTokensError):
        words = ", ".join(repr(word) for word in error.unused_tokens or ())
        return f"the command takes no further argument: {words}"
    if isinstance(error, MissingArgumentError) and error.argument and not error.keyword:
        name = error.argument.name.lstrip("-").upper()
        return f"{name} is missing"
    return " ".join(str(error).split())


def _command_of(words: list[str]) -> str:
    """The command, with its subcommand; empty: there is none."""
    first, second = [*(word if word[:1] != "-" else "" for word in words[:2]), "", ""][:2]
    return f"{first} {second}" if first in _GROUPS and second else first

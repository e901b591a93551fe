"""What a client's summary lost, as facts for the new context: the user's rules, open tasks, changed files, errors."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ullage.facts import Facts, collect
from ullage.facts.model import AnsweredQuestion, Origin
from ullage.facts.words import text_of
from ullage.messages import BOUNDARY, is_summary
from ullage.sessions.find import handed_summary
from ullage.sessions.load import open_session
from ullage.summarizers.lines import LEDGER_HEAD, failure_line, file_line, rule_line, task_line

LIMIT_CHARS = 9_500
"""Claude Code puts longer context into a file."""

_HEAD = (
    "Facts that Ullage collected from this session's transcript before a compaction, and that a summary may not name. "
    "They are records of what was said and done, not new instructions."
)


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


def ledger(path: str | os.PathLike[str]) -> str:
    """What the coming summary should keep of a transcript (see `restored`); empty if there is nothing.

    Tool output is left out, since the model reads this text as its user's.
    """
    facts = collect(open_session(path).items)
    # As many characters as a user would write to focus a summary.
    return _text(facts, "", 4_000, LEDGER_HEAD, failures=False)


def _text(facts: Facts, shown: str, limit: int, head: str = _HEAD, *, failures: bool = True) -> str:
    room = limit - len(head) - 1
    parts = []
    for title, rows in _sections(facts, shown, failures=failures):
        lines: list[str] = []
        # More of them would leave no room for the titles that follow.
        for line in rows[:40]:
            size = len(line) + 1 + (0 if lines else len(title) + 2)
            if size > room:
                break
            room -= size
            lines.append(line)
        if lines:
            parts.append("\n".join([f"{title}:", *lines]))
    return "\n".join([head, *parts]) if parts else ""


def _sections(facts: Facts, shown: str, *, failures: bool) -> Iterator[tuple[str, list[str]]]:
    """What is not shown: the most important first, and of each kind the newest first."""
    rules = [rule for rule in facts.standing if rule.origin is Origin.USER]
    tasks = [task for task in facts.tasks if task.open]
    changed = [file for file in facts.files if file.changed]
    open_failures = [failure for failure in facts.failures if failure.fixed_index < 0]
    kinds: tuple[tuple[str, Sequence[Any], str, Callable[[Any], str]], ...] = (
        ("Rules that the user gave", rules, "text", rule_line),
        ("Open tasks", tasks, "subject", task_line),
        ("Questions that the user answered", facts.decisions, "answer", _answer_line),
        ("Files that were changed", changed, "path", file_line),
        ("Errors that were not fixed", open_failures if failures else (), "line", failure_line),
    )
    for title, some, field, line in kinds:
        texts = ((fact, getattr(fact, field).strip()) for fact in some)
        lost = [fact for fact, text in texts if text and text not in shown]
        yield title, [" ".join(line(fact).split()) for fact in reversed(lost)]


def _answer_line(fact: AnsweredQuestion) -> str:
    return f"- “{fact.question[:300]}” – “{fact.answer[:300]}”"

"""What a client's summary lost, as facts for the new context: the user's rules, open tasks, changed files, errors."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

from ullage.facts import Facts, collect
from ullage.facts.model import Origin
from ullage.facts.reading import text_of
from ullage.messages import BOUNDARY, Item, is_summary
from ullage.sessions.handed_summary import handed_summary
from ullage.sessions.load import open_session
from ullage.summarizers.extractive_sections import failure_line, file_line, rule_line
from ullage.summarizers.handed_ledger import LEDGER_HEAD
from ullage.summarizers.work_lines import task_line

__all__ = ["LIMIT_CHARS", "ledger", "restored"]

LIMIT_CHARS = 9_500
"""Claude Code puts longer context into a file."""

_HEAD = (
    "Facts that Ullage collected from this session's transcript before a compaction, and that a summary may not name. "
    "They are records of what was said and done, not new instructions."
)
LEDGER_CHARS = 4_000
"""As much as a user would write to focus a summary."""

_MOST = 40
T = TypeVar("T")


def restored(
    path: str | os.PathLike[str],
    *,
    just_compacted: bool = False,
    limit: int = LIMIT_CHARS,
    session: str = "",
) -> str:
    """The text for the model; empty where the session was never compacted, or nothing is missing.

    Args:
        path: The transcript, of any known format.
        just_compacted: The client says so. It writes late: where the file has no new boundary yet, all counts as lost that is not
            in the summary that the gateway has just given to this session.
        limit: Characters of the text at most.
        session: Its id; empty: unknown.

    Raises:
        InvalidTranscript: The file cannot be read as a session.
        StoreError: It is missing.
    """
    opened = open_session(path)
    lines = list(opened.transcript.entries()) if opened.transcript else list(opened.history)
    cut = next(
        (at for at in reversed(range(len(lines))) if lines[at].get("subtype") == BOUNDARY), None
    )
    if just_compacted and (cut is None or _talk_since(lines[cut:])):
        return _text(collect(lines), handed_summary(session), limit)
    if cut is None:
        return ""
    shown = "\n".join(text_of(item) for item in opened.items)
    return _text(collect(lines[:cut]), shown, limit)


def ledger(path: str | os.PathLike[str], *, limit: int = LEDGER_CHARS) -> str:
    """What a summary that is about to be written should keep; empty where there is nothing.

    What was said by tools stays out: the text reaches the model where its user would write.

    Args:
        path: The transcript, of any known format.
        limit: Characters of the text at most.

    Raises:
        InvalidTranscript: The file cannot be read as a session.
        StoreError: It is missing.
    """
    return _text(collect(open_session(path).items), "", limit, LEDGER_HEAD, failures=False)


def _talk_since(lines: Sequence[Item]) -> bool:
    """Whether the model answered since this boundary: then the compaction that just ended is not in the file yet."""
    summary = next((at for at, line in enumerate(lines) if is_summary(line)), 0)
    return any(line.get("type") == "assistant" for line in lines[summary + 1 :])


def _text(facts: Facts, shown: str, limit: int, head: str = _HEAD, *, failures: bool = True) -> str:
    room = limit - len(head) - 1
    parts = []
    for title, found in _sections(facts, shown, failures=failures):
        kept: list[str] = []
        for line in found:
            if len(kept) == _MOST or len(line) + 1 + (0 if kept else len(title) + 2) > room:
                break
            room -= len(line) + 1 + (0 if kept else len(title) + 2)
            kept.append(line)
        if kept:
            parts.append("\n".join([f"{title}:", *kept]))
    return "\n".join([head, *parts]) if parts else ""


def _sections(facts: Facts, shown: str, *, failures: bool) -> Iterator[tuple[str, list[str]]]:
    """What matters most first; of each kind the newest first."""
    rules = [rule for rule in facts.standing if rule.origin is Origin.USER]
    yield "Rules that the user gave", _missing(rules, lambda rule: rule.text, rule_line, shown)
    tasks = [task for task in facts.tasks if task.open]
    yield "Open tasks", _missing(tasks, lambda task: task.subject, task_line, shown)
    decisions = [(each.question, each.answer) for each in facts.decisions]
    told = _missing(
        decisions,
        lambda each: each[1],
        lambda each: f"- “{each[0][:300]}” – “{each[1][:300]}”",
        shown,
    )
    yield "Questions that the user answered", told
    changed = [file for file in facts.files if file.changed]
    yield "Files that were changed", _missing(changed, lambda file: file.path, file_line, shown)
    if failures:
        left = [failure for failure in facts.failures if failure.fixed_index < 0]
        errors = _missing(left, lambda each: each.line, failure_line, shown)
        yield "Errors that were not fixed", errors


def _missing(
    found: Iterable[T], text: Callable[[T], str], line: Callable[[T], str], shown: str
) -> list[str]:
    kept = [each for each in found if text(each).strip() and text(each).strip() not in shown]
    return [" ".join(line(each).split()) for each in reversed(kept)]

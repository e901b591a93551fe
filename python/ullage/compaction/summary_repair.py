"""Appends what a summary lost and code knows: user messages, files, commands, names. No model, no guessing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from ullage.facts.model import Facts
from ullage.facts.sections import KEPT_HEADING, KEPT_INPUT, user_message
from ullage.summarizers import extractive_sections
from ullage.summarizers.budgeted_text import cost, one_line, shorten
from ullage.summarizers.listed_names import shown

__all__ = ["SummaryRepair", "repair"]

LONGEST_INPUT = 600
"""Tokens of one user message in the repair; longer ones are shortened in the middle."""

MOST_NAMES = 120


class SummaryRepair(NamedTuple):
    """Text to append (empty if nothing is missing) and how many facts of each kind are in it."""

    text: str
    appended: Mapping[str, int]
    left_out: int  # facts that were missing and did not fit


def repair(
    facts: Facts, summary: str, *, tokens: int, user_tokens: int | None = None
) -> SummaryRepair:
    """What the summary lost of the facts, within a cap; over it, the least important are left out.

    The order is: user messages, decisions, files that were changed, open tasks, failures that were not
    seen to be resolved, commits, addresses, files that were read, names.

    Args:
        facts: Of what was summarised.
        summary: As the summarizer wrote it.
        tokens: The cap, in UTF-8 bytes / 4; 0: nothing is appended.
        user_tokens: Of that, most for the user's messages; `None`: no limit but the cap.
    """
    flat = " ".join(summary.split())
    room = tokens - cost(KEPT_HEADING)
    rows: list[str] = []
    appended: dict[str, int] = {}
    left_out = said = 0
    for kind, find in _KINDS:
        for row in find(facts, flat):
            price = cost(row)
            words = kind == "user_messages"
            if price > (
                room if user_tokens is None or not words else min(room, user_tokens - said)
            ):
                left_out += 1
                continue
            rows.append(row)
            room -= price
            said += price * words
            appended[kind] = appended.get(kind, 0) + 1
    return SummaryRepair("\n".join([KEPT_HEADING, *rows]) if rows else "", appended, left_out)


Finder = Callable[[Facts, str], list[str]]


def _inputs(facts: Facts, flat: str) -> list[str]:
    rows = []
    for number, entry in enumerate(facts.inputs, 1):
        if " ".join(entry.text.split()) not in flat:
            rows.append(KEPT_INPUT + user_message(number, shorten(entry.text, LONGEST_INPUT)))
    # Newest first where room is short; the numbers keep the order.
    return rows[::-1]


def _decisions(facts: Facts, flat: str) -> list[str]:
    return [
        f"- Decided: “{one_line(d.question, 200)}” → “{one_line(d.answer, 300)}”"
        for d in facts.decisions
        if one_line(d.answer, 300) not in flat
    ]


def _files(changed: bool) -> Finder:
    def find(facts: Facts, flat: str) -> list[str]:
        lost = [file for file in facts.files if file.changed is changed and file.path not in flat]
        return [extractive_sections.file_line(file) for file in sorted(lost, key=lambda f: -f.last)]

    return find


def _tasks(facts: Facts, flat: str) -> list[str]:
    lost = (t for t in facts.tasks if t.open and t.subject and one_line(t.subject, 300) not in flat)
    return [extractive_sections.task_line(task) for task in lost]


def _failures(facts: Facts, flat: str) -> list[str]:
    lost = [f for f in facts.failures if f.fixed_index < 0 and f.line and f.line not in flat]
    return [extractive_sections.failure_line(failure) for failure in lost[::-1]]


def _commits(facts: Facts, flat: str) -> list[str]:
    lost = [commit for commit in facts.commits if commit.digest not in flat]
    return [f"- Committed {c.digest} on {c.branch}: {c.subject}" for c in lost[::-1]]


def _urls(facts: Facts, flat: str) -> list[str]:
    return [f"- {url}" for url in facts.urls[::-1] if url not in flat]


def _names(facts: Facts, flat: str) -> list[str]:
    lost = [name.text for name in facts.names[:MOST_NAMES] if shown(name) not in flat]
    return [f"- Names: {', '.join(lost[at : at + 20])}" for at in range(0, len(lost), 20)]


_KINDS: tuple[tuple[str, Finder], ...] = (
    ("user_messages", _inputs),
    ("decisions", _decisions),
    ("changed_files", _files(True)),
    ("tasks", _tasks),
    ("failures", _failures),
    ("commits", _commits),
    ("urls", _urls),
    ("read_files", _files(False)),
    ("names", _names),
)

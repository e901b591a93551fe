"""Appends what a summary lost and code knows: user messages, files, commands, names. No model, no guessing."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import NamedTuple

from ullage.facts.model import Facts, Origin, UserInput
from ullage.facts.open_work import read_tasks, read_work
from ullage.facts.sections import KEPT_HEADING, KEPT_INPUT, user_message
from ullage.summarizers import extractive_sections, work_lines
from ullage.summarizers.budgeted_text import cost, one_line, shorten
from ullage.summarizers.listed_names import shown

__all__ = ["SummaryRepair", "repair", "with_rules"]

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

    The order is: user messages, decisions, files that were changed, rules, tasks that are open or no longer so, open work, failures that were not
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
        for row in find(facts, summary if kind in _BY_ROW else flat):
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


def with_rules(facts: Facts, summary: str, fixed: SummaryRepair) -> SummaryRepair:
    """The repair with every rule of the user that neither the summary nor the repair holds: none gives way to a target."""
    flat = " ".join(f"{summary} {fixed.text}".split())
    rows = [extractive_sections.rule_line(rule) for rule in _lost_rules(facts, flat)]
    if not rows:
        return fixed
    counts = {**fixed.appended, "rules": fixed.appended.get("rules", 0) + len(rows)}
    return SummaryRepair("\n".join([fixed.text or KEPT_HEADING, *rows]), counts, fixed.left_out)


def _lost_rules(facts: Facts, flat: str) -> list[UserInput]:
    texts = ((rule, " ".join(rule.text.split())) for rule in facts.standing)
    return [rule for rule, text in texts if text not in flat and one_line(text, 400) not in flat]


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


def _tasks(facts: Facts, summary: str) -> list[str]:
    """Open tasks without a row that says so: only what stands in one is still known after the next compaction."""
    told = {(task.subject, task.open) for task in read_tasks(summary, 0)}
    lost = (t for t in facts.tasks if t.open and t.subject)
    return [work_lines.task_line(t) for t in lost if (one_line(t.subject, 300), True) not in told]


def _closed(facts: Facts, summary: str) -> list[str]:
    """What is closed, where the summary names it without saying so, or the user's words do."""
    flat = " ".join(summary.split())
    words = work_lines.words_by_line(facts)
    told = {work.text for work in read_work(summary, 0)}
    tasks = (task for task in facts.tasks if task.subject and not task.open)
    rows = [work_lines.task_line(t) for t in tasks if _as_open(flat, one_line(t.subject, 300))]
    return rows + [
        work_lines.work_line(work)
        for work in facts.closed_work
        if work.text not in told and (work.text in words or _as_open(flat, work.text))
    ]


def _as_open(flat: str, text: str) -> bool:
    for place in _places(flat, text):
        before, after = flat[max(place - 12, 0) : place], flat[place + len(text) :][:40]
        if not _SAYS_DONE.search(f"{before}|{after}"):
            return True
    return False


_SAYS_DONE = re.compile(
    r"\[x\]|✅|✓|✔|\b(?:done|complete\w*|finished|cancel\w*|closed|fixed|withdrawn)\b", re.I
)


def _places(text: str, part: str) -> list[int]:
    return [found.start() for found in re.finditer(re.escape(part), text)]


def _rules(facts: Facts, flat: str) -> list[str]:
    lost = _lost_rules(facts, flat)
    return [extractive_sections.rule_line(rule) for rule in lost if rule.origin is Origin.SUMMARY]


def _still_open(facts: Facts, summary: str) -> list[str]:
    told = {work.text for work in read_work(summary, 0)}
    rows = [work_lines.work_line(work) for work in facts.still_open if work.text not in told]
    return rows[-MOST_OPEN:]


MOST_OPEN = 40


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


_BY_ROW = ("tasks", "closed_tasks", "still_open")
"""Found by the lines of the summary; the others in its text on one line."""

_KINDS: tuple[tuple[str, Finder], ...] = (
    ("user_messages", _inputs),
    ("decisions", _decisions),
    ("changed_files", _files(True)),
    ("rules", _rules),
    ("tasks", _tasks),
    ("closed_tasks", _closed),
    ("still_open", _still_open),
    ("failures", _failures),
    ("commits", _commits),
    ("urls", _urls),
    ("read_files", _files(False)),
    ("names", _names),
)

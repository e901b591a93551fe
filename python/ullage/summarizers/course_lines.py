"""What section 5 says: decisions, reports, figures, commands and commits in order of time."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from ullage.facts.answers_found import figures
from ullage.facts.model import Command, Facts, Statement
from ullage.facts.tallies import command_key
from ullage.facts.tried_work import only_looks
from ullage.summarizers.budgeted_text import Unit, inline, one_line
from ullage.summarizers.essentials import ESSENTIAL

__all__ = ["NEWEST_SAID", "asides", "problem_solving", "since_request"]

LINE = 160

WEIGHTY = 240
"""Characters from which words in the middle of a turn count as a finding, not as a remark."""

SEEN = 48
SETTLED = 12
FIGURES = 8
"""How many of the newest of each are listed."""

NEWEST_SAID = 8
"""Remarks since the newest request that section 8 repeats."""


def problem_solving(facts: Facts) -> list[Unit]:
    """Section 5: decisions, what the assistant reported at the end of each turn, commands, commits."""
    dated = [
        *_decisions(facts),
        *_settled(facts),
        *_reports(facts),
        *_agents(facts),
        *_commands(facts),
        *_commits(facts),
    ]
    return [unit for _, unit in sorted(dated, key=lambda pair: pair[0])]


Dated = tuple[int, Unit]
"""A line and the index of the message that it is about: the section is in order of time."""


def _decisions(facts: Facts) -> list[Dated]:
    return [
        (
            d.index,
            Unit(
                f"- Decided: “{one_line(d.question, 200)}” → “{one_line(d.answer, 300)}”",
                -ESSENTIAL,
            ),
        )
        for d in facts.decisions
    ]


def _settled(facts: Facts) -> list[Dated]:
    """What the assistant said was decided, and then the figures that it reported."""
    told = facts.settled[-SETTLED:]
    known = {said.text for said in told}
    reported = [said for said in _figures(facts) if said.text not in known]
    return [*_said_lines(told, 0), *_said_lines(reported, SETTLED)]


def _said_lines(told: Sequence[Statement], after: int) -> list[Dated]:
    return [
        (
            said.index,
            Unit(f"- The assistant said: “{said.text}”", len(told) - at + after - ESSENTIAL),
        )
        for at, said in enumerate(told)
    ]


def _figures(facts: Facts) -> list[Statement]:
    found: dict[str, Statement] = {}
    for said in reversed(facts.statements):
        for text in reversed(figures(said.text)):
            found.setdefault(text, replace(said, text=text))
        if len(found) >= FIGURES:
            break
    return list(found.values())[FIGURES - 1 :: -1]


def since_request(facts: Facts) -> list[Statement]:
    """What the assistant said after the newest message of the user."""
    since = facts.inputs[-1].index if facts.inputs else -1
    return [said for said in facts.statements if said.index > since]


def asides(facts: Facts) -> list[Unit]:
    """For section 5: what results say in a line, in order of time; the best ranked first."""
    ranked = sorted(enumerate(facts.findings[:SEEN]), key=lambda pair: pair[1].index)
    return [Unit(f"- Seen: {_as_data(fact.line)}", rank) for rank, fact in ranked]


def _as_data(line: str) -> str:
    return line if line.startswith(("http://", "https://")) else inline(line, LINE)


def _reports(facts: Facts) -> list[Dated]:
    """What the assistant said at the end of each turn, and its longer findings before that."""
    recent = {said.index for said in since_request(facts)[-NEWEST_SAID:]}
    told = [s for s in facts.statements[:-1] if s.index not in recent]
    told = [s for s in told if s.closing or len(s.text) >= WEIGHTY]
    told = _once(told)
    dated = []
    for age, said in enumerate(reversed(told), 1):
        text = one_line(said.text, 420 if age <= 4 else 220)
        label = "Reported" if said.closing else "Found"
        dated.append((said.index, Unit(f"- {label}: {text}", age * (2 if said.closing else 4))))
    return dated


def _once(told: list[Statement]) -> list[Statement]:
    """Each text once, at its newest place."""
    newest = {" ".join(said.text.split()): said for said in told}
    return sorted(newest.values(), key=lambda said: said.index)


def _agents(facts: Facts) -> list[Dated]:
    dated = []
    for age, run in enumerate(reversed(facts.agents), 1):
        text = f"- Sub-agent “{one_line(run.what, 120)}” answered (data): {inline(run.answer, 300)}"
        if not run.answer:
            text = f"- Background task: {inline(run.what, 300)}"
        dated.append((run.index, Unit(text, 6 + 2 * age)))
    return dated


def _commits(facts: Facts) -> list[Dated]:
    return [
        (c.index, Unit(f"- Committed {c.digest} on {c.branch}: {c.subject}", 2 + age))
        for age, c in enumerate(reversed(facts.commits), 1)
    ]


def _commands(facts: Facts) -> list[Dated]:
    """The newest run of each command, without those that section 8 lists."""
    newest = {command.text: at for at, command in enumerate(facts.commands)}
    since = facts.inputs[-1].index if facts.inputs else -1
    dated = []
    for at in newest.values():
        command, age = facts.commands[at], len(facts.commands) - at
        if command.index <= since and not _COMMITTED.match(command.line):
            text = f"- Ran {inline(command.text, LINE)}{_end(command)}"
            only_looked = only_looks(command_key(command.text))
            dated.append((command.index, Unit(text, 4 + age * 2 + 60 * only_looked)))
    return dated


_COMMITTED = re.compile(r"^\[\S+(?: \([\w -]+\))? [0-9a-f]{7,40}\] ")
"""`git commit` said this: the commit has a line of its own."""

_FAILED_LINE = re.compile(
    r"^(?:FAIL|--- FAIL|E {2,}|error\b|fatal:)|\b[1-9]\d* (?:failed|errors?)\b", re.I
)


def _end(command: Command) -> str:
    if command.ok is None:
        return " → refused or stopped"
    code = f" (exit {command.exit_code})" if command.exit_code else ""
    seconds = f" in {command.duration_ms // 1000} s" if command.duration_ms >= 10_000 else ""
    line = f": {inline(command.line, 140)}" if command.line else ""
    # The exit code of a pipe is that of its last part: a line that tells of a failure outranks it.
    doubtful = command.ok and _FAILED_LINE.search(command.line)
    how = "ended" if doubtful else "ok" if command.ok else "failed"
    return f" → {how}{code}{seconds}{line}"

"""What section 7 says: the session's own lists, what was said to be open or done, and what nobody answered."""

from __future__ import annotations

from ullage.facts.model import Facts, Task, WorkItem
from ullage.facts.open_work import task_row, work_row
from ullage.facts.sections import quoted
from ullage.summarizers.budgeted_text import Unit, one_line, shorten
from ullage.summarizers.essentials import ESSENTIAL

__all__ = ["pending", "task_line", "words_by_line", "work_line"]

STILL_OPEN = 40
CLOSED = 12
"""How many of the newest of each are listed. What the user said to do is read from the user's words again: all of it that is closed must be."""


def pending(facts: Facts) -> list[Unit]:
    """Section 7: what is still to do, by the session's own lists, and what nobody answered."""
    units = []
    if facts.open_question:
        asked = one_line(facts.open_question, 500)
        units.append(Unit(f"- Waiting for the user's answer to: “{asked}”", -2 * ESSENTIAL))
    rows = sorted((t for t in facts.tasks if t.subject), key=lambda task: not task.open)
    units.extend(
        Unit(task_line(row), at - ESSENTIAL if row.open else 100 + at)
        for at, row in enumerate(rows)
    )
    units.extend(_said(facts))
    if facts.plan_mode:
        units.append(
            Unit("- Plan mode is on: nothing may be changed before the plan is approved", 0)
        )
    if facts.plan:
        units.append(Unit(f"- Approved plan:\n{quoted(shorten(facts.plan, 500))}", 50))
    return units


def _said(facts: Facts) -> list[Unit]:
    """What was said to be to do: everything that is open, and the newest that no longer is."""
    words = words_by_line(facts)
    told = [work for work in facts.still_open if work.call or work.text not in words][-STILL_OPEN:]
    units = [Unit(work_line(work), len(told) - at - ESSENTIAL) for at, work in enumerate(told)]
    own = [work for work in facts.closed_work if work.text in words]
    others = [work for work in facts.closed_work if work.text not in words][-CLOSED:]
    units += [Unit(work_line(work), len(own) - at - ESSENTIAL) for at, work in enumerate(own)]
    return units + [Unit(work_line(work), 100 + len(others) - at) for at, work in enumerate(others)]


def words_by_line(facts: Facts) -> str:
    """The user's messages, each on one line, in which the words of work are looked for."""
    return "\n".join(" ".join(entry.text.split()) for entry in facts.inputs)


def work_line(work: WorkItem) -> str:
    """What was said to be to do, with its state."""
    return work_row(work, one_line(work.text, 300))


def task_line(task: Task) -> str:
    """A task with its state."""
    return task_row(task, one_line(task.subject, 300))

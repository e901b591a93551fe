"""Work that was said to be open, until somebody says that it is done or no longer wanted."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from ullage.facts.commitments import CommitmentKind, commitments_among
from ullage.facts.fences import unfenced
from ullage.facts.model import Origin, Task, WorkItem, WorkState
from ullage.facts.tried_work import Tried, TriedWork, same_work

__all__ = ["OpenWork", "read_tasks", "read_work", "task_row", "todos_of", "work_row"]

_DONE = re.compile(
    r"\b(?:done|finished|completed?|implemented|fixed|written|added|migrated|merged|resolved|closed|verified|renamed|archived|deployed|"
    r"tested|translated|updated|removed|is in|are in|erledigt|fertig|hecho|terminado|fait|terminé|feito|готово|сделано)\b|完成|終わりました|完了",
    re.IGNORECASE,
)
_NOT_DONE = re.compile(
    r"\b(?:not|n['’]t|never|still|yet|todo|fixme|open|remain\w*|before|once|after|if|when|until|will|need\w*|must|should|to be|nicht|noch|no|pas|не)\b|[?？]",
    re.IGNORECASE,
)
_WITHDRAWN = re.compile(
    r"^\W*(?:(?:please|ok(?:ay)?|so|and|no)[, ]+)*(?:forget(?: about)?|never ?mind|skip|drop|cancel|leave out|don['’]?t bother with|no need (?:to|for)|"
    r"we (?:no longer|don['’]?t) need|you (?:no longer|don['’]?t) (?:need|have) to|vergiss|lass|olvida|oublie|esqueça|забудь)\b|不用|不需要",
    re.IGNORECASE,
)
_BREAK = re.compile(r"(?<=[.!?。！？])\s|\n")
MOST_OPEN = 200
MOST_CLOSED = 200


class OpenWork:
    """Work by its words; what is closed does not come back unless somebody opens it again."""

    def __init__(self) -> None:
        self._open: dict[str, WorkItem] = {}
        self._closed: dict[str, WorkItem] = {}
        self._tried = TriedWork()

    def go_on(self, earlier: OpenWork) -> None:
        """Continue from what an earlier part of the conversation left."""
        self._open.update(earlier._open)
        self._closed.update(earlier._closed)
        self._tried = earlier._tried

    def opened(self, work: WorkItem) -> None:
        """Somebody says that this is still to do."""
        text = " ".join(work.text.split())
        if len(self._open) < MOST_OPEN or text in self._open:
            self._closed.pop(text, None)
            self._open.pop(text, None)
            self._open[text] = replace(work, text=text)

    def restored(self, work: WorkItem) -> None:
        """A summary says so: not news, and not where more is known, except who said it first."""
        text = " ".join(work.text.split())
        still = work.state in (WorkState.OPEN, WorkState.FAILED)
        goes_on = text not in self._closed and (still or text in self._open)
        group = self._open if goes_on else self._closed
        known = group.get(text)
        group[text] = replace(known, origin=work.origin) if known else replace(work, text=text)

    def said(self, text: str, index: int, *, by_user: bool = False) -> None:
        """Close what a text reports as done; the user can also withdraw it."""
        if not self._open:
            return
        for part in _BREAK.split(unfenced(text)):
            if by_user and _WITHDRAWN.search(part):
                self._close(part, index, WorkState.WITHDRAWN)
            elif _DONE.search(part) and not _NOT_DONE.search(part):
                self._close(part, index, WorkState.DONE)

    def _close(self, sentence: str, index: int, state: WorkState) -> None:
        for text in [text for text in self._open if same_work(sentence, text)]:
            work = _after(self._tried.newest(text), self._open.pop(text))
            call = work.call if state is WorkState.DONE and not work.error else ""
            self._closed[text] = replace(work, index=index, state=state, call=call, error="")

    def has_open(self) -> bool:
        """Whether anything is."""
        return bool(self._open)

    def tried(self, given: str, result: Tried, others: Sequence[str] = ()) -> None:
        """A call that does something has its result.

        Args:
            given: The strings of its input.
            result: What it came to.
            others: Further work that is open.
        """
        self._tried.tried((*self._open, *others), given, result)

    @property
    def calls(self) -> TriedWork:
        """What calls about open work came to."""
        return self._tried

    def items(self) -> tuple[WorkItem, ...]:
        """What is open, oldest first."""
        return tuple(_after(self._tried.newest(work.text), work) for work in self._open.values())

    def closed(self) -> tuple[WorkItem, ...]:
        """What was, in the order in which it was closed."""
        return tuple(self._closed.values())[-MOST_CLOSED:]


def _after(tried: Tried | None, work: WorkItem) -> WorkItem:
    if tried is None:
        return work
    state = WorkState.OPEN if tried.ok else WorkState.FAILED
    return replace(work, state=state, call=tried.call, error=tried.error)


def todos_of(index: int, given: Sequence[tuple[str, str]]) -> list[WorkItem]:
    """What the user says is still to do.

    Args:
        index: Of the message.
        given: The user's sentences in it, as `typed_sentences` finds them.
    """
    return [
        WorkItem(index, found.text, origin=Origin.USER)
        for found in commitments_among(given)
        if found.kind is CommitmentKind.TODO
    ]


# ---- rows of a summary --------------------------------------------------------------------------

_CALL = r"call (?P<call>\S{1,200}) (?:succeeded|failed: `(?P<error>.+)`)"
_TASK = re.compile(
    rf"^- \[[ x]\] (?:#(?P<id>\w{{1,20}}) )?(?P<text>.+?) \((?P<status>[\w -]{{1,40}}?)(?: by call (?P<by>\S{{1,200}})|; {_CALL})?\)$"
)
_SAID = re.compile(
    rf"^- (?P<head>Said to be open|Done|Withdrawn): (?P<text>.+?)(?: \((?:by call (?P<by>\S{{1,200}})|{_CALL})\))?$"
)
_STATES = {"Done": WorkState.DONE, "Withdrawn": WorkState.WITHDRAWN}
_HEADS = {state: head for head, state in _STATES.items()}


def task_row(task: Task, subject: str) -> str:
    """A task with its state, as `read_tasks` reads it.

    Args:
        task: The task.
        subject: What it is about, in one line.
    """
    number = f"#{task.id} " if task.board else ""
    suffix = _told(task)
    suffix = f" {suffix}" if suffix.startswith("by ") else f"; {suffix}" if suffix else ""
    return f"- [{' ' if task.open else 'x'}] {number}{subject} ({task.status}{suffix})"


def work_row(work: WorkItem, text: str) -> str:
    """What was said to be open with its state, as `read_work` reads it.

    Args:
        work: The work.
        text: The same in one line.
    """
    suffix = _told(work)
    return (
        f"- {_HEADS.get(work.state, 'Said to be open')}: {text}{f' ({suffix})' if suffix else ''}"
    )


def _told(work: Task | WorkItem) -> str:
    if not work.call:
        return ""
    if work.state in (WorkState.DONE, WorkState.WITHDRAWN):
        return f"by call {work.call}"
    error = work.error.replace("`", "'")
    return f"call {work.call} failed: `{error}`" if error else f"call {work.call} succeeded"


def read_tasks(section: str, index: int) -> list[Task]:
    """The tasks that a summary lists, with their state.

    Args:
        section: The seventh of the summary.
        index: Of the summary's message.
    """
    found = (_TASK.match(line) for line in section.split("\n"))
    return [
        Task(
            row["id"] or str(at),
            row["text"],
            row["status"],
            index,
            board=row["id"] is not None,
            call=row["by"] or row["call"] or "",
            error=row["error"] or "",
        )
        for at, row in enumerate(filter(None, found), 1)
    ]


def read_work(section: str, index: int) -> list[WorkItem]:
    """What a summary says was to do, with its state; see `read_tasks`."""
    found = filter(None, (_SAID.match(line) for line in section.split("\n")))
    return [
        WorkItem(
            index,
            row["text"],
            WorkState.FAILED if row["error"] else _STATES.get(row["head"], WorkState.OPEN),
            call=row["by"] or row["call"] or "",
            error=row["error"] or "",
        )
        for row in found
    ]

"""Follows a todo list or task board through the calls that change it, whichever tool a host has for it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ullage.facts.calls import Action
from ullage.facts.model import Task, WorkState
from ullage.facts.reading import clean
from ullage.facts.tried_work import TriedWork

__all__ = ["TaskBoard"]

MAX_TASKS = 500

_ID = re.compile(r"#(\w{1,20})")
_SUBJECT_KEYS = ("content", "step", "subject", "title", "description", "text", "task")


class TaskBoard:
    """The newest state of the tasks."""

    def __init__(self) -> None:
        self._list: tuple[Task, ...] = ()
        self._board: dict[str, Task] = {}

    def restore(self, tasks: Sequence[Task]) -> None:
        """Continue from the tasks of a summary, unless the calls themselves were seen."""
        if self._list or self._board:
            return
        self._list = tuple(task for task in tasks if not task.board)
        self._board = {task.id: task for task in tasks if task.board}

    def done(self, action: Action, given: Any, result: str, index: int, call: str = "") -> None:
        """Apply a call that succeeded.

        Args:
            action: What the call does; actions that do not concern tasks are ignored.
            given: Its input.
            result: Its output, which has the number of a new task.
            index: Index of the call.
            call: Its id.
        """
        if not isinstance(given, Mapping):
            return
        if action is Action.TODO:
            known = {task.subject: task for task in self._list}
            rows = _listed(given, index)
            self._list = tuple(_changed(known.get(row.subject), row, call) for row in rows)
        elif action is Action.TASK_CREATE:
            self._create(_subject(given), result, index)
        elif action is Action.TASK_UPDATE:
            self._update(given, index, call)

    def _create(self, subject: str, result: str, index: int) -> None:
        found = _ID.search(result[:300])
        key = found[1] if found else str(len(self._board) + 1)
        if len(self._board) < MAX_TASKS:
            self._board[key] = Task(key, subject, "pending", index, board=True)

    def _update(self, given: Mapping[str, Any], index: int, call: str) -> None:
        key = clean(given.get("taskId", given.get("id")), 20)
        task = self._board.get(key) or Task(key, "", "pending", index, board=True)
        status = clean(given.get("status"), 40) or task.status
        subject = clean(given.get("subject"), 500) or task.subject
        new = replace(task, status=status, subject=subject, index=index)
        self._board[key] = _changed(task, new, call)

    def open_subjects(self) -> list[str]:
        """What the open ones are about."""
        return [task.subject for task in (*self._list, *self._board.values()) if task.open]

    def tasks(self, tried: TriedWork) -> tuple[Task, ...]:
        """The list, then the board, each in its own order.

        Args:
            tried: What calls about them came to.
        """
        board = (task for task in self._board.values() if task.status != "deleted")
        return tuple(_after(tried, task) for task in (*self._list, *board))


def _changed(old: Task | None, new: Task, call: str) -> Task:
    """A task with the call that closed it; what is known of calls about it stays."""
    if old is not None and (old.state is new.state or (old.open and new.open)):
        return replace(new, call=old.call, error=old.error)
    did = old.call if old and old.open and not old.error and new.state is WorkState.DONE else ""
    return replace(new, call="" if new.open else did or call, error="")


def _after(tried: TriedWork, task: Task) -> Task:
    newest = tried.newest(task.subject)
    if newest is None or task.state is WorkState.WITHDRAWN:
        return task
    if task.state is WorkState.DONE:
        return replace(task, call=newest.call) if newest.ok else task
    return replace(task, call=newest.call, error=newest.error)


def _listed(given: Mapping[str, Any], index: int) -> tuple[Task, ...]:
    for key in ("todos", "plan", "items", "tasks"):
        rows = given.get(key)
        if isinstance(rows, Sequence) and not isinstance(rows, str):
            return tuple(_row(row, at, index) for at, row in enumerate(rows[:MAX_TASKS], 1))
    return ()


def _row(row: Any, at: int, index: int) -> Task:
    if not isinstance(row, Mapping):
        return Task(str(at), clean(row, 500), "pending", index)
    return Task(str(at), _subject(row), clean(row.get("status"), 40) or "pending", index)


def _subject(row: Mapping[str, Any]) -> str:
    for key in _SUBJECT_KEYS:
        if isinstance(row.get(key), str) and row[key].strip():
            return clean(row[key], 500).strip()
    return ""

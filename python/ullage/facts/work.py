"""Work that was said to be open, until somebody says that it is done or no longer wanted."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

from ullage._start import NamedTuple, pattern
from ullage.facts.calls import Action
from ullage.facts.model import STILL_OPEN, AgreedState, Origin, Task, WorkItem
from ullage.facts.rules import CommitmentKind, commitments_among
from ullage.facts.words import clean, unfenced

_DONE = pattern(
    r"\b(?:done|finished|completed?|implemented|fixed|written|added|migrated|merged|resolved|closed|verified|renamed|archived|deployed|"
    r"tested|translated|updated|removed|is in|are in|erledigt|fertig|hecho|terminado|fait|terminé|feito|готово|сделано)\b|完成|終わりました|完了",
    re.IGNORECASE,
)
_NOT_DONE = pattern(
    r"\b(?:not|n['’]t|never|still|yet|todo|fixme|open|remain\w*|before|once|after|if|when|until|will|need\w*|must|should|to be|nicht|noch|no|pas|не)\b|[?？]",
    re.IGNORECASE,
)
_WITHDRAWN = pattern(
    r"^\W*(?:(?:please|ok(?:ay)?|so|and|no)[, ]+)*(?:forget(?: about)?|never ?mind|skip|drop|cancel|leave out|don['’]?t bother with|no need (?:to|for)|"
    r"we (?:no longer|don['’]?t) need|you (?:no longer|don['’]?t) (?:need|have) to|vergiss|lass|olvida|oublie|esqueça|забудь)\b|不用|不需要",
    re.IGNORECASE,
)
_BREAK = pattern(r"(?<=[.!?。！？])\s|\n")
MOST_OPEN = 200
MOST_CLOSED = 200


# Which tool call did a piece of work, or failed at it: the newest one that names all that the work names.

# Of a call's input that are compared, and of one that writes to a file.
CALL_CHARS, FILE_CHARS = 4000, 400
LEAST_STEMS = 2  # of work that names nothing: fewer words could be of anything
SAME_PERCENT = 70  # of the words of work that names nothing, which another text about it must hold
# The same where the work names something: all of its names must be there too.
SAME_WORDS_PERCENT = 40
STEM = 5  # characters of a word that count: `archive` is done by `archived`
_WORD = pattern(r"[\w./-]{4,}")
_NAME = pattern(r"[\d_./]")
_COMMON = frozenset(
    "todo fixme still need needs have open remains later before after with that this there from done left next"
    " step steps then afterwards todo: also will must should could into over only when what which been were your them they".split()
)


class Tried(NamedTuple):
    """What a call about some work came to."""

    call: str  # its id
    ok: bool
    error: str  # the line that says why it failed


def _is_about(call_text: str, text: str) -> bool:
    """Whether a call is about this work: `harbor_10` is not about `harbor_1`."""
    names, words = _telling(text)
    if names:
        return all(
            name in call_text
            and re.search(rf"(?<![a-z0-9]){re.escape(name)}(?![a-z0-9]|\.\d)", call_text)
            for name in names
        )
    shared = sum(map(call_text.__contains__, words))
    return len(words) >= LEAST_STEMS and shared * 100 >= len(words) * SAME_PERCENT


def is_same(sentence: str, text: str) -> bool:
    """Whether a sentence is about this work."""
    names, words = _telling(sentence)
    own_names, own_words = _telling(text)
    enough = SAME_WORDS_PERCENT if own_names else SAME_PERCENT
    if not own_names <= names or len(own_words & words) * 100 < len(own_words) * enough:
        return False
    return bool(own_names or own_words)


@lru_cache(maxsize=1024)  # open work is compared with each later sentence; at most 500 characters
def _telling(text: str) -> tuple[frozenset[str], frozenset[str]]:
    """The names in a text (with a digit, an underscore, a dot or a slash), and the stems of its other words."""
    lowered = {word.strip("./-").lower() for word in _WORD.findall(text)}
    names = frozenset(word for word in lowered if _NAME.search(word))
    words = (word[:STEM] for word in lowered - names if word not in _COMMON and len(word) >= 4)
    return names, frozenset(words)


class OpenWork:
    """Work by its words; what is closed does not come back unless somebody opens it again."""

    def __init__(self) -> None:
        self._open: dict[str, WorkItem] = {}
        self._closed: dict[str, WorkItem] = {}
        self.calls: dict[str, Tried] = {}  # the newest call about each piece of work

    def go_on(self, earlier: OpenWork) -> None:
        """Continue from what an earlier part of the conversation left."""
        self._open.update(earlier._open)
        self._closed.update(earlier._closed)
        self.calls = earlier.calls

    def opened(self, work: WorkItem) -> None:
        """Somebody says that this is still to do."""
        text = " ".join(work.text.split())
        if len(self._open) < MOST_OPEN or text in self._open:
            self._closed.pop(text, None)
            self._open.pop(text, None)
            self._open[text] = replace(work, text=text)

    def forget(self, texts: Sequence[str]) -> None:
        """It was no work that is left, or somebody has begun it."""
        for text in texts:
            self._open.pop(" ".join(text.split()), None)

    def restored(self, work: WorkItem) -> None:
        """A summary says so: not news, and not where more is known, except who said it first."""
        text = " ".join(work.text.split())
        goes_on = text not in self._closed and (work.state in STILL_OPEN or text in self._open)
        group = self._open if goes_on else self._closed
        earlier = group.get(text)
        group[text] = replace(earlier, origin=work.origin) if earlier else replace(work, text=text)

    def stated(self, text: str, index: int, *, by_user: bool = False) -> None:
        """Close what a text reports as done; the user can also withdraw it."""
        if not self._open:
            return
        for part in _BREAK.split(unfenced(text)):
            if by_user and _WITHDRAWN.search(part):
                self._close(part, index, AgreedState.WITHDRAWN)
            elif _DONE.search(part) and not _NOT_DONE.search(part):
                self._close(part, index, AgreedState.DONE)

    def _close(self, sentence: str, index: int, state: AgreedState) -> None:
        for text in [text for text in self._open if is_same(sentence, text)]:
            work = _after(self.calls.get(text), self._open.pop(text))
            call = work.call if state is AgreedState.DONE and not work.error else ""
            self._closed[text] = replace(work, index=index, state=state, call=call, error="")

    def tried(self, input_text: str, result: Tried, others: Sequence[str]) -> None:
        """A call with these strings in its input has its result; `others`: further work that is open."""
        if self._open or others:
            call_text = input_text[:CALL_CHARS].lower()
            for text in (*self._open, *others):
                if _is_about(call_text, text):
                    self.calls[text] = result

    def items(self) -> tuple[WorkItem, ...]:
        """What is open, oldest first."""
        return tuple(_after(self.calls.get(work.text), work) for work in self._open.values())

    def closed(self) -> tuple[WorkItem, ...]:
        """What was, in the order in which it was closed."""
        return tuple(self._closed.values())[-MOST_CLOSED:]


def _after(tried: Tried | None, work: WorkItem) -> WorkItem:
    if tried is None:
        return work
    state = AgreedState.OPEN if tried.ok else AgreedState.FAILED
    return replace(work, state=state, call=tried.call, error=tried.error)


def todos_of(index: int, sentences: Sequence[tuple[str, str]]) -> list[WorkItem]:
    """What the user says is still to do, of sentences that `typed_sentences` found in the message at an index."""
    return [
        WorkItem(index, commitment.text, origin=Origin.USER)
        for commitment in commitments_among(sentences)
        if commitment.kind is CommitmentKind.TODO
    ]


# ---- rows of a summary --------------------------------------------------------------------------

_CALL = r"call (?P<call>\S{1,200}) (?:succeeded|failed: `(?P<error>.+)`)"
_TASK = pattern(
    rf"^- \[[ x]\] (?:#(?P<id>[\w.-]{{1,20}}) )?(?P<text>.+?) \((?P<status>[\w -]{{1,40}}?)(?: by call (?P<by>\S{{1,200}})|; {_CALL})?\)$"
)
_WORK = pattern(
    rf"^- (?P<head>Said to be open|Done|Withdrawn): (?P<text>.+?)(?: \((?:by call (?P<by>\S{{1,200}})|{_CALL})\))?$"
)
_STATES = {"Done": AgreedState.DONE, "Withdrawn": AgreedState.WITHDRAWN}
_HEADS = {state: head for head, state in _STATES.items()}


def task_row(task: Task, subject: str) -> str:
    """A task with its state, as `read_tasks` reads it; `subject`: in one line."""
    suffix = _call_note(task)
    suffix = f" {suffix}" if suffix.startswith("by ") else f"; {suffix}" if suffix else ""
    return f"- [{' ' if task.open else 'x'}] {numbered(task, subject)} ({task.status}{suffix})"


def numbered(task: Task, subject: str) -> str:
    """What a task is about, after the number by which a task board knows it."""
    return f"#{task.id} {subject}" if task.board else subject


def work_row(work: WorkItem, text: str) -> str:
    """What was said to be open with its state, as `read_work` reads it; `text`: in one line."""
    suffix = f" ({note})" if (note := _call_note(work)) else ""
    return f"- {_HEADS.get(work.state, 'Said to be open')}: {text}{suffix}"


def _call_note(work: Task | WorkItem) -> str:
    if not work.call:
        return ""
    if work.state in (AgreedState.DONE, AgreedState.WITHDRAWN):
        return f"by call {work.call}"
    error = work.error.replace("`", "'")
    return f"call {work.call} failed: `{error}`" if error else ""


def details_row(task: Task, details: str) -> str:
    """What a board's task says under its title, as `read_tasks` reads it; `details`: in one line."""
    return f"{DETAILS}{task.id}: “{details}”"


DETAILS = "- Of #"
_DETAILS = pattern(rf"^{DETAILS}([\w.-]{{1,20}}): “(.+)”$", re.M)
FINISHED = "- Finished: "
"""Begins the line that has only the numbers and titles of finished tasks, where there is no room for a row of each: the calls that finished them are left out."""
_FINISHED = pattern(rf"^{FINISHED}(.+)$", re.M)
_NUMBERED = pattern(r"^(?:#([\w.-]{1,20}) )?(.*)")


def read_tasks(section: str, index: int) -> list[Task]:
    """The tasks that section 7 of a summary (at an index) lists, with their state."""
    tasks: list[Task] = []
    details = dict(_DETAILS.findall(section))
    for row in _rows(_TASK, section):
        by, error, key = row["by"] or row["call"] or "", row["error"] or "", row["id"]
        number, board = key or str(len(tasks) + 1), key is not None
        task = Task(number, row["text"], row["status"], index, board=board, call=by, error=error)
        tasks.append(replace(task, details=details.get(number, "")) if board else task)
    for titles in _FINISHED.findall(section):
        for title in titles.split("; "):
            number, subject = _NUMBERED.findall(title)[0]
            key = number or str(len(tasks) + 1)
            tasks.append(Task(key, subject, "completed", index, board=bool(number)))
    return tasks


def read_work(section: str, index: int) -> list[WorkItem]:
    """What a summary says was to do, with its state; see `read_tasks`."""
    works = []
    for row in _rows(_WORK, section):
        by, error = row["by"] or row["call"] or "", row["error"] or ""
        state = AgreedState.FAILED if error else _STATES.get(row["head"], AgreedState.OPEN)
        works.append(WorkItem(index, row["text"], state, call=by, error=error))
    return works


def _rows(pattern: re.Pattern[str], section: str) -> list[re.Match[str]]:
    rows = (line for line in section.split("\n") if line.startswith("- "))
    return [match for line in rows if (match := pattern.match(line))]


# Follows a todo list or task board through the calls that change it, whichever tool a host has for it.


MAX_TASKS, MOST_FINISHED = 500, 40
_ID = pattern(r"#(\w{1,20})")
_SUBJECT_KEYS = ("content", "step", "subject", "title", "description", "text", "task")


class TaskBoard:
    """The newest state of the tasks."""

    def __init__(self) -> None:
        self._list: tuple[Task, ...] = ()
        self._board: dict[str, Task] = {}
        # What the open ones are about; `None`: to be found again.
        self._open: list[str] | None = None

    def restore(self, tasks: Sequence[Task]) -> None:
        """Continue from the tasks of a summary, unless the calls themselves were seen."""
        if not self._list and not self._board:
            self._list = tuple(task for task in tasks if not task.board)
            self._board = {task.id: task for task in tasks if task.board}
            self._open = None

    def done(
        self, action: Action, call_input: Any, result: str, index: int, call: str = ""
    ) -> None:
        """Apply a call that succeeded: what it does, its input, its output (with the number of a new task), its message and its id."""
        if action not in _ON_TASKS or not isinstance(call_input, Mapping):
            return
        self._open = None
        if action is Action.TODO:
            earlier = {task.subject: task for task in self._list}
            rows = _listed(call_input, index)
            listed = {row.subject for row in rows}
            # What a list leaves out stays finished.
            finished = (task for task in self._list if task.state is AgreedState.DONE)
            before = [task for task in finished if task.subject not in listed][-MOST_FINISHED:]
            changed = (_changed(earlier.get(row.subject), row, call) for row in rows)
            self._list = (*before, *changed)[-MAX_TASKS:]
        elif action is Action.TASK_CREATE:
            match = _ID.search(result[:300])
            key = match[1] if match else str(len(self._board) + 1)
            if len(self._board) < MAX_TASKS:
                title = _subject(call_input)
                details = _details(call_input, title)
                self._board[key] = Task(key, title, "pending", index, board=True, details=details)
        else:
            key = clean(call_input.get("taskId", call_input.get("id")), 20)
            task = self._board.get(key) or Task(key, "", "pending", index, board=True)
            status = clean(call_input.get("status"), 40) or task.status
            subject = clean(call_input.get("subject"), 500) or task.subject
            # Of one that was made before these messages its first sentence.
            subject = subject or clean(call_input.get("description"), 500).partition(". ")[0]
            details = _details(call_input, subject) or task.details
            new = replace(task, status=status, subject=subject, index=index, details=details)
            self._board[key] = _changed(task, new, call)

    def open_subjects(self) -> list[str]:
        """What the open ones are about."""
        if self._open is None:
            tasks = (*self._list, *self._board.values())
            self._open = [task.subject for task in tasks if task.open]
        return self._open

    def tasks(self, tried: Mapping[str, Tried]) -> tuple[Task, ...]:
        """The list, then the board, each in its own order, with what calls about them came to."""
        board = (task for task in self._board.values() if task.status != "deleted")
        tasks = []
        for task in (*self._list, *board):
            newest = tried.get(task.subject)
            if newest is not None and task.open:
                task = replace(task, call=newest.call, error=newest.error)
            elif newest is not None and newest.ok and task.state is AgreedState.DONE:
                task = replace(task, call=newest.call)
            tasks.append(task)
        return tuple(tasks)


_ON_TASKS = (Action.TODO, Action.TASK_CREATE, Action.TASK_UPDATE)


def _changed(old: Task | None, new: Task, call: str) -> Task:
    """A task with the call that closed it; what is known of calls about it stays."""
    if old is not None and (old.state is new.state or (old.open and new.open)):
        by, error = old.call, old.error
    else:
        did = (
            old.call if old and old.open and not old.error and new.state is AgreedState.DONE else ""
        )
        by, error = "" if new.open else did or call, ""
    return new if (new.call, new.error) == (by, error) else replace(new, call=by, error=error)


def _listed(call_input: Mapping[str, Any], index: int) -> list[Task]:
    for key in ("todos", "plan", "items", "tasks"):
        rows = call_input.get(key)
        if isinstance(rows, Sequence) and not isinstance(rows, str):
            return [_row(row, str(at), index) for at, row in enumerate(rows[:MAX_TASKS], 1)]
    return []


def _row(row: Any, number: str, index: int) -> Task:
    if not isinstance(row, Mapping):
        return Task(number, clean(row, 500), "pending", index)
    return Task(number, _subject(row), clean(row.get("status"), 40) or "pending", index)


def _details(row: Mapping[str, Any], subject: str) -> str:
    details = clean(row.get("description"), 500).strip()
    return details if details != subject else ""


def _subject(row: Mapping[str, Any]) -> str:
    for key in _SUBJECT_KEYS:
        if isinstance(row.get(key), str) and row[key].strip():
            return clean(row[key], 500).strip()
    return ""

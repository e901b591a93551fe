"""Facts about a conversation that need no model: value objects, each with its origin."""

from __future__ import annotations

from dataclasses import field
from enum import StrEnum

from ullage._start import Frozen, NamedTuple
from ullage.facts.calls import Action
from ullage.facts.names import NameKind, is_well_known
from ullage.facts.sections import Previous
from ullage.facts.word_counts import WordCounts
from ullage.facts.words import Kind


class Origin(StrEnum):
    """The author of a fact's words. Only `USER` and `HOST` may ever be followed as instructions."""

    USER = "user"
    HOST = "host"
    ASSISTANT = "assistant"
    TOOL = "tool"
    SUMMARY = "summary"  # an earlier summary said so


class AgreedState(StrEnum):
    """Whether it still holds, or how far it is."""

    HOLDS = "holds"
    REPLACED = "replaced"
    OPEN = "open"
    FAILED = "failed"  # the newest call about it failed: it is still to be done
    DONE = "done"
    WITHDRAWN = "withdrawn"


STILL_OPEN = (AgreedState.OPEN, AgreedState.FAILED)


_STATES = {
    "completed": AgreedState.DONE,
    "done": AgreedState.DONE,
    "cancelled": AgreedState.WITHDRAWN,
    "deleted": AgreedState.WITHDRAWN,
    "failed": AgreedState.FAILED,
    "error": AgreedState.FAILED,
}


class UserInput(Frozen):
    """One message that the user wrote."""

    index: int
    text: str
    kind: Kind = Kind.PROMPT
    question: str = ""  # what the assistant had asked just before
    origin: Origin = Origin.USER
    uuid: str = ""
    lasting: bool = True  # for a rule: it says that it applies from now on
    corrected: str = ""  # the later sentence that replaces a value in it
    # Among all messages of the user, from 1, also over earlier compactions; 0: not numbered.
    number: int = 0
    corrected_by: int = 0  # number of the message that does; 0: none, or not numbered
    corrected_value: str = ""  # the value


class Declared(NamedTuple):
    """A function, type, test, constant or heading that edits of a file added, changed or took out."""

    name: str  # with its keyword: `func (s *Store) Read`
    before: str | None  # its line before the first edit; empty: there was none; `None`: not known
    now: str  # empty: it was taken out
    at: int  # index of the newest call that changed it


class FileUse(NamedTuple):
    """Everything that was done to one file."""

    path: str
    first: int  # index of the first call about it
    last: int
    ranges: tuple[tuple[int, int], ...] = ()  # (first line, last line); last 0: to the end
    reads: int = 0
    edits: int = 0
    writes: int = 0
    deleted: bool = False
    # What edits and writes inserted, each with the index of its call; the newest.
    written: tuple[tuple[int, str], ...] = ()
    declared: tuple[Declared, ...] = ()  # what edits and writes changed, the newest last
    changed_at: int = -1  # index of the last call that wrote to it; -1: none did
    origin: Origin = Origin.TOOL

    @property
    def changed(self) -> bool:
        """Whether the session wrote to it."""
        return self.edits + self.writes > 0 or self.deleted


class Command(NamedTuple):
    """A command that ran, with the end of its output."""

    index: int  # type: ignore[assignment]
    text: str
    ok: bool | None
    exit_code: int | None
    line: str
    origin: Origin = Origin.TOOL
    folder: str = ""  # in which it ran, where the call says so
    asked: int = -1  # index of the newest call that asked for its output, which did not say that it ended; -1: none
    purpose: str = ""  # what the call says that it is for


class Commit(Frozen):
    """A commit that the session made."""

    index: int
    branch: str
    digest: str
    subject: str
    origin: Origin = Origin.TOOL


class FailedCall(Frozen):
    """A call that failed or was refused, and what followed."""

    index: int
    what: str  # the call, in one line
    line: str  # the most informative line of the error
    feedback: str = ""  # the user's words, if they refused it
    fixed_index: int = -1  # a later success of the same thing, -1: none
    fixed_by: str = ""  # the files changed in between; nothing fixed it: those changed since
    origin: Origin = Origin.TOOL


class Name(NamedTuple):
    """An identifier in use. `score` falls with age and with the room that it takes, and rises with the weight of who used it."""

    text: str
    kind: NameKind
    uses: int
    last: int
    score: int
    origin: Origin
    home: str = ""  # the file that it stands in, or the command that has this option

    @property
    def well_known(self) -> bool:
        """Whether any model knows it: a standard library, an everyday command."""
        return is_well_known(self.text, self.kind)


class AnsweredQuestion(Frozen):
    """A question that a tool asked the user, and the answer."""

    index: int
    question: str
    answer: str
    origin: Origin = Origin.USER


class Task(Frozen):
    """One item of a todo list or task board, in its newest state."""

    id: str
    subject: str
    status: str
    index: int
    origin: Origin = Origin.ASSISTANT
    board: bool = False  # it has an id of its own, by which later calls change it
    call: str = ""  # id of the call that did it or marked it as done, else of the newest one about it; empty: none
    error: str = ""  # of an open one: the line of that call, which failed
    details: str = ""  # what a board's task says under its title

    @property
    def state(self) -> AgreedState:
        """Whether it is still to be done, by the host's word for it and by what calls about it came to."""
        state = _STATES.get(self.status)
        return state or (AgreedState.FAILED if self.error else AgreedState.OPEN)

    @property
    def open(self) -> bool:
        """Whether it is still to be done, also if a call failed at it."""
        return self.state in STILL_OPEN


class WorkItem(Frozen):
    """Something that was said to be still to do, in its newest state."""

    index: int  # of the message that said so, or that closed it
    text: str
    state: AgreedState = AgreedState.OPEN
    origin: Origin = Origin.ASSISTANT
    # Id of the call that did it, else of the newest one about it; empty: none, or unknown.
    call: str = ""
    error: str = ""  # of a failed one: line of that call's result


class Statement(NamedTuple):
    """Something the assistant said; `closing` if the user spoke next, or nothing followed."""

    index: int  # type: ignore[assignment]
    text: str
    closing: bool
    origin: Origin = Origin.ASSISTANT


class ResultFact(NamedTuple):
    """A line of a result that tells a value by its key, or an address."""

    index: int  # type: ignore[assignment]
    line: str
    used: bool = False  # the user, the assistant or a call named the value later
    shown: int = 1  # results that held this line
    read: bool = False  # it stands in a file that was read
    result: int = 0  # number of the newest result that held it, from 1
    origin: Origin = Origin.TOOL


class ToolStep(NamedTuple):
    """One tool call with its outcome, in one line."""

    index: int  # type: ignore[assignment]
    action: Action
    line: str
    ok: bool | None
    result: str
    output: str = ""  # of the newest calls: the result
    origin: Origin = Origin.TOOL
    purpose: str = ""  # what the call says that a command is for
    change: str = ""  # of a small edit: which lines it put in the place of which
    within: str = ""  # of an edit: the function or the like in which it was made, as a file that was read before shows it


class AgentRun(Frozen):
    """A task given to a sub-agent, and its answer, of a long one the two ends."""

    index: int
    what: str
    answer: str
    origin: Origin = Origin.TOOL


class Facts(Frozen):
    """The facts that code keeps about a conversation (FULL-8)."""

    inputs: tuple[UserInput, ...] = ()
    standing: tuple[UserInput, ...] = ()  # lasting rules: sentences of the user, texts of the host
    files: tuple[FileUse, ...] = ()  # in order of first use
    commands: tuple[Command, ...] = ()
    failures: tuple[FailedCall, ...] = ()
    steps: tuple[ToolStep, ...] = ()
    names: tuple[Name, ...] = ()  # by score, best first
    urls: tuple[str, ...] = ()
    commits: tuple[Commit, ...] = ()
    head: Commit | None = None  # that `git log` showed on top; its branch is not known
    decisions: tuple[AnsweredQuestion, ...] = ()
    tasks: tuple[Task, ...] = ()
    statements: tuple[Statement, ...] = ()
    thoughts: tuple[Statement, ...] = ()  # the newest that are readable
    findings: tuple[ResultFact, ...] = ()  # what results say in a line, best first
    settled: tuple[Statement, ...] = ()  # what the assistant said was decided
    still_open: tuple[WorkItem, ...] = ()  # what was said to be still to do, also what failed
    closed_work: tuple[WorkItem, ...] = ()  # what no longer is
    agents: tuple[AgentRun, ...] = ()
    skills: tuple[str, ...] = ()
    found_tools: tuple[str, ...] = ()
    plan: str = ""
    plan_mode: bool = False
    previous: Previous | None = None
    open_question: str = ""  # the assistant asked, and no answer followed
    interrupted: bool = False  # the user stopped the assistant, and nothing followed
    branch: str = ""  # that the newest entry names; empty: entries name none
    # Titles of the list of the assistant that the user's newest message, a short one, follows.
    offered: tuple[str, ...] = ()
    later_inputs: int = 0  # the user's messages after these, which stay verbatim
    # With the messages that stay after these, unranked; `None`: none stay.
    now: Facts | None = field(default=None, compare=False)
    messages: int = 0
    tool_uses: int = 0
    word_counts: WordCounts = field(default_factory=WordCounts, compare=False)  # of the inputs
    # What a writer read out of them, as a summary is written several times until it fits.
    read: dict[str, object] = field(default_factory=dict, compare=False)

    @property
    def requested_at(self) -> int:
        """Index of the user's newest message; -1: there is none."""
        return self.inputs[-1].index if self.inputs else -1

    @property
    def state(self) -> Facts:
        """Of the whole conversation: where it stands now."""
        return self.now or self

    def __repr__(self) -> str:
        return (
            f"Facts({self.messages} messages: {len(self.inputs)} user inputs, {len(self.files)} files, "
            f"{len(self.commands)} commands, {len(self.failures)} failures, {len(self.names)} names)"
        )

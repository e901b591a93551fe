"""`ullage memory`: list, search, add and check the notes that outlive a session."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import App, Parameter

from ullage.cli.output import (
    BaseUrl,
    Json,
    Output,
    PolicyOption,
    SessionArgument,
    WhichConversation,
    counted,
    share,
)
from ullage.counting.calibration import weights_for
from ullage.counting.models import ModelTable
from ullage.memory.notes import MemoryFolder, Note, NoteRecall
from ullage.memory.session import NotesState, SessionMemory, UpdateReport
from ullage.policy import Policy, SessionMemoryPolicy
from ullage.sessions import Session, open_session
from ullage.summarizers import summarizer_of

memory_app = App(name="memory")

Folder = Annotated[
    Path, Parameter(name="--folder", help="the memory folder", env_var="ULLAGE_MEMORY")
]

DEFAULT = Path("memory")


@memory_app.command(name="list")
def list_command(*, folder: Folder = DEFAULT, json: Json = False) -> int:
    """List the notes, newest first."""
    out = Output(as_json=json)
    memory = MemoryFolder(folder)
    notes = memory.notes()
    if json:
        out.json({"folder": str(folder), "notes": [_head(note) for note in notes]})
        return 0
    out.table(
        ("file", "type", "name", "when it matters"),
        ((note.path, note.type.value, note.name, note.description) for note in notes),
    )
    broken = memory.problems()
    more = f"; {len(broken)} problems, see `ullage memory check`" if broken else ""
    out.line(f"{counted(len(notes), 'note')} in {folder}{more}")
    return 0


@memory_app.command(name="show")
def show_command(
    note: str,
    *,
    folder: Folder = DEFAULT,
    json: Json = False,
) -> int:
    """Print one note.

    Args:
        note: a note's file, as in `list`
    """
    out = Output(as_json=json)
    shown = MemoryFolder(folder).read(note)
    if json:
        out.json({**_head(shown), "body": shown.body})
    else:
        out.heading(f"{shown.name}  ({shown.type.value}: {shown.description})")
        out.text(shown.body)
    return 0


@memory_app.command(name="search")
def search_command(
    question: str,
    *,
    folder: Folder = DEFAULT,
    most: int = 5,
    json: Json = False,
) -> int:
    """Find notes by keywords, as recall does without a model. Exit code 1: none matches.

    Args:
        question: a question, or keywords
        most: maximum number of notes
    """
    out = Output(as_json=json)
    recalled = NoteRecall(MemoryFolder(folder)).find(question, most=most)
    if json:
        notes = [{**_head(note), "body": note.body} for note in recalled.notes]
        out.json({"question": question, "notes": notes})
    elif not recalled.notes:
        out.line("no note matches these words")
    for note in [] if json else recalled.notes:
        out.heading(f"{note.path}  {note.name}")
        out.text(note.body)
    return 0 if recalled.notes else 1


@memory_app.command(name="add")
def add_command(
    name: str,
    body: str,
    *,
    description: str = "",
    type: Literal["user", "feedback", "project", "reference"] = "project",
    team: bool = False,
    folder: Folder = DEFAULT,
    json: Json = False,
) -> int:
    """Write a new note and its index line.

    Args:
        name: title, one line
        body: the note's text, Markdown
        description: when it matters, one line
        type: what it is about
        team: for everyone who shares the folder
    """
    out = Output(as_json=json)
    note = MemoryFolder(folder).add(name, description, type, body, team=team)
    if json:
        out.json(_head(note))
    else:
        out.line(f"wrote {folder / note.path}")
    return 0


@memory_app.command(name="check")
def check_command(*, folder: Folder = DEFAULT, json: Json = False) -> int:
    """List broken notes and mismatches with the index. Exit code 1: problems were found."""
    out = Output(as_json=json)
    memory = MemoryFolder(folder)
    problems = memory.problems()
    if json:
        out.json({"folder": str(folder), "problems": [problem._asdict() for problem in problems]})
    elif problems:
        out.table(("file", "problem"), ((problem.path, problem.reason) for problem in problems))
    else:
        out.line(f"{counted(len(memory.notes()), 'note')}, no problems")
    return 1 if problems else 0


def _head(note: Note) -> dict[str, str]:
    return {
        "path": note.path,
        "type": note.type.value,
        "name": note.name,
        "description": note.description,
    }


NotesPlaceOption = Annotated[
    Path | None,
    Parameter(
        help="folder of summary.md; default: FILE's name without its suffix, then session-memory"
    ),
]


def memory_of(
    opened: Session,
    folder: Path | None = None,
    *,
    policy: SessionMemoryPolicy | None = None,
    summarizer: Any = None,
) -> SessionMemory:
    """The notes of a transcript, in a folder or, without one, next to the transcript; without a `summarizer` code writes them."""
    options: dict[str, Any] = {
        "policy": policy,
        "summarizer": summarizer,
        "weights": weights_for(ModelTable.builtin().lookup(opened.model)) if opened.model else None,
        "mode": "inline",
    }
    if folder is not None:
        return SessionMemory(folder, **options)
    return SessionMemory.for_session(opened.path.parent, opened.path.stem, **options)


def show_notes_command(
    file: SessionArgument,
    *,
    folder: NotesPlaceOption = None,
    conversation: WhichConversation = 0,
    json: Json = False,
) -> int:
    """Show the notes of a session: text, length, and how far they reach. Exit code 1: there are none."""
    out = Output(as_json=json)
    opened = open_session(file, number=conversation)
    state = memory_of(opened, folder).state(opened.items)
    if json:
        out.json(_as_data(state))
    else:
        _show(out, state, SessionMemoryPolicy())
    return 0 if state.exists else 1


def update_command(
    file: SessionArgument,
    *,
    folder: NotesPlaceOption = None,
    summarizer: Annotated[str, Parameter(alias="-s")] = "extractive",
    base_url: BaseUrl = "",
    conversation: WhichConversation = 0,
    policy: PolicyOption = None,
    json: Json = False,
) -> int:
    """Update the notes of a session. Exit code 1: the update failed.

    Args:
        summarizer: what writes the notes; extractive: code, without a model
    """
    out = Output(as_json=json)
    opened = open_session(file, number=conversation)
    writer = summarizer_of(summarizer, base_url=base_url)
    memory = memory_of(opened, folder, policy=Policy.load(policy).session_memory, summarizer=writer)
    report = memory.update(opened.items)
    if json:
        out.json({"file": str(opened.path), "path": str(memory.path), **_report(report)})
    else:
        _tell(out, memory, report)
    return 0 if report.absorbed_all or report.reason == "nothing new" else 1


session_memory_app = App(name="session-memory")
session_memory_app.command(show_notes_command, name="show")
session_memory_app.command(update_command, name="update")


def _as_data(state: NotesState) -> dict[str, Any]:
    return {
        "path": state.path,
        "exists": state.exists,
        "blank": state.blank,
        "tokens": state.tokens,
        "sections": [
            {"title": title, "tokens": size, "copied_lines": lines}
            for title, size, lines in state.sections
        ],
        "session_id": state.session_id or None,
        "covered": state.covered or None,
        "absorbed_messages": state.absorbed,
        "absorbable_messages": state.absorbable,
        "messages": state.messages,
        "text": state.text,
    }


def _show(out: Output, state: NotesState, policy: SessionMemoryPolicy) -> None:
    out.file_heading(state.path)
    if not state.exists:
        out.line("there are no notes; `ullage session-memory update FILE` writes them")
        return
    out.text(state.text)
    rows = (
        (title, f"{size:,}", share(size, policy.section_max_tokens), f"{lines:,}")
        for title, size, lines in state.sections
    )
    out.table(("section", "tokens", "of its limit", "copied lines"), rows, right=(1, 2, 3))
    reach = "how far they reach is unknown"
    if state.absorbed is not None:
        reach = f"they cover {state.absorbed:,} of {state.messages:,} messages"
    elif state.known:
        reach = "the last message that they cover is not in this conversation"
    out.line(f"{state.tokens:,} tokens of {policy.total_max_tokens:,}; {reach}")


def _report(report: UpdateReport) -> dict[str, Any]:
    return {
        "outcome": report.outcome.value,
        "reason": report.reason,
        "updater": report.updater,
        "absorbed_messages": report.absorbed,
        "covered": report.covered or None,
        "edits": report.edits,
        "conflicts": report.conflicts,
        "calls": report.calls,
        "refusals": [refusal.line() for refusal in report.refusals],
        "too_long": list(report.over),
        "chars": report.chars,
    }


def _tell(out: Output, memory: SessionMemory, report: UpdateReport) -> None:
    out.file_heading(str(memory.path))
    why = f": {report.reason}" if report.reason else ""
    out.line(f"{report.outcome.value}{why}")
    if report.absorbed_all:
        out.line(f"{report.absorbed:,} messages read, {report.calls:,} model calls")
    for refusal in report.refusals:
        out.note(f"note: the model tried something not allowed: {refusal.line()}")
    for title in report.over:
        out.note(f"note: the section {title} is too long")

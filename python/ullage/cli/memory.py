"""`ullage memory`: list, search, add and check the notes that outlive a session."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import App, Parameter

from ullage.cli.output import Output, counted
from ullage.memory.notes import MemoryFolder, Note, NoteRecall

memory_app = App(
    name="memory", help="List, search, add and check the notes that outlive a session."
)

Folder = Annotated[
    Path, Parameter(name="--folder", help="the memory folder", env_var="ULLAGE_MEMORY")
]
Json = Annotated[bool, Parameter(negative="", help="print JSON")]

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
    out.line(
        f"{counted(len(notes), 'note')} in {folder}"
        + (f"; {len(broken)} problems, see `ullage memory check`" if broken else "")
    )
    return 0


@memory_app.command(name="show")
def show_command(
    note: Annotated[str, Parameter(help="a note's file, as `list` names it")],
    *,
    folder: Folder = DEFAULT,
    json: Json = False,
) -> int:
    """Print one note."""
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
    question: Annotated[str, Parameter(help="a question, or keywords")],
    *,
    folder: Folder = DEFAULT,
    most: Annotated[int, Parameter(help="maximum number of notes")] = 5,
    json: Json = False,
) -> int:
    """Find notes by keywords, as recall does without a model. Exit code 1: none matches."""
    out = Output(as_json=json)
    recalled = NoteRecall(MemoryFolder(folder)).find(question, most=most)
    if json:
        out.json(
            {
                "question": question,
                "notes": [{**_head(note), "body": note.body} for note in recalled.notes],
            }
        )
    elif not recalled.notes:
        out.line("no note matches these words")
    for note in [] if json else recalled.notes:
        out.heading(f"{note.path}  {note.name}")
        out.text(note.body)
    return 0 if recalled.notes else 1


@memory_app.command(name="add")
def add_command(
    name: Annotated[str, Parameter(help="title, one line")],
    body: Annotated[str, Parameter(help="the note's text, Markdown")],
    *,
    description: Annotated[str, Parameter(help="when it matters, one line")] = "",
    type: Annotated[
        Literal["user", "feedback", "project", "reference"], Parameter(help="what it is about")
    ] = "project",
    team: Annotated[
        bool, Parameter(negative="", help="for everyone who shares the folder")
    ] = False,
    folder: Folder = DEFAULT,
    json: Json = False,
) -> int:
    """Write a new note and its index line."""
    out = Output(as_json=json)
    note = MemoryFolder(folder).add(name, description, type, body, team=team)
    if json:
        out.json(_head(note))
    else:
        out.line(f"wrote {folder / note.path}")
    return 0


@memory_app.command(name="check")
def check_command(*, folder: Folder = DEFAULT, json: Json = False) -> int:
    """List broken notes and mismatches with the index. Exit code 1: there are some."""
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

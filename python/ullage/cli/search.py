"""`ullage search`: words in all sessions of this machine."""

from __future__ import annotations

from typing import Annotated, Literal

from cyclopts import Parameter

from ullage.cli.list import age
from ullage.cli.output import Output
from ullage.sessions.search_index import SearchedSession, SearchIndex
from ullage.sessions.session_list import home_relative
from ullage.sessions.usual_folders import found_sessions

__all__ = ["search_command"]


def search_command(
    *words: Annotated[str, Parameter(help="words, or phrases in double quotes")],
    tool: Annotated[
        Literal["claude-code", "codex", "pi", "gemini", "copilot", "opencode"] | None,
        Parameter(help="only sessions of this tool"),
    ] = None,
    project: Annotated[str, Parameter(help="only sessions that ran in this folder")] = "",
    number: Annotated[int, Parameter(alias="-n", help="maximum number of sessions")] = 10,
    hits: Annotated[int, Parameter(help="maximum number of places in each")] = 3,
    json: Annotated[bool, Parameter(negative="", help="print JSON")] = False,
) -> int:
    """Find words in all sessions of this machine, best matches first. Exit code 1: none has them.

    The first search reads every session into an index of Ullage's own; later ones read what changed since.
    """
    out = Output(as_json=json)
    sessions = found_sessions()
    with SearchIndex() as index:
        with out.progress("reading sessions", len(sessions)) as step:
            problems = index.update(sessions, step=step)
        found = index.search(" ".join(words), most=number, hits=hits, tool=tool or "", cwd=project)
    if json:
        out.json({"words": " ".join(words), "sessions": [_data(each) for each in found]})
    elif not found:
        out.line("no session holds these words")
    for each in [] if json else found:
        out.heading(f"{each.id}  {each.title}", cut=True)
        out.line(
            f"{each.tool}, {age(each.modified)}, {home_relative(each.cwd) or each.path}",
            style="dim",
        )
        for hit in each.hits:
            out.line(f"  {hit.who:<9} {hit.text}", cut=True)
    out.notes([f"{path}: {reason}" for path, reason in problems.items()])
    return 0 if found else 1


def _data(found: SearchedSession) -> dict[str, object]:
    return {
        "id": found.id,
        "tool": found.tool,
        "path": str(found.path),
        "title": found.title,
        "cwd": found.cwd,
        "score": round(found.score, 3),
        "hits": [
            {"position": hit.position, "who": hit.who, "text": hit.text} for hit in found.hits
        ],
    }

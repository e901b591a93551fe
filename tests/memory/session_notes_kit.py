"""What the tests of session notes share: a talk of many rounds, and a model that edits as scripted."""

from __future__ import annotations

from pathlib import Path

from ullage.memory.session import SessionMemory
from ullage.memory.session.template import DEFAULT_TEMPLATE, parse_notes, read_record
from ullage.summarizers.protocol import SummaryReply

ABOUT = {s.title: s.about for s in parse_notes(DEFAULT_TEMPLATE)}


def use(at: int) -> dict:
    block = {"type": "tool_use", "id": f"t{at}", "name": "Bash", "input": {"command": f"make {at}"}}
    return {"role": "assistant", "content": [block]}


def back(at: int) -> dict:
    return {
        "role": "user",
        "content": [{"type": "tool_result", "tool_use_id": f"t{at}", "content": "ok"}],
    }


def talk(rounds: int = 3, *, start: int = 0) -> list[dict]:
    items: list[dict] = []
    for at in range(start, start + rounds):
        items += [
            {"role": "user", "content": f"Please do step {at} of the plan."},
            use(at),
            back(at),
            {"role": "assistant", "content": f"Step {at} is done."},
        ]
    return items


class Editor:
    """A model that answers as scripted: texts, replies, exceptions, or functions of the request."""

    name = "editor"

    def __init__(self, *answers, modes=("plain",)) -> None:
        self.answers = list(answers)
        self.modes = modes
        self.requests: list = []

    def summarize(self, request):
        self.requests.append(request)
        given = self.answers.pop(0) if self.answers else "<done/>"
        given = given(request) if callable(given) else given
        if isinstance(given, Exception):
            raise given
        return given if isinstance(given, SummaryReply) else SummaryReply(text=given)


def block(path, old: str, new: str) -> str:
    return f'<edit file="{path}">\n<<<<<<< OLD\n{old}\n=======\n{new}\n>>>>>>> NEW\n</edit>\n'


def add(path, title: str, text: str) -> str:
    return block(path, ABOUT[title], f"{ABOUT[title]}\n{text}")


def memory(folder: Path, *answers, **options) -> SessionMemory:
    options.setdefault("mode", "inline")
    if answers:
        options["summarizer"] = Editor(*answers)
    return SessionMemory(folder, **options)


def record(folder: Path):
    return read_record((folder / "state.json").read_bytes())

"""What many test files share: messages and blocks by hand, views, and the command line in this process."""

from __future__ import annotations

import io
import json
import os
import sys
import warnings
from collections.abc import Callable, Iterable, Mapping
from contextlib import redirect_stderr, redirect_stdout
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

from ullage.levels.view import View
from ullage.messages import with_parts
from ullage.providers._common import with_id

__all__ = [
    "Done",
    "calls",
    "names_of",
    "report",
    "result",
    "said",
    "text",
    "top_names",
    "ullage",
    "use",
    "user",
    "view_of",
    "with_old_ids",
]

Message = dict[str, Any]
Block = dict[str, Any]


# ---- messages and blocks in Anthropic's form ----------------------------------------------------


def user(content: Any = "hi", **more: Any) -> Message:
    """A message of the user; `more` are further keys."""
    return {"role": "user", "content": content, **more}


def said(content: Any = "ok", **more: Any) -> Message:
    """A message of the assistant."""
    return {"role": "assistant", "content": content, **more}


def with_old_ids(messages: Iterable[Message], ids: Mapping[str, str]) -> list[Message]:
    """Messages read back from a provider's form, with the ids that writing had to change; `ids`: those of `Shaped`."""
    return [with_parts(message, lambda block: with_id(block, ids)) for message in messages]


def text(words: str, **more: Any) -> Block:
    """A text block."""
    return {"type": "text", "text": words, **more}


def use(name: str, tool: str = "Read", **given: Any) -> Block:
    """A tool call's block; `name` is its id, `given` its input."""
    return {"type": "tool_use", "id": name, "name": tool, "input": given}


def result(name: str, content: Any = "ok", **more: Any) -> Block:
    """The block that answers the call of that id."""
    return {"type": "tool_result", "tool_use_id": name, "content": content, **more}


def view_of(messages: Iterable[Message], *, sent: bool = False) -> View:
    """What the levels see of these messages; `sent`: the model has had them."""
    view = View()
    for message in messages:
        view.add(message)
    if sent:
        view.mark_sent()
    return view


# ---- the command line ---------------------------------------------------------------------------


class Done(NamedTuple):
    """What a command left: the parts of a `CompletedProcess` that tests look at."""

    returncode: int
    stdout: str
    stderr: str


def ullage(*words: str | Path, env: dict[str, str | None] | None = None) -> Done:
    """Runs a command as `python -m ullage` would, in this process: a start costs a second, and there are hundreds.

    What needs a real process (encodings, closed pipes, signals) starts one: tests/cli/test_printable.py.

    Args:
        *words: The arguments.
        env: Variables of the environment that hold meanwhile; `None` as a value: not set.
    """
    from ullage.cli import main

    given = {"COLUMNS": "120", **(env or {})}
    out, err = _stream(), _stream()
    with mock.patch.dict(os.environ), redirect_stdout(out), redirect_stderr(err):
        for name, value in given.items():
            os.environ.pop(name, None) if value is None else os.environ.update({name: value})
        with warnings.catch_warnings(), mock.patch.object(sys, "argv", ["ullage"]):
            warnings.simplefilter("default")
            try:
                code = main([str(word) for word in words])
            except SystemExit as exc:
                code = exc.code if isinstance(exc.code, int) else 1
    return Done(code, _read(out), _read(err))


def report(*words: str | Path, code: int = 0) -> dict[str, Any]:
    """The JSON report of a command, which must end with this exit code."""
    done = ullage(*words, "--json")
    assert done.returncode == code, done.stderr
    return result_of(done)


def result_of(done: Done) -> dict[str, Any]:
    """What a command printed with `--json`, out of its envelope."""
    found = json.loads(done.stdout)
    assert found["version"] == 1
    return dict(found["result"])


def _stream() -> io.TextIOWrapper:
    return io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True)


def _read(stream: io.TextIOWrapper) -> str:
    raw: Any = stream.buffer
    return str(raw.getvalue().decode("utf-8"))


def calls(act: Callable[[], object]) -> int:
    """Function calls, of C functions too, while something runs."""
    count = 0

    def note(frame: object, event: str, arg: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(note)
    try:
        act()
    finally:
        sys.setprofile(None)
    return count


def names_of(room: str) -> list[str]:
    """What a room offers, promised or not: its own classes and functions, and the names in its `__all__`."""
    module = import_module(f"ullage.{room}")
    own = (
        name
        for name in dir(module)
        if name[0] != "_"
        and str(getattr(getattr(module, name), "__module__", "")).startswith(module.__name__)
    )
    return sorted({*own, *getattr(module, "__all__", ())})


def top_names() -> list[str]:
    """The public names of `ullage` itself."""
    return [name for name in dir(import_module("ullage")) if not name.startswith("__")]

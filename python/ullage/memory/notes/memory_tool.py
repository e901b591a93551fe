"""Anthropic's memory tool (`memory_20250818`) over a memory folder: six commands, paths below `/memories`.

The words of the answers are those of the provider's own implementation, as models were trained on them.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ullage._lazy import optional
from ullage.exceptions import LogConflict, PathRefused, StoreError, UllageError
from ullage.memory.notes.folder import FileInfo, MemoryFolder, Sandbox

if TYPE_CHECKING:
    from anthropic.lib.tools import BetaAbstractMemoryTool


DEFINITION: Final[Mapping[str, str]] = {"type": "memory_20250818", "name": "memory"}
"""For the request's `tools`; with context editing put `memory` among the excluded tools."""

ROOT: Final = "/memories"
# As Anthropic's tool shows files: models are trained on this layout.
NUMBER_WIDTH: Final = 6
# Likewise: a folder's listing names what is two levels below it.
LEVELS: Final = 2


class MemoryAnswer(NamedTuple):
    """Text of the tool result, and whether it is an error."""

    text: str
    is_error: bool = False


class _CommandError(UllageError):
    """An error in the words that the model knows."""

    code = "memory_tool"


class MemoryTool:
    """Executes the tool's commands.

    Args:
        folder: Where the files lie; `/memories` is the folder itself.

    Example:
        >>> import tempfile
        >>> tool = MemoryTool(MemoryFolder(tempfile.mkdtemp()))
        >>> tool.call({"command": "create", "path": "/memories/port.md", "file_text": "8123"}).text
        'File created successfully at: /memories/port.md'
        >>> tool.call({"command": "view", "path": "/memories/../secret"}).is_error
        True
    """

    def __init__(self, folder: MemoryFolder) -> None:
        self.folder = folder
        self.refused: list[str] = []

    def definition(self) -> dict[str, str]:
        """For the request's `tools`."""
        return dict(DEFINITION)

    def call(self, given: object) -> MemoryAnswer:
        """Execute one call.

        Args:
            given: The `input` of the `tool_use` block, whatever the model wrote there.

        Returns:
            The result; bad input and refused paths are errors in it, never raised. Refusals are kept in `refused`.
        """
        if not isinstance(given, Mapping):
            return MemoryAnswer(f"The input must be an object, got: {type(given).__name__}", True)
        name = given.get("command")
        command = _COMMANDS.get(name) if isinstance(name, str) else None
        if command is None:
            return MemoryAnswer(
                f"Unknown command: {name!r}. Use one of {', '.join(_COMMANDS)}.", True
            )
        try:
            return MemoryAnswer(command(self, given))
        except PathRefused as exc:
            self.refused.append(str(exc))
            return MemoryAnswer(
                f"Path {exc.path} would escape {ROOT} directory, or {exc.reason}", True
            )
        except UnicodeError:
            return MemoryAnswer("The text holds characters that are not valid Unicode", True)
        except UllageError as exc:
            return MemoryAnswer(str(exc), True)

    # ---- commands ----------------------------------------------------------------------------

    def _view(self, command: Mapping[str, Any]) -> str:
        path = _path(command, "path")
        files = list(self.folder.sandbox.files())
        if not path or any(info.path.startswith(f"{path}/") for info in files):
            return _listing(path, files)
        lines = self._text(path).split("\n")
        first, last = _range(command.get("view_range"), len(lines))
        numbered = _numbered(lines, first, last)
        return f"Here's the content of {_shown(path)} with line numbers:\n{numbered}"

    def _create(self, command: Mapping[str, Any]) -> str:
        path = _path(command, "path")
        try:
            self.folder.sandbox.write(path, _text_of(command, "file_text").encode(), new=True)
        except LogConflict:
            raise _CommandError(f"File {_shown(path)} already exists") from None
        return f"File created successfully at: {_shown(path)}"

    def _str_replace(self, command: Mapping[str, Any]) -> str:
        path, old, new = (
            _path(command, "path"),
            _text_of(command, "old_str"),
            "" if command.get("new_str") is None else _text_of(command, "new_str"),
        )
        text = self._text(path)
        places = _places(text, old)
        if not places:
            raise _CommandError(
                f"No replacement was performed, old_str `{old}` did not appear verbatim in {_shown(path)}."
            )
        if len(places) > 1:
            lines = ", ".join(str(text.count("\n", 0, at) + 1) for at in places)
            raise _CommandError(
                f"No replacement was performed. Multiple occurrences of old_str `{old}` in lines: {lines}. Please ensure it is unique"
            )
        changed = text.replace(old, new)
        self._write(path, changed, text)
        at = text.count("\n", 0, places[0])
        snippet = _numbered(changed.split("\n"), max(1, at - 1), at + 3)
        return f"The memory file has been edited. Here is the snippet showing the change (with line numbers):\n{snippet}"

    def _insert(self, command: Mapping[str, Any]) -> str:
        path, at, added = (
            _path(command, "path"),
            command.get("insert_line"),
            _text_of(command, "insert_text"),
        )
        text = self._text(path)
        lines = text.removesuffix("\n").split("\n") if text else []
        if type(at) is not int or not 0 <= at <= len(lines):
            raise _CommandError(
                f"Invalid `insert_line` parameter: {at}. It should be within the range [0, {len(lines)}]."
            )
        lines.insert(at, added.rstrip("\n"))
        self._write(path, "\n".join(lines) + "\n", text)
        return f"The file {_shown(path)} has been edited."

    def _delete(self, command: Mapping[str, Any]) -> str:
        path = _path(command, "path")
        if not path:
            raise _CommandError(f"Cannot delete the {ROOT} directory itself")
        inner = [
            info.path for info in self.folder.sandbox.files() if info.path.startswith(f"{path}/")
        ]
        for inner_path in inner or [path]:
            self._at_place(inner_path, self.folder.sandbox.delete)
        return f"Successfully deleted {_shown(path)}"

    def _rename(self, command: Mapping[str, Any]) -> str:
        old, new = _path(command, "old_path"), _path(command, "new_path")
        if not old:
            raise _CommandError(f"Cannot rename the {ROOT} directory itself")
        try:
            self._at_place(old, lambda path: self.folder.sandbox.rename(path, new))
        except LogConflict:
            raise _CommandError(f"The destination {_shown(new)} already exists") from None
        return f"Successfully renamed {_shown(old)} to {_shown(new)}"

    # ---- files -------------------------------------------------------------------------------

    def _at_place(self, path: str, act: Callable[[str], None]) -> None:
        try:
            act(path)
        except StoreError as exc:
            if isinstance(exc.__cause__, FileNotFoundError):
                raise _CommandError(f"The path {_shown(path)} does not exist") from exc
            raise

    def _text(self, path: str) -> str:
        try:
            return self.folder.sandbox.read(path).decode("utf-8", "replace")
        except StoreError as exc:
            if isinstance(exc.__cause__, FileNotFoundError):
                raise _CommandError(
                    f"The path {_shown(path)} does not exist. Please provide a valid path."
                ) from exc
            raise

    def _write(self, path: str, text: str, before: str) -> None:
        self.folder.sandbox.write(path, text.encode(), expected=before.encode())


_COMMANDS: Final[dict[str, Callable[[MemoryTool, Mapping[str, Any]], str]]] = {
    "view": MemoryTool._view,
    "create": MemoryTool._create,
    "str_replace": MemoryTool._str_replace,
    "insert": MemoryTool._insert,
    "delete": MemoryTool._delete,
    "rename": MemoryTool._rename,
}


# ---- parameters --------------------------------------------------------------------------------


def _text_of(command: Mapping[str, Any], key: str) -> str:
    value = command.get(key)
    if not isinstance(value, str):
        raise _CommandError(f"`{key}` must be a string")
    return value


def _path(command: Mapping[str, Any], key: str) -> str:
    """The path below the root; `PathRefused` in the words of the caller's path."""
    value = _text_of(command, key)
    if value != ROOT and not value.startswith(f"{ROOT}/"):
        raise _CommandError(f"Path must start with {ROOT}, got: {value}")
    return value.removeprefix(ROOT).strip("/")


def _range(view_range: Any, count: int) -> tuple[int, int]:
    """First and last line, from 1; `[a, -1]` goes to the end."""
    whole = (
        isinstance(view_range, list | tuple)
        and len(view_range) == 2
        and all(type(n) is int for n in view_range)
    )
    if not whole:
        return 1, count
    return max(1, view_range[0]), count if view_range[1] == -1 else view_range[1]


def _places(text: str, part: str) -> list[int]:
    places: list[int] = []
    at = text.find(part) if part else -1
    while at >= 0:
        places.append(at)
        at = text.find(part, at + 1)
    return places


# ---- what is shown -----------------------------------------------------------------------------


def _shown(path: str) -> str:
    return f"{ROOT}/{path}" if path else ROOT


def _numbered(lines: list[str], first: int, last: int) -> str:
    chosen = enumerate(lines[first - 1 : last], first)
    return "\n".join(f"{number:>{NUMBER_WIDTH}}\t{line}" for number, line in chosen)


def _listing(path: str, files: list[FileInfo]) -> str:
    rows = sorted(_rows(path, files).items())
    head = f"Here're the files and directories up to {LEVELS} levels deep in {_shown(path)}, excluding hidden items:"
    total = sum(info.size for info in files if not path or info.path.startswith(f"{path}/"))
    lines = (f"{_size(size)}\t{_shown(path)}/{name}" for name, size in rows)
    return "\n".join((head, f"{_size(total)}\t{_shown(path)}", *lines))


def _rows(path: str, files: list[FileInfo]) -> dict[str, int]:
    sizes: dict[str, int] = {}
    for info in files:
        for name in _levels(info.path, path):
            sizes[name] = sizes.get(name, 0) + info.size
    return sizes


def _levels(file: str, folder: str) -> Iterator[str]:
    """The file itself, or the folders that lead to it, so far as they lie within the levels that are shown."""
    if folder and not file.startswith(f"{folder}/"):
        return
    parts = PurePosixPath(file[len(folder) :].lstrip("/")).parts
    for depth in range(1, min(len(parts), LEVELS) + 1):
        yield "/".join(parts[:depth]) + ("" if depth == len(parts) else "/")


def _size(count: int) -> str:
    value, unit = float(count), "B"
    for larger in ("K", "M"):
        if value < 1024:
            break
        value, unit = value / 1024, larger
    return f"{value:.1f}{unit}".replace(".0", "")


# ---- the SDK's own runner ----------------------------------------------------------------------


def anthropic_tool(folder: MemoryFolder) -> BetaAbstractMemoryTool:
    """The tool for the official SDK's tool runner (`client.beta.messages.tool_runner`).

    Raises:
        MissingExtra: The package `anthropic` is not installed, or too old.
    """
    optional("anthropic.lib.tools", "anthropic")
    from anthropic.lib.tools import BetaAbstractMemoryTool, ToolError

    tool = MemoryTool(folder)

    def run(_: Any, command: Any) -> str:
        answer = tool.call(
            command.model_dump() if hasattr(command, "model_dump") else dict(command)
        )
        if answer.is_error:
            raise ToolError(answer.text)
        return answer.text

    tool_class = type("UllageMemoryTool", (BetaAbstractMemoryTool,), dict.fromkeys(_COMMANDS, run))
    tool_for_runner: BetaAbstractMemoryTool = tool_class()
    return tool_for_runner


# Commands that a model may have run: a few programs that only read, on paths of the notes' folder only (MEM-4).
#
# What is checked is what runs: the words are rebuilt, each path absolute and after `--`, so that neither the folder in
# which the host runs them nor a name that looks like an option changes what they mean.


_SHELL: Final = re.compile(r"[;&|<>`$(){}\\\n\r\0!*?~\[\]]")
"""No pipes, redirections, substitutions or expansions."""


@dataclass(frozen=True, slots=True)
class _Program:
    """A program's options: `flags` stand alone, `valued` take the next word; none of them names a file."""

    flags: str = ""
    valued: str = ""
    number: bool = False  # `-20` is a count
    pattern: bool = False  # the first operand is a pattern
    paths: bool = True


_PROGRAMS: Final[Mapping[str, _Program]] = {
    "cat": _Program("Abens"),
    "date": _Program("u", paths=False),
    "grep": _Program("EFHchilnorsvwx", "ABCm", pattern=True),
    "head": _Program("qv", "cn", number=True),
    "ls": _Program("1AFRSahklrst"),
    "stat": _Program("t"),
    "tail": _Program("qv", "cn", number=True),
    "wc": _Program("Lclmw"),
}
PROGRAMS: Final = tuple(_PROGRAMS)
"""Without those that follow links below a folder, read a list of files, or a repository's history."""


def read_only(command: str, folder: Sandbox) -> list[str] | None:
    """The words to run for a command that can only read, and only in the folder; `None`: it is refused.

    Args:
        command: As a user would type it; relative paths are seen from the folder, no path means the folder.
        folder: Where its paths must lie, links not followed.

    Example:
        >>> from pathlib import Path
        >>> notes = Sandbox(Path("/srv/notes"))
        >>> read_only("ls -l", notes)
        ['ls', '-l', '--', '/srv/notes']
        >>> read_only("cat ../secret", notes) is None
        True
    """
    if _SHELL.search(command):
        return None
    try:
        program, *words = shlex.split(command) or [""]
    except ValueError:
        return None
    reader = _PROGRAMS.get(program)
    read = None if reader is None else _options(reader, words)
    if reader is None or read is None:
        return None
    options, operands = read
    if not reader.paths:
        return None if operands else [program, *options]
    if reader.pattern:
        if not operands:
            return None
        options = [*options, "-e", operands.pop(0)]
    paths = [folder.located(operand) for operand in operands or [""]]
    inside = [path for path in paths if path is not None]
    return [program, *options, "--", *inside] if len(inside) == len(paths) else None


def _options(program: _Program, words: list[str]) -> tuple[list[str], list[str]] | None:
    """Options and operands apart; `None` for an option that is not listed."""
    options: list[str] = []
    operands: list[str] = []
    left = iter(words)
    for word in left:
        if word == "--":
            operands += left
        elif not word.startswith("-"):
            operands.append(word)
        elif _is_option(program, word):
            options.append(word)
        elif len(word) == 2 and word[1] in program.valued and _is_number(value := next(left, "")):
            options += [word, value]
        else:
            return None
    return options, operands


_is_number: Final[Callable[[str], object]] = re.compile(r"[0-9]{1,9}", re.ASCII).fullmatch


def _is_option(program: _Program, word: str) -> bool:
    body = word[1:]
    valued = body[:1] in program.valued and _is_number(body[1:])
    alone = bool(body) and all(letter in program.flags for letter in body)
    return bool(alone or (body[:1] and valued) or (program.number and _is_number(body)))

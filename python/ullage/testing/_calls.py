"""Single tool calls with believable answers; each keeps the session's facts."""

from __future__ import annotations

from ullage.messages import Block
from ullage.testing import _outputs
from ullage.testing._media import image_block
from ullage.testing._project import Edit, SourceFile
from ullage.testing._session import MadeCall, MadeCommand, MadeSession


def read(session: MadeSession, file: SourceFile) -> MadeCall:
    """Read a file: whole, or a range of a long one."""
    session.note("files_read", file.path)
    arguments: dict[str, object] = {"file_path": file.path}
    start = 1
    if len(file.lines) > 80 and session.rng.chance(25):
        start = session.rng.between(1, len(file.lines) // 2)
        arguments["offset"] = start
    arrow = session.project.language in ("go", "rust")  # both forms occur in real transcripts
    output = _outputs.numbered(file, start=start, arrow=arrow)
    for symbol in file.symbols:
        if symbol in output:
            session.note("identifiers", symbol)
    return MadeCall("Read", arguments, output)


def missing(session: MadeSession) -> MadeCall:
    """A read that fails, because the path is wrong."""
    path = f"{session.project.root}/src/{session.project.symbol()}.txt"
    error = f"File does not exist: {path}"
    session.note("errors", error)
    return MadeCall(
        "Read", {"file_path": path}, f"<tool_use_error>{error}</tool_use_error>", failed=True
    )


def grep(session: MadeSession, word: str) -> MadeCall:
    """Search for a word in what is known of the project."""
    output = _outputs.grep_lines(session.project, word)
    arguments = {"pattern": word, "path": session.project.root, "output_mode": "content"}
    return MadeCall("Grep", arguments, output)


def glob(session: MadeSession) -> MadeCall:
    """List files."""
    chars = min(session.size(), 9_000)
    return MadeCall("Glob", {"pattern": "**/*"}, _outputs.glob_list(session.project, chars))


def bash(session: MadeSession, command: str, output: str, *, ok: bool = True) -> MadeCall:
    """Run a command; a standing instruction's runner is put in front."""
    if session.runner and not command.startswith(("git", "tail", "curl", "jq")):
        command = f"{session.runner} {command}"
    session.commands.append(MadeCommand(command, ok))
    text = output if ok else f"Exit code 1\n{output}"
    return MadeCall(
        "Bash", {"command": command, "description": command.split()[0]}, text, failed=not ok
    )


def tests(session: MadeSession, file: SourceFile, symbol: str, *, ok: bool) -> tuple[MadeCall, str]:
    """Run the tests of a symbol; the second item is the error, empty if they pass."""
    command, size = session.project.test_command(symbol), min(session.size(), 30_000)
    if ok:
        return bash(session, command, _outputs.passed_run(session.rng, size)), ""
    output, error = _outputs.failed_run(session.project, file, symbol, size)
    session.note("errors", error)
    return bash(session, command, output, ok=False), error


def edit(session: MadeSession, file: SourceFile, symbol: str) -> tuple[MadeCall, Edit]:
    """Change a file for real: later reads show the new text."""
    change = session.project.edit(file, symbol)
    session.note("files_edited", file.path)
    arguments = {"file_path": file.path, "old_string": change.old, "new_string": change.new}
    return MadeCall("Edit", arguments, _outputs.edited(file, change)), change


def write(session: MadeSession, file: SourceFile) -> MadeCall:
    """Create a file."""
    session.note("files_written", file.path)
    for symbol in file.symbols:
        session.note("identifiers", symbol)
    arguments = {"file_path": file.path, "content": file.text}
    return MadeCall("Write", arguments, f"File created successfully at: {file.path}")


def git_diff(session: MadeSession, file: SourceFile, change: Edit) -> MadeCall:
    """Show a change."""
    return bash(session, "git diff", _outputs.diff(session.project, file, change))


def todo(session: MadeSession, steps: list[str], done: int) -> MadeCall:
    """Write the list of steps: `done` of them finished, the next one in progress."""
    states = ["completed"] * done + ["in_progress"] + ["pending"] * len(steps)
    session.todos = [
        {"content": step, "status": state, "activeForm": f"Working on: {step}"}
        for step, state in zip(steps, states, strict=False)
    ]
    output = "Todos have been modified successfully. Proceed with the current tasks."
    return MadeCall("TodoWrite", {"todos": [dict(item) for item in session.todos]}, output)


def delegate(session: MadeSession, prompt: str) -> MadeCall:
    """Give work to a sub-agent, which reports."""
    report = _outputs.web_page(session.rng, "Report", min(session.size(), 6_000))
    arguments = {
        "description": "Look into it",
        "prompt": prompt,
        "subagent_type": "general-purpose",
    }
    return MadeCall("Task", arguments, [{"type": "text", "text": report}])


def fetch(session: MadeSession, title: str) -> MadeCall:
    """Fetch a page."""
    url = f"https://docs.example.com/{session.rng.hex(4)}/{title.lower().replace(' ', '-')}"
    session.note("urls", url)
    page = _outputs.web_page(session.rng, title, session.size())
    return MadeCall("WebFetch", {"url": url, "prompt": f"What does it say about {title}?"}, page)


def screenshot(session: MadeSession) -> MadeCall:
    """Read a picture."""
    path = f"{session.project.root}/shots/{session.rng.hex(6)}.png"
    session.note("files_read", path)
    content: list[Block] = [image_block(session.rng)]
    return MadeCall("Read", {"file_path": path}, content)

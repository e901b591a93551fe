"""The same sessions as Claude Code stores them: a transcript of one JSON object per line.

One block per line, responses in pieces that share a message id, results that stand between the
pieces, branches where calls run in parallel, metadata lines, boundaries.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal, NamedTuple

import orjson

from tests.kit.lines import LineWriter, is_input
from ullage.messages import CLEARED, Message
from ullage.sessions import open_session
from ullage.testing.generator import Rng, Scenario, Style, scenario
from ullage.testing.script import Step, answer
from ullage.transcript import formats, messages_after_boundary
from ullage.transcript.formats import ReadSession

__all__ = ["Layout", "ReadFile", "SessionFile", "read", "session_287k", "session_file"]


class ReadFile(NamedTuple):
    """A file of any format as its reader gives it; each of `sessions` with the `messages` that its model was shown."""

    format: str
    sessions: list[Any]
    warnings: list[tuple[int, str]]

    @property
    def messages(self) -> list[Any]:
        return self.sessions[0].messages

    @property
    def entries(self) -> list[Any]:
        return self.sessions[0].entries


def read(path: Path) -> ReadFile:
    """Reads a file of any format."""
    source, name = formats.recognised(path)
    if name == "claude_code":
        session = open_session(path)
        facts = {"id": session.id, "metadata": {"model": session.model}, "system": None}
        only = SimpleNamespace(entries=session.entries(), messages=session.messages, **facts)
        return ReadFile(name, [only], list(session.conversation.report.bad))
    name, sessions = formats.read_recognised(source, name)
    return ReadFile(name, list(map(_shown, sessions)), source.warnings)


def _shown(session: ReadSession) -> SimpleNamespace:
    """With the messages after the newest boundary, kept ones in their place, without those that no model said."""
    shown = [
        entry["message"]
        for entry in messages_after_boundary(session.entries)
        if "message" in entry and not entry.get("isApiErrorMessage")
    ]
    return SimpleNamespace(**vars(session), messages=shown)


@dataclass(frozen=True, slots=True)
class Layout:
    """How the lines are arranged. Shares are in percent.

    Attributes:
        version: What the lines say wrote them.
        interleave: Share of responses with several calls whose results stand between its pieces.
        noise: Share of user inputs with metadata lines around them.
        attachments: Share of user inputs with an attachment line.
        progress: Progress lines after commands, inside the parent chain (versions up to 2.1.6x).
        sidechains: Sub-agents' lines stand inside the file.
        errors: Share of responses with a synthetic error line before them.
        ui_copies: Results carry `toolUseResult`.
        compactions: How many boundaries, spread evenly over the user inputs.
        preserve: Messages that each of them keeps verbatim.
        linking: What the first line after a boundary with kept messages has as parent: the `tail` of
            the kept ones, or the `summary`. Both occur.
        microcompact: A microcompact boundary before the last third.
        usage_percent: Reported tokens in percent of the rough estimate.
        overhead_tokens: Reported tokens of system prompt and tools.
    """

    version: str = "2.1.232"
    interleave: int = 15
    noise: int = 30
    attachments: int = 0
    progress: bool = False
    sidechains: bool = False
    errors: int = 3
    ui_copies: bool = True
    compactions: int = 0
    preserve: int = 0
    linking: Literal["summary", "tail"] = "summary"
    microcompact: bool = False
    usage_percent: int = 130
    overhead_tokens: int = 18_000


@dataclass(frozen=True, slots=True)
class SessionFile:
    """A transcript and what the model last saw of it.

    Attributes:
        entries: The lines, as objects.
        context: The messages that a resume has to rebuild, attachments left out.
        session_id: Name of the session, and of its file.
    """

    entries: list[dict[str, Any]]
    context: list[Message]
    session_id: str

    def to_bytes(self, *, torn: bool = False) -> bytes:
        """The file's bytes; with `torn`, plus a last line that a crash cut off."""
        data = b"".join([orjson.dumps(entry) + b"\n" for entry in self.entries])
        if not torn:
            return data
        line = orjson.dumps({**self.entries[-1], "uuid": "torn"})
        return data + line[: len(line) * 2 // 3]

    def write(self, folder: str | Path, *, torn: bool = False) -> Path:
        """Write `<session id>.jsonl` into a folder that exists; its path."""
        path = Path(folder) / f"{self.session_id}.jsonl"
        path.write_bytes(self.to_bytes(torn=torn))
        return path

    def __repr__(self) -> str:
        return f"SessionFile({len(self.entries)} lines, {len(self.context)} messages in context)"


def session_287k(seed: int) -> Scenario:
    """A session of 45 minutes and 287 000 tokens, most of them in large, old tool results.

    Keeping 60 % of each result over 10 000 characters brings it to about 198 000; replacing the
    older half of the results by a line each, to about 142 000.
    """
    style = Style(
        tasks=("fix", "explore", "logs", "plan", "ask"), large=82, small_chars=(400, 4_000),
        large_chars=(14_000, 36_000), late=55, interrupts=0,
    )  # fmt: skip
    return scenario(seed, turns=14, tokens=287_000, style=style, ending="loop", minutes=45)


def session_file(made: Scenario, *, layout: Layout | None = None, seed: int = 0) -> SessionFile:
    """A session as a transcript.

    Args:
        made: The session.
        layout: How to arrange it; `None`: as a usual file of a recent version.
        seed: For what the layout leaves open, and for ids.
    """
    layout = layout or Layout()
    rng = Rng(seed ^ made.seed, "entries")
    writer = LineWriter(rng, made, layout)
    context: list[Message] = []
    cuts, clear_at = _cuts(made.messages, layout.compactions), _clear_at(made.messages, layout)
    for index, message in enumerate(made.messages):
        if index in cuts:
            context = _compact(writer, made.messages[:index], context, layout)
        if index == clear_at:
            _clear(writer, context)
        writer.message(index, message, context)
        context.append(message)
    return SessionFile(writer.rows, context, writer.session_id)


def _cuts(messages: Sequence[Message], count: int) -> set[int]:
    """Where the boundaries stand: before user inputs, none before the second."""
    inputs = [index for index, message in enumerate(messages) if is_input(message)][1:]
    return (
        {inputs[len(inputs) * n // (count + 1)] for n in range(1, count + 1)} if inputs else set()
    )


def _clear_at(messages: Sequence[Message], layout: Layout) -> int:
    """Where the microcompact boundary stands; -1: nowhere."""
    later = [n for n, m in enumerate(messages) if is_input(m) and n * 3 > len(messages) * 2]
    return later[0] if layout.microcompact and later else -1


def _compact(
    writer: LineWriter, before: Sequence[Message], context: list[Message], layout: Layout
) -> list[Message]:
    """Write the boundary and the summary; what the model sees from there on."""
    kept = _kept(context, layout.preserve)
    text = (
        answer(Step("good"), list(before)).text.partition("<summary>")[2].removesuffix("</summary>")
    )
    summary: Message = {"role": "user", "content": f"{_OPENING}\nSummary:\n{text.strip()}"}
    writer.boundary(summary, kept, context)
    return [summary, *kept]


_OPENING = (
    "This session is being continued from a previous conversation that ran out of context. The "
    "summary below covers the earlier portion of the conversation.\n"
)


def _kept(context: Sequence[Message], count: int) -> list[Message]:
    """The newest messages, not beginning with results whose calls were removed."""
    start = max(1, len(context) - count)
    while count and start > 1 and not is_input(context[start]):
        start -= 1
    return list(context[start:]) if count else []


def _clear(writer: LineWriter, context: list[Message]) -> None:
    """Clear all but the newest three large results of the context."""
    found = [
        (index, at)
        for index, message in enumerate(context)
        if isinstance(message["content"], list)
        for at, block in enumerate(message["content"])
        if block["type"] == "tool_result" and len(str(block["content"])) > 2000
    ][:-3]
    names = []
    for index, at in found:
        blocks: list[Any] = list(context[index]["content"])
        names.append(str(blocks[at]["tool_use_id"]))
        blocks[at] = {**blocks[at], "content": CLEARED}
        context[index] = {"role": "user", "content": blocks}
    writer.microcompact(names, context)

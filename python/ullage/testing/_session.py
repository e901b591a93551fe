"""Builds a session message by message, and keeps book of what is true about it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson

from ullage.messages import Block, Message
from ullage.testing._phrases import THOUGHTS
from ullage.testing._project import Project
from ullage.testing._rng import Rng

LARGE_CHARS = 10_000
"""Results above this count as large: the length from which snipping in place acts."""

_MEDIA_CHARS = 8_000  # 2000 tokens, the rough estimate's figure for an image or document


@dataclass(frozen=True, slots=True)
class Style:
    """How a generated session looks. Shares are in percent.

    Attributes:
        tasks: Kinds of work, chosen with equal chance; name one twice to double its share.
        languages: Languages of the user's words.
        thinking: Share of responses that begin with thinking; 0: none.
        hidden: Share of thinking whose text is not shown (empty, with a signature).
        parallel: Share of look-ups that make several calls at once.
        large: Share of all characters that lie in results over 10 000 characters.
        small_chars: Least and most characters of an ordinary result.
        large_chars: The same for a large one.
        late: How much of the large results' share is held back to the end; 0: spread evenly.
        detours: Share of turns with more look-ups after the task.
        interrupts: Share of those in which the user stops a call.
    """

    tasks: tuple[str, ...] = ("fix", "fix", "build", "explore", "logs", "plan", "ask", "research")
    languages: tuple[str, ...] = ("en", "en", "en", "de", "ja", "zh")
    thinking: int = 40
    hidden: int = 15
    parallel: int = 50
    large: int = 35
    small_chars: tuple[int, int] = (300, 5_000)
    large_chars: tuple[int, int] = (12_000, 40_000)
    late: int = 0
    detours: int = 20
    interrupts: int = 10


@dataclass(frozen=True, slots=True)
class MadeCommand:
    """A shell command of the session and how it ended."""

    command: str
    ok: bool


@dataclass(frozen=True, slots=True)
class MadeCall:
    """A tool call with its answer."""

    name: str
    input: dict[str, Any]
    output: str | list[Block]
    failed: bool = False


@dataclass(slots=True)
class MadeSession:
    """What the tasks write into. `chars` is what the rough estimate counts."""

    rng: Rng
    style: Style
    model: str
    system: str
    tools: Sequence[dict[str, Any]]
    project: Project
    budget: int  # characters; 0: none
    messages: list[Message] = field(default_factory=list)
    offsets: list[int] = field(default_factory=list)  # seconds since the start, per message
    chars: int = 0
    large: int = 0
    runner: str = ""  # what a standing instruction puts in front of commands
    closing: str = ""
    facts: dict[str, dict[Any, None]] = field(default_factory=dict)  # kind → values, in order
    words: list[str] = field(default_factory=list)  # what the user wrote
    commands: list[MadeCommand] = field(default_factory=list)
    todos: list[dict[str, str]] = field(default_factory=list)

    def note(self, kind: str, value: Any) -> None:
        """Keep a fact of the truth, once."""
        self.facts.setdefault(kind, {})[value] = None

    def size(self) -> int:
        """Characters for the next output, so that large ones keep their share."""
        style, left = self.style, self.budget - self.chars
        late = style.late * max(0, left) // self.budget if self.budget else 0
        want_large = self.large * 10_000 < style.large * (100 - late) * self.chars
        chars = self.rng.between(*(style.large_chars if want_large else style.small_chars))
        # A quarter of what is left at most, so that no single result goes far beyond the budget.
        return min(chars, max(200, left // 4)) if self.budget else chars

    def user(self, content: str | list[Block], *, pause: int = 0) -> None:
        """What a user writes; text is part of the truth."""
        blocks = content if isinstance(content, list) else [{"type": "text", "text": content}]
        for block in blocks:
            if block["type"] == "text":
                self.words.append(block["text"])
        self._append("user", content, pause or self.rng.between(20, 200))

    def say(self, text: str) -> None:
        """An assistant message without calls."""
        self._append("assistant", [*self._thinking(), {"type": "text", "text": text}], 9)

    def act(self, *calls: MadeCall, say: str = "") -> None:
        """One response with its calls, and the user message that answers them."""
        ids = self.call(*calls, say=say)
        self.answer(ids, calls)

    def call(self, *calls: MadeCall, say: str = "") -> list[str]:
        """One response with calls that nobody has answered yet; their ids."""
        blocks: list[Block] = [*self._thinking()]
        if say:
            blocks.append({"type": "text", "text": say})
        ids = [f"toolu_01{self.rng.token(22)}" for _ in calls]
        for name, call in zip(ids, calls, strict=True):
            blocks.append({"type": "tool_use", "id": name, "name": call.name, "input": call.input})
        self._append("assistant", blocks, self.rng.between(2, 12))
        return ids

    def answer(self, ids: Sequence[str], calls: Sequence[MadeCall], *, after: str = "") -> None:
        """The results of a response; `after`: what the user typed meanwhile."""
        blocks: list[Block] = []
        for name, call in zip(ids, calls, strict=True):
            block: Block = {"type": "tool_result", "tool_use_id": name, "content": call.output}
            if call.failed:
                block["is_error"] = True
            blocks.append(block)
        if after:
            blocks.append({"type": "text", "text": after})
            self.words.append(after)
        self._append("user", blocks, self.rng.between(1, 9))

    def server(self, blocks: list[Block]) -> None:
        """A response that the provider's own tools had a part in."""
        self._append("assistant", blocks, self.rng.between(5, 20))

    def _thinking(self) -> list[Block]:
        if not self.rng.chance(self.style.thinking):
            return []
        rng, newest = self.rng, self.project.files[-1] if self.project.files else None
        names = {"fn": "this", "file": "the file"}
        if newest:
            names = {"fn": rng.pick(newest.symbols), "file": newest.path}
        thoughts = rng.some(THOUGHTS, rng.between(1, 5))
        shown = not rng.chance(self.style.hidden)
        text = " ".join(thoughts).format(**names) if shown else ""
        return [{"type": "thinking", "thinking": text, "signature": ""}]

    def _append(self, role: Any, content: str | list[Block], seconds: int) -> None:
        self.messages.append({"role": role, "content": content})
        self.offsets.append(self.offsets[-1] + seconds if self.offsets else 0)
        for block in [{"type": "text", "text": content}] if isinstance(content, str) else content:
            self.chars += self._weigh(block)

    def _weigh(self, block: Block) -> int:
        kind = block["type"]
        if kind == "text":
            return len(block["text"])
        if kind == "thinking":
            return len(block["thinking"])
        if kind == "tool_use":
            return len(block["name"]) + len(orjson.dumps(block["input"]).decode())
        if kind in ("image", "document"):
            return _MEDIA_CHARS
        if kind != "tool_result":
            return len(orjson.dumps(block).decode())
        content = block["content"]
        size = len(content) if isinstance(content, str) else sum(map(self._weigh, content))
        self.large += size if size > LARGE_CHARS else 0
        return size

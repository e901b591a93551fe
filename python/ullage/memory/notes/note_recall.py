"""Which notes matter for a question: by a small model, by an embedder, or by words alone (MEM-3)."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Generator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, Protocol

from ullage.compaction.effects_runner import arun_flow, run_flow
from ullage.effects import Cancelled, Effect, Flow, Summarize
from ullage.exceptions import InvalidPolicy, MissingExtra
from ullage.memory.notes.folder import MemoryFolder
from ullage.memory.notes.note import Note
from ullage.memory.notes.word_index import FLOOR, Document, WordIndex
from ullage.summarizers.named import model_writer_of
from ullage.summarizers.protocol import SummaryReply, SummaryRequest, Writer, WriterLike

__all__ = ["Embedder", "NoteRecall", "RecalledNotes"]

MOST: Final = 5
"""Notes for one question; more would bury the one that matters."""

NEWEST: Final = 200
"""Heads that a model is shown."""

MAX_NOTE_CHARS: Final = 8_000
"""Of one note in the answer; the rest can be read in the file."""

EMBEDDED_CHARS: Final = 600
"""Characters of a note's text in addition to its front matter: sentence models read about 250 words."""

CLOSE: Final = 0.15
"""Cosine below which an embedder's match is none (all-MiniLM-L6-v2: unrelated sentences lie about 0)."""

BY_WORDS: Final = 0.2
"""What the best match by words adds to the cosine: about the distance between a right note and its neighbours."""

_USAGE = re.compile(
    r"\b(?:usage|how to use|reference|documentation|docs|api|options|flags|syntax|tutorial)\b", re.I
)
_WARNING = re.compile(
    r"\b(?:warn\w*|gotcha|pitfall|careful|beware|bug|broken|fails?|never|must not|don'?t|avoid|known issue|workaround)\b",
    re.I,
)
_NAMES = re.compile(r"\[[^\[\]]*\]")

PROMPT: Final = """Here are the heads of notes from earlier sessions, one a line: file, type, name, description.

{heads}

Pick the notes that will clearly help with this question, at most {most}; none is a good answer:
<question>
{question}
</question>
Leave out notes on how to use these tools, which are in use right now; keep warnings about them: {tools}.
Answer with a JSON list of file names and nothing else."""


class Embedder(Protocol):
    """Turns texts into vectors of one length; similar texts lie close."""

    def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """One vector for each text."""
        ...


class RecalledNotes(NamedTuple):
    """Notes for a question, best first; `by`: `model`, `embedder`, `words`, or `nothing` where the model's answer was no good."""

    notes: list[Note]
    by: str

    def text(self) -> str:
        """As it goes to the model: data with its source, each note cut at 8 000 characters."""
        return "\n\n".join(map(_shown, self.notes))


@dataclass(slots=True)
class NoteRecall:
    """Recall for one session: what was shown once is not shown again.

    Args:
        folder: The notes.
        model: Who picks: a summarizer, a function or a line such as `anthropic:claude-haiku-4-5`; `None`: by words.
        embedder: Ranks by meaning together with words; `None`: words alone.
        shown: Paths that were shown before; can be stored and given again.

    Raises:
        InvalidPolicy: `model` is none of these, or can't be called from here.
        MissingExtra: Its package is not installed.
    """

    folder: MemoryFolder
    model: WriterLike | None = None
    embedder: Embedder | None = None
    shown: set[str] = field(default_factory=set)
    _writer: Writer | None = field(default=None, init=False, repr=False)
    _synced: int = field(default=-1, repr=False)
    _words: WordIndex = field(default_factory=WordIndex, repr=False)
    _vectors: dict[tuple[str, int], Sequence[float]] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        self.model = self._writer = model_writer_of(self.model)

    def flow(
        self, question: str, *, tools: Collection[str] = (), most: int = MOST
    ) -> Flow[RecalledNotes]:
        """Find the notes for a question, as a generator of effects.

        Args:
            question: What the user asks, or what the agent is about to do.
            tools: Names of tools in use right now: notes on how to use them are left out, warnings stay.
            most: Notes at most.

        Returns:
            The notes, whole. A model that fails or answers badly gives none; that is never an error.
        """
        every = self.folder.notes()
        heads = self._open(every, tools)
        if not heads:
            return RecalledNotes([], "nothing")
        if self._writer is None:
            chosen = self._ranked(question, every, heads, most)
            by = "embedder" if self.embedder else "words"
        else:
            chosen = yield from self._picked(question, heads, tools, most)
            by = "model" if chosen else "nothing"
        notes = [note for path in chosen if (note := self._whole(path)) is not None]
        self.shown.update(note.path for note in notes)
        return RecalledNotes(notes, by)

    def find(
        self, question: str, *, tools: Collection[str] = (), most: int = MOST
    ) -> RecalledNotes:
        """`flow`, driven at once. A model is asked in place."""
        return run_flow(self.flow(question, tools=tools, most=most))

    async def afind(
        self, question: str, *, tools: Collection[str] = (), most: int = MOST
    ) -> RecalledNotes:
        """`find`, without blocking the event loop while a model picks."""
        return await arun_flow(self.flow(question, tools=tools, most=most))

    # ---- what may be shown -------------------------------------------------------------------

    def _open(self, every: Sequence[Note], tools: Collection[str]) -> list[Note]:
        heads = [note for note in every if note.path not in self.shown]
        return [note for note in heads if not _teaches(note, tools)] if tools else heads

    def _whole(self, path: str) -> Note | None:
        try:
            return self.folder.read(path)
        except (OSError, ValueError):
            return None

    # ---- without a model ---------------------------------------------------------------------

    def _ranked(
        self, question: str, every: Sequence[Note], heads: Sequence[Note], most: int
    ) -> list[str]:
        if self._synced != self.folder.version:
            self._words.sync(map(self._document, every))
            self._synced = self.folder.version
        if self.embedder is not None:
            return self._nearest(self.embedder, question, heads)[:most]
        hidden = {note.path for note in every} - {note.path for note in heads}
        return self._words.rank(question, limit=most, without=hidden)

    def _document(self, head: Note) -> Document:
        known = self._words.version(head.path) == head.changed_ns
        body = "" if known else (self._whole(head.path) or head).body
        return Document(head.path, head.changed_ns, head.name, head.description, body, head.type)

    def _nearest(self, embedder: Embedder, question: str, heads: Sequence[Note]) -> list[str]:
        """By meaning, and among notes of like meaning by words."""
        fresh = [note for note in heads if (note.path, note.changed_ns) not in self._vectors]
        texts = [self._spoken(note) for note in fresh]
        *made, asked = embedder.embed([*texts, question])
        for note, vector in zip(fresh, made, strict=True):
            self._vectors[note.path, note.changed_ns] = vector
        by_words = self._words.shares(question)
        scores: dict[str, float] = {}
        for note in heads:
            near = _cosine(asked, self._vectors[note.path, note.changed_ns])
            share = by_words.get(note.path, 0.0)
            if near >= CLOSE or share >= FLOOR:
                scores[note.path] = near + BY_WORDS * share
        return sorted(scores, key=lambda path: (-scores[path], path))

    def _spoken(self, head: Note) -> str:
        body = (self._whole(head.path) or head).body
        return f"{head.name}. {head.description}. {body[:EMBEDDED_CHARS]}"

    # ---- with a model ------------------------------------------------------------------------

    def _picked(
        self, question: str, heads: Sequence[Note], tools: Collection[str], most: int
    ) -> Generator[Effect, Any, list[str]]:
        newest = heads[:NEWEST]
        prompt = PROMPT.format(
            heads="\n".join(
                f"{note.path} [{note.type.value}] {note.name}: {note.description}"
                for note in newest
            ),
            question=question[:4_000].replace("</question>", ""),
            tools=", ".join(sorted(tools)) or "none",
            most=most,
        )
        request = SummaryRequest(
            messages=(), prompt=prompt, max_output_tokens=500, source="memory_recall"
        )
        try:
            reply = yield Summarize(request, self._writer)
        except (Cancelled, InvalidPolicy, MissingExtra):
            raise  # the caller's, not the model's
        except Exception:
            return []
        return _chosen(reply, {note.path for note in newest}, most)


def _teaches(note: Note, tools: Collection[str]) -> bool:
    """Whether a note tells how to use a tool that is in use: the agent knows that; warnings are another matter."""
    told = f"{note.name} {note.description}"
    named = any(re.search(rf"\b{re.escape(tool)}\b", told, re.I) for tool in tools)
    return named and bool(_USAGE.search(told)) and not _WARNING.search(told)


def _chosen(reply: Any, allowed: Collection[str], most: int) -> list[str]:
    text = (
        reply.text if isinstance(reply, SummaryReply) else reply if isinstance(reply, str) else ""
    )
    for match in _NAMES.finditer(text):
        try:
            names = json.loads(match[0])
        except ValueError:
            continue
        found = dict.fromkeys(name for name in names if isinstance(name, str) and name in allowed)
        if found:
            return list(found)[:most]
    return []


def _cosine(one: Sequence[float], other: Sequence[float]) -> float:
    product = sum(a * b for a, b in zip(one, other, strict=True))
    norms = sum(a * a for a in one) * sum(b * b for b in other)
    return product / norms**0.5 if norms else 0.0


def _shown(note: Note) -> str:
    body = (
        note.body
        if len(note.body) <= MAX_NOTE_CHARS
        else note.body[:MAX_NOTE_CHARS] + f"\n… (the rest is in {note.path})"
    )
    return f'<memory file="{note.path}" type="{note.type.value}">\n{body}\n</memory>'

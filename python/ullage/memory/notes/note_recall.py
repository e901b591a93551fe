"""Which notes matter for a question: by a small model, by an embedder, or by words alone (MEM-3)."""

from __future__ import annotations

import json
import math
import os
import re
import unicodedata
from collections.abc import Collection, Generator, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol

from ullage.compaction.effects_runner import arun_flow, run_flow
from ullage.effects import Cancelled, Effect, Flow, Summarize
from ullage.exceptions import InvalidPolicy, MissingExtra, StoreError
from ullage.memory import wording
from ullage.memory.notes.folder import MemoryFolder, Note, heads_text
from ullage.summarizers.lines import model_writer_of
from ullage.summarizers.protocol import SummaryReply, SummaryRequest, Writer, WriterLike

# Words as an index compares them: their stems, and how far two words look alike.

_VOWEL = re.compile(r"[aeiouy]")

_ENDINGS: Final = (
    ("ational", "ate", 3), ("ization", "ize", 3), ("isation", "ize", 3), ("fulness", "ful", 3), ("iveness", "ive", 3), ("ousness", "ous", 3),
    ("ations", "ate", 3), ("ation", "ate", 3), ("ities", "", 4), ("ments", "", 4), ("ness", "", 4), ("ment", "", 4),
    ("ises", "ize", 3), ("ised", "ize", 3), ("ising", "ize", 3), ("ise", "ize", 4),
    ("ies", "y", 2), ("ied", "y", 2), ("ity", "", 4), ("ors", "", 4), ("ers", "", 4), ("ings", "", 3), ("ing", "", 3), ("ally", "al", 3),
    ("ably", "able", 3), ("ibly", "ible", 3), ("ily", "y", 3), ("ly", "", 3), ("sses", "ss", 1), ("xes", "x", 2), ("ches", "ch", 2),
    ("shes", "sh", 2), ("ed", "", 3), ("or", "", 4), ("er", "", 4), ("s", "", 3), ("e", "", 3),
)  # fmt: skip
"""An ending, what it becomes, and how many letters must stand before it: the longest that fits goes, then once more."""

_NOT_PLURAL: Final = ("ss", "us", "is", "ous")  # ends in s that are no plural


def stem(word: str) -> str:
    """A word without its ending, in small letters: `deploys`, `deployed` and `deployment` give the same.

    Example:
        >>> stem("retries") == stem("retry") == stem("retrying")
        True
    """
    if len(word) < 4 or not (word.isascii() and word.isalpha()):
        return word
    stemmed = _shorter(_shorter(word))
    return stemmed[:-1] + "i" if stemmed.endswith("y") and len(stemmed) > 2 else stemmed


def _shorter(word: str) -> str:
    for ending, become, least in _ENDINGS:
        if word.endswith(ending) and not (ending == "s" and word.endswith(_NOT_PLURAL)):
            stemmed = word[: len(word) - len(ending)]
            if len(stemmed) >= least and _VOWEL.search(stemmed):
                if become or ending in ("s", "e"):
                    return stemmed + become
                # `dropp` is `drop`; `ll`, `ss` and `zz` stay.
                doubled = len(stemmed) > 3 and stemmed[-1] == stemmed[-2]
                return stemmed[:-1] if doubled and stemmed[-1] not in "lsz" else stemmed
            if ending in ("ed", "ing"):
                return word
    return word


def grams(word: str) -> frozenset[str]:
    """Three characters each, with one mark before the word: what two spellings share."""
    marked = f"^{word}"
    return frozenset(marked[at : at + 3] for at in range(max(len(marked) - 2, 1)))


def alike(one: frozenset[str], other: frozenset[str]) -> float:
    """Share of what both have (Dice): 1 for the same word, 0 for nothing in common."""
    return 2 * len(one & other) / (len(one) + len(other)) if one or other else 0.0


# Words that mean nearly the same, from `related_words.txt`: so that a question finds a note that says it otherwise.

NEAR: Final = 0.55  # what a word of the same group counts for, against the word itself
TOPIC: Final = 0.3  # the same for a word of the same topic
MOST_WORDS: Final = 3  # of a phrase


@cache
def _related() -> dict[str, dict[str, float]]:
    """By the stem of a word, or the stems of a phrase joined by `_`: related words with their weights, 0 to 1."""
    related_words: dict[str, dict[str, float]] = {}
    text = Path(__file__).with_name("related_words.txt").read_text(encoding="utf-8")
    for line in text.splitlines():
        if line.startswith("#"):
            continue
        weight = TOPIC if line.startswith("~") else NEAR
        words = line.lstrip("~").split()
        group = list(dict.fromkeys("_".join(map(stem, word.split("_"))) for word in words))
        for word in group:
            others = related_words.setdefault(word, {})
            for other in group:
                if other != word:
                    others[other] = max(weight, others.get(other, 0.0))
    return related_words


# What a question asks for: its words with what may stand for each, and the types of notes that answer such questions.

_COMMON: Final = frozenset(
    "a an and any are as at be been but by can could did do does for from get had has have how i if in into is it its just may me might "
    "my need of ok on only or our please shall should so still that the their them then there these they this to us use want was we were "
    "what when where which who why will with would you your about also".split()
)
"""Words of questions, in nearly every text: they would only add noise."""

_TYPES: Final = (
    (re.compile(r"\b(?:should|may|shall|can|must|do) (?:i|we)\b|\b(?:ok|fine|allowed) to\b", re.I), ("feedback", "project")),
    (re.compile(r"\bwhere\b|\bis there\b|\bwhich (?:page|site|folder|channel|dashboard)\b", re.I), ("reference",)),
    (re.compile(r"\b(?:they|them|their|user|user's)\b", re.I), ("user",)),
)  # fmt: skip
"""A question for leave is answered by a rule, one for a place by a reference, one about the user by who they are."""


def keys_of(words: Sequence[str]) -> list[str]:
    """Stems of the words, then those phrases of two or three of them that the table of related words has."""
    stems = [stem(word) for word in words]
    table = _related()
    joined = (
        "_".join(stems[at : at + size])
        for size in range(2, MOST_WORDS + 1)
        for at in range(len(stems) - size + 1)
    )
    return stems + [key for key in joined if key in table]


# Ranks notes by the words of a question and by related words, in memory, kept up to date by what changed.

WEIGHTS: Final = (3.0, 2.0, 1.0)  # of name, description and body: a title was chosen to be found
FURTHER: Final = 0.3  # what a further match of the same word counts for, after its best one

ALIKE: Final = 0.55
"""Share of common letter groups from which another spelling may stand for a word that no note has."""

SPELLING: Final = 0.5  # what such a word counts for, times its share
OF_TYPE: Final = 1.15  # for notes of the type that the question asks for
FLOOR: Final = 0.15  # share of the best note's score below which another is no match
MOST_KEYS: Final = 64  # of a question: the rest of a longer one changes little

_WORD = re.compile(r"\w+")
_PARTS = re.compile(r"[a-z0-9]+|[A-Z]+(?![a-z])|[A-Z][a-z0-9]*")
_CJK = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\U00020000-\U0003ffff]+")


class Document(NamedTuple):
    """A note as the index takes it; `version` changes when the text does; `kind` is its type."""

    key: str
    version: int
    name: str
    description: str
    body: str
    kind: str = ""


def terms(text: str) -> list[str]:
    """Words in small letters without accents; names also by their parts, scripts without spaces by pairs."""
    plain = "".join(
        char for char in unicodedata.normalize("NFKD", text) if not unicodedata.combining(char)
    )
    words: list[str] = []
    for word in _WORD.findall(unicodedata.normalize("NFC", plain)):
        for run in _CJK.findall(word):
            words += [run[at : at + 2] for at in range(max(len(run) - 1, 1))]
        other_scripts = _CJK.sub(" ", word).strip()
        if not other_scripts:
            continue
        words.append(other_scripts.casefold())
        parts = _PARTS.findall(other_scripts) if other_scripts.isascii() else []
        if len(parts) > 1:
            words += map(str.casefold, parts)
    return words


class WordIndex:
    """Documents and the words in them.

    Example:
        >>> index = WordIndex()
        >>> notes = [("a", 1, "Deploy", "how to ship", "run make"), ("b", 1, "Tea", "", "")]
        >>> index.sync(Document(*note) for note in notes)
        2
        >>> index.rank("how do I publish a release?")
        ['a']
    """

    def __init__(self) -> None:
        self._documents: dict[str, Document] = {}
        self._words: dict[str, dict[str, float]] = {}  # by document: weights of its keys
        self._having: dict[str, dict[str, float]] = {}  # by key: weights in its documents
        self._spelled: dict[str, set[str]] = {}  # by letter group: the keys that have it

    def __len__(self) -> int:
        return len(self._documents)

    def version(self, key: str) -> int | None:
        """Which version of a document is in; `None`: it is not."""
        indexed = self._documents.get(key)
        return indexed.version if indexed else None

    def sync(self, documents: Iterable[Document]) -> int:
        """Add what is new or changed, forget what was removed; returns how many were read."""
        current = {document.key: document for document in documents}
        changed = [newer for key, newer in current.items() if self.version(key) != newer.version]
        for key in [key for key in self._documents if key not in current]:
            self._forget(key)
        for document in changed:
            self._forget(document.key)
            self._insert(document)
        return len(changed)

    def rank(self, question: str, *, limit: int = 5, without: Collection[str] = ()) -> list[str]:
        """Keys of the best matches, best first; equal ones by key. `[]` where no word matches, nor a related one."""
        shares, left_out = self.shares(question), set(without)
        keys = [key for key, share in shares.items() if share >= FLOOR and key not in left_out]
        return sorted(keys, key=lambda key: (-shares[key], key))[:limit]

    def shares(self, question: str) -> dict[str, float]:
        """Score of each document that matches at all, as a share of the best one's."""
        words = terms(question)
        common = {stem(word) for word in words if word in _COMMON}
        asked = [key for key in dict.fromkeys(keys_of(words)) if key not in common]
        scores: dict[str, float] = {}
        for word in asked[:MOST_KEYS]:
            for key, score in self._matches(word).items():
                scores[key] = scores.get(key, 0.0) + score
        wanted = next((types for pattern, types in _TYPES if pattern.search(question)), ())
        for key in scores:
            if self._documents[key].kind in wanted:
                scores[key] *= OF_TYPE
        most = max(scores.values(), default=1.0)
        return {key: score / most for key, score in scores.items()}

    def _insert(self, document: Document) -> None:
        weights: dict[str, float] = {}
        fields = (document.name, document.description, document.body)
        for text, weight in zip(fields, WEIGHTS, strict=True):
            for word in keys_of(terms(text)):
                weights[word] = weights.get(word, 0.0) + weight
        # The text itself is not kept: it can be read again.
        self._documents[document.key] = document._replace(name="", description="", body="")
        self._words[document.key] = weights
        for word, weight in weights.items():
            if word not in self._having and word.isalpha():
                for gram in grams(word):
                    self._spelled.setdefault(gram, set()).add(word)
            self._having.setdefault(word, {})[document.key] = weight

    def _forget(self, key: str) -> None:
        self._documents.pop(key, None)
        for word in self._words.pop(key, {}):
            having = self._having[word]
            del having[key]
            if having:
                continue
            del self._having[word]
            for gram in grams(word):
                self._spelled.get(gram, set()).discard(word)

    def _matches(self, word: str) -> dict[str, float]:
        """Score of each document that has the word or one that may stand for it."""
        best: dict[str, float] = {}
        total: dict[str, float] = {}
        for other, share in self._standing_for(word).items():
            having = self._having.get(other)
            if having is None:
                continue
            # Inverse document frequency, as in BM25 (Robertson and Zaragoza, 2009).
            ratio = (len(self._documents) - len(having) + 0.5) / (len(having) + 0.5)
            worth = share * math.log(1 + ratio)
            for key, weight in having.items():
                score = worth * weight / (weight + 1)
                total[key] = total.get(key, 0.0) + score
                best[key] = max(score, best.get(key, 0.0))
        return {key: best[key] + FURTHER * (total[key] - best[key]) for key in best}

    def _standing_for(self, word: str) -> dict[str, float]:
        """The word, those related to it and, where no note has it, those spelled like it, with their weights."""
        weights = {word: 1.0, **_related().get(word, {})}
        if word not in self._having and word.isalpha() and len(word) > 3:
            groups = grams(word)
            near = {other for gram in groups for other in self._spelled.get(gram, ())}
            for other in sorted(near):
                share = alike(groups, grams(other))
                if share >= ALIKE:
                    weights[other] = max(weights.get(other, 0.0), SPELLING * share)
        return weights


MOST: Final = 5  # notes for one question; more would bury the one that matters
NEWEST: Final = 200  # heads that a model is shown
MAX_NOTE_CHARS: Final = 8_000  # of one note in the answer; the rest can be read in the file

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


class Embedder(Protocol):
    """Turns texts into vectors of one length; similar texts lie close."""

    def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """One vector for each text."""


class RecalledNotes(NamedTuple):
    """Notes for a question, best first; `by`: `model`, `embedder`, `words`, or `nothing` where the model's answer was no good."""

    notes: list[Note]
    by: str

    def text(self) -> str:
        """As it goes to the model: data with its source, each note cut at 8 000 characters."""
        parts = []
        for note in self.notes:
            body = note.body[:MAX_NOTE_CHARS]
            if len(note.body) > MAX_NOTE_CHARS:
                body += f"\n… (the rest is in {note.path})"
            parts.append(f'<memory file="{note.path}" type="{note.type}">\n{body}\n</memory>')
        return "\n\n".join(parts)


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
        heads = [note for note in every if note.path not in self.shown]
        if tools:
            heads = [note for note in heads if not _teaches(note, tools)]
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

    def _whole(self, path: str) -> Note | None:
        try:
            return self.folder.read(path)
        except (OSError, ValueError):
            return None

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
        is_current = self._words.version(head.path) == head.changed_ns
        body = "" if is_current else (self._whole(head.path) or head).body
        return Document(head.path, head.changed_ns, head.name, head.description, body, head.type)

    def _nearest(self, embedder: Embedder, question: str, heads: Sequence[Note]) -> list[str]:
        """By meaning, and among notes of like meaning by words."""
        fresh = [note for note in heads if (note.path, note.changed_ns) not in self._vectors]
        texts = [
            f"{note.name}. {note.description}. {(self._whole(note.path) or note).body[:EMBEDDED_CHARS]}"
            for note in fresh
        ]
        *vectors, asked = embedder.embed([*texts, question])
        for note, vector in zip(fresh, vectors, strict=True):
            self._vectors[note.path, note.changed_ns] = vector
        by_words = self._words.shares(question)
        scores: dict[str, float] = {}
        for note in heads:
            near = _cosine(asked, self._vectors[note.path, note.changed_ns])
            share = by_words.get(note.path, 0.0)
            if near >= CLOSE or share >= FLOOR:
                scores[note.path] = near + BY_WORDS * share
        return sorted(scores, key=lambda path: (-scores[path], path))

    def _picked(
        self, question: str, heads: Sequence[Note], tools: Collection[str], most: int
    ) -> Generator[Effect, Any, list[str]]:
        newest = heads[:NEWEST]
        asked = wording("recall").format(
            heads=heads_text(newest),
            question=question[:4_000].replace("</question>", ""),
            tools=", ".join(sorted(tools)) or "none",
            most=most,
        )
        request = SummaryRequest(
            messages=(), prompt=asked, max_output_tokens=500, source="memory_recall"
        )
        reply = yield from reply_of(self._writer, request)
        return _chosen(reply.text, {note.path for note in newest}, most) if reply else []


def reply_of(
    writer: Writer | None, request: SummaryRequest
) -> Generator[Effect, Any, SummaryReply | None]:
    """What a model answers; `None`: its call failed, which is no error of the caller's."""
    try:
        reply = yield Summarize(request, writer)
    except (Cancelled, InvalidPolicy, MissingExtra):
        raise  # the caller's, not the model's
    except Exception:
        return None
    return reply if isinstance(reply, SummaryReply) else SummaryReply(text=str(reply or ""))


def _teaches(note: Note, tools: Collection[str]) -> bool:
    """Whether a note tells how to use a tool that is in use: the agent knows that; warnings are another matter."""
    heading = f"{note.name} {note.description}"
    named = any(re.search(rf"\b{re.escape(tool)}\b", heading, re.I) for tool in tools)
    return named and bool(_USAGE.search(heading)) and not _WARNING.search(heading)


def _chosen(text: str, allowed: Collection[str], most: int) -> list[str]:
    for match in _NAMES.finditer(text):
        try:
            names = json.loads(match[0])
        except ValueError:
            continue
        chosen = dict.fromkeys(name for name in names if isinstance(name, str) and name in allowed)
        if chosen:
            return list(chosen)[:most]
    return []


def _cosine(one: Sequence[float], other: Sequence[float]) -> float:
    product = sum(a * b for a, b in zip(one, other, strict=True))
    norms = sum(a * a for a in one) * sum(b * b for b in other)
    return product / norms**0.5 if norms else 0.0


# Sentence vectors from an ONNX model on disk; nothing is fetched.

MAX_TOKENS: Final = 256  # of one text, as all-MiniLM-L6-v2 was trained; the rest is cut

BATCH: Final = 32


class OnnxEmbedder:
    """Vectors of texts: mean of the model's last layer over the text's tokens, of length 1.

    Args:
        path: A folder with `model.onnx` and `tokenizer.json`, as exporters of sentence models write it.

    Raises:
        MissingExtra: `onnxruntime` or `tokenizers` is not installed.
        StoreError: A file is missing or is no model.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        folder = Path(path)
        try:
            runtime: Any = import_module("onnxruntime")
            words: Any = import_module("tokenizers")
        except ImportError as exc:
            raise MissingExtra(exc.name or "onnxruntime", "embed") from exc
        for name in ("model.onnx", "tokenizer.json"):
            if not (folder / name).is_file():
                raise StoreError("is missing", path=str(folder / name))
        try:
            self._model: Any = runtime.InferenceSession(
                str(folder / "model.onnx"), providers=["CPUExecutionProvider"]
            )
            self._words: Any = words.Tokenizer.from_file(str(folder / "tokenizer.json"))
        except Exception as exc:  # both libraries raise types of their own
            raise StoreError(f"cannot be loaded: {str(exc)[:200]}", path=str(folder)) from exc
        self._words.enable_truncation(MAX_TOKENS)
        self._words.enable_padding()
        self._inputs = {model_input.name for model_input in self._model.get_inputs()}

    def embed(self, texts: Sequence[str]) -> list[Any]:
        """One vector (a numpy array of floats) for each text."""
        np: Any = import_module("numpy")
        encodable = [text.encode("utf-8", "replace").decode() for text in texts]
        vectors: list[Any] = []
        for at in range(0, len(texts), BATCH):
            read = self._words.encode_batch(encodable[at : at + BATCH])
            inputs = {
                "input_ids": np.array([row.ids for row in read], np.int64),
                "attention_mask": np.array([row.attention_mask for row in read], np.int64),
                "token_type_ids": np.array([row.type_ids for row in read], np.int64),
            }
            mean = self._model.run(None, {name: inputs[name] for name in self._inputs})[0]
            if mean.ndim != 2:
                mask = inputs["attention_mask"][:, :, None].astype(np.float32)
                mean = (mean * mask).sum(1) / np.maximum(mask.sum(1), 1)
            vectors += [*(mean / np.maximum(np.linalg.norm(mean, axis=1, keepdims=True), 1e-9))]
        return vectors

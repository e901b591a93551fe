"""Which texts the weights of a family are fitted on, and how much each group of them counts.

Text needs no figures: any text can be counted exactly. What a session's sum misses by is the vocabulary of its
programming language, so that many languages weigh together; no transcript that is measured as held out is among them.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from growth import Step, content, lines
from texts import CODE, DOCUMENTS, kinds, record

TRAIN = {
    "claude-3": ["cc_entireio-cli"],
    "claude-4.7": ["cc_entireio-cli"],
    "claude-4.8": ["cc_entireio-cli"],
    "o200k": ["codex_jdx-mise"],
    "cl100k": ["codex_jdx-mise"],
}
"""Repositories of the agent that runs models of this family: their text counts whole; their figures, where there are some."""

NEIGHBOUR = 0.5
"""What the text of another agent's training repository counts."""

WITHOUT_FIGURES = {"sweagent_demos": 0.3, "openai_tau-bench": 0.1, "cline": 0.1}
"""Transcripts that hold no figures and so measure nothing."""

MADE, WRITTEN, DOCUMENTED = 1.0, 2.0, 0.5
"""What all made and translated kinds together count; all programming languages; all documents."""

LEAST_CHARS, MOST_CHARS = 40, 30_000
REPOSITORY_PIECES, OTHER_PIECES, NESTED = 6000, 1500, 300


class Group(NamedTuple):
    """Texts, or JSON values such as stand inside of tool inputs, and what they count together."""

    share: float
    texts: Sequence[str]
    values: Sequence[Any] = ()
    transcripts: bool = False


def groups(
    steps: Sequence[Step], root: Path, family: str, train: Sequence[str] | None = None
) -> dict[str, Group]:
    """By name; `train` takes the place of all repositories and transcripts."""
    own = train or TRAIN[family]
    found = {name: of_texts(1.0, of(steps, name), REPOSITORY_PIECES) for name in own}
    if train is None:
        for name in sorted({name for names in TRAIN.values() for name in names} - set(own)):
            found[name] = of_texts(NEIGHBOUR, of(steps, name), REPOSITORY_PIECES)
        for name, share in WITHOUT_FIGURES.items():
            found[name] = of_texts(share, said(root / name), OTHER_PIECES)
    return {name: group for name, group in found.items() if group.texts} | of_kinds()


def of_kinds() -> dict[str, Group]:
    made = kinds()
    sorts = {
        name: WRITTEN if name in CODE else DOCUMENTED if name in DOCUMENTS else MADE
        for name in made
    }
    many = {sort: sum(each == sort for each in sorts.values()) for sort in sorts.values()}
    found = {name: Group(sort / many[sort], made[name]) for name, sort in sorts.items()}
    rng = random.Random(2)
    found["nested JSON"] = Group(MADE / 10, (), [nested(rng) for _ in range(NESTED)])
    return found


def of_texts(share: float, texts: Iterable[str], most: int) -> Group:
    """A sample of texts of transcripts, each once."""
    long = sorted({text[:MOST_CHARS] for text in texts if len(text) >= LEAST_CHARS})
    return Group(share, random.Random(1).sample(long, min(most, len(long))), transcripts=True)


def nested(rng: random.Random) -> Any:
    """A value such as stands inside of tool inputs."""
    return rng.choice(
        [
            record(rng),
            [record(rng) for _ in range(3)],
            {"content": rng.choice("abc") * 9, "status": "pending"},
        ]
    )


# ---- texts of transcripts --------------------------------------------------------------------


def of(steps: Sequence[Step], repository: str) -> Iterator[str]:
    for step in steps:
        if step.repository == repository:
            yield from pieces(step)


def said(folder: Path) -> Iterator[str]:
    """All strings of the JSON files of a folder."""
    for path in sorted(folder.iterdir()) if folder.is_dir() else ():
        try:
            documents = [json.loads(path.read_text("utf-8"))]
        except ValueError:
            documents = list(lines(path))
        for document in documents:
            yield from strings(document)


def strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from strings(item)
    elif isinstance(value, list):
        for item in value:
            yield from strings(item)


def pieces(step: Step) -> Iterator[str]:
    """The texts of a step as the model reads them: parameters one by one, nested values as JSON."""
    for item in step.items:
        for block in content(item):
            kind = block.get("type")
            if kind in ("text", "thinking"):
                yield block[kind]
            elif kind == "tool_use":
                yield block["name"]
                yield from parameters(block["input"])
            elif kind == "tool_result":
                yield from result(block.get("content"))


def parameters(given: Any) -> Iterator[str]:
    if isinstance(
        given, str
    ):  # sent as it stands: figures of patches of many lines show no escapes
        yield given
        return
    for key, value in given.items():
        yield key
        yield (
            value
            if isinstance(value, str)
            else json.dumps(value, ensure_ascii=False, separators=(",", ":"))
        )


def result(given: Any) -> Iterator[str]:
    if isinstance(given, str):
        yield given
    for part in given if isinstance(given, list) else []:
        if part.get("type") == "text":
            yield part["text"]

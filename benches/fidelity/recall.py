"""How well recall finds the one note that answers a question, and what it costs.

    python benches/fidelity/recall.py [--embedder FOLDER]

200 notes and 100 questions of our own making (`recall_set/`), each with the one note that answers it; half of the questions share
words with their note, half are paraphrases that were written without looking for words in common. Hit rates at 1 and at 5, by
words, by words after a scripted model that picks what an oracle would (what the bookkeeping around a model costs and loses), and,
with `--embedder`, by words and all-MiniLM-L6-v2 (`minilm.py` writes it).
Then the processor time of one recall by words over 1 000 notes.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ullage.memory.notes import MemoryFolder, NoteRecall
from ullage.memory.notes.note_recall import OnnxEmbedder
from ullage.summarizers.protocol import SummaryReply

SET = Path(__file__).parent / "recall_set"
MANY = 1_000
ROUNDS = 60


class Question(NamedTuple):
    kind: str
    name: str
    text: str


def rows(name: str) -> list[list[str]]:
    return [line.split("\t") for line in (SET / name).read_text("utf-8").splitlines() if line]


def questions() -> list[Question]:
    """All questions. Every second paraphrase was held out: nobody read it who wrote or tuned what ranks the notes."""
    given = [Question(*row) for row in rows("questions.tsv")]
    held = set([q for q in given if q.kind == "paraphrase"][1::2])
    return [q._replace(kind="held out") if q in held else q for q in given]


def folder_of_notes(path: Path, copies: int = 1) -> MemoryFolder:
    """The notes; further copies are distinguished by a number, as a folder of a thousand would hold similar ones."""
    folder = MemoryFolder(path)
    for copy in range(copies):
        for kind, name, description, body in rows("notes.tsv"):
            folder.add(f"{name} {copy}" if copy else name, description, kind, body)
    return folder


class Oracle:
    """A model that picks the right file among four others, as a good small model would."""

    name = "scripted"
    local = True

    def __init__(self, right: Callable[[str], str]) -> None:
        self.right = right

    def summarize(self, request: Any) -> SummaryReply:
        asked = request.prompt.rpartition("<question>")[2].partition("</question>")[0].strip()
        return SummaryReply(text=f'Sure. ["nothing.md", "{self.right(asked)}"]')


def hits(recall: NoteRecall, asked: Sequence[Question]) -> dict[str, tuple[float, float]]:
    found: dict[str, list[int]] = {}
    for question in asked:
        recall.shown.clear()
        names = [note.name for note in recall.find(question.text).notes]
        place = names.index(question.name) if question.name in names else 9
        found.setdefault(question.kind, []).append(place)
    return {
        kind: (sum(p == 0 for p in places) / len(places), sum(p < 5 for p in places) / len(places))
        for kind, places in found.items()
    }


def milliseconds(folder: MemoryFolder, asked: Sequence[Question]) -> tuple[float, float]:
    recall = NoteRecall(folder)
    recall.find("warm up")
    times = []
    for question in asked[:ROUNDS]:
        recall.shown.clear()
        start = time.process_time()
        recall.find(question.text)
        times.append(1000 * (time.process_time() - start))
    return statistics.median(times), sorted(times)[int(len(times) * 0.9)]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--embedder", type=Path, help="folder that minilm.py wrote")
    options = parser.parse_args()
    asked = questions()
    with tempfile.TemporaryDirectory() as place:
        folder = folder_of_notes(Path(place) / "notes")
        paths = {note.name: note.path for note in folder.notes()}
        right = {question.text: paths[question.name] for question in asked}
        ways = {
            "words": NoteRecall(folder),
            "scripted model": NoteRecall(folder, model=Oracle(right.__getitem__)),
        }
        if options.embedder:
            embedder = OnnxEmbedder(options.embedder)
            ways["words and embedder"] = NoteRecall(folder, embedder=embedder)
        for way, recall in ways.items():
            for kind, (first, five) in hits(recall, asked).items():
                print(f"{way:20} {kind:11} first {first:5.0%}   among five {five:5.0%}")
        many = folder_of_notes(Path(place) / "many", MANY // len(rows("notes.tsv")))
        middle, nine = milliseconds(many, asked)
        print(
            f"one recall by words over {len(many.notes()):,} notes: {middle:.1f} ms of processor time in the median, {nine:.1f} ms nine times in ten"
        )


if __name__ == "__main__":
    main()

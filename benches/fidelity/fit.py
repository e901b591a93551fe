"""Fits the weights of the calibrated estimate and writes them with their origin.

    python benches/fidelity/fit.py --corpus FOLDER [--train NAME ...] [--write]

Three parts. What text costs: features of many pieces (`training.py` says which) against exact counts. What
messages, blocks and parameters cost: what the provider's figures have over exact counts. What hidden thinking
costs: the figures against the length of signatures.
Without --write nothing is changed; `table.py` measures.
"""

from __future__ import annotations

import argparse
import datetime
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from exact import FAMILIES, counter
from growth import Step, content, corpus
from scipy.optimize import nnls
from training import TRAIN, Group, groups, pieces

from ullage._engine import core
from ullage._engine.digests import BlockKind, Role
from ullage._reference.read import JsonTally
from ullage.counting.models import ModelTable

DATA = Path(__file__).parents[2] / "python/ullage/data/weights.json"
FEATURE_NAMES = core.FEATURE_NAMES
UNIT = 4096
FIGURES = {"claude-4.7": ["cc_entireio-git-sync"], "claude-4.8": ["cc_entireio-git-sync"]}
"""Where figures of a family stand in no training repository, its fixed costs are taken from these."""

ARGUMENTS = FEATURE_NAMES.index("arguments")
LEAST_TOKENS, MOST_TOKENS = 15, 4000
"""Smaller pieces are left out; larger ones count no more."""


@dataclass
class Fit:
    """Weights in tokens."""

    features: np.ndarray
    blocks: dict[BlockKind, float] = field(default_factory=dict)
    messages: dict[Role, float] = field(default_factory=dict)
    hidden: tuple[int, float] = (0, 0.0)
    rows: int = 0
    steps: int = 0

    def data(self) -> dict[str, Any]:
        parts = lambda value: round(float(value) * UNIT)  # noqa: E731
        return {
            "features": {
                name: parts(value) for name, value in zip(FEATURE_NAMES, self.features, strict=True)
            },
            "blocks": {kind.name.lower(): parts(self.blocks.get(kind, 0)) for kind in BlockKind},
            "messages": {role.name.lower(): parts(self.messages.get(role, 0)) for role in Role},
            "hidden": {"free_chars": self.hidden[0], "per_char": parts(self.hidden[1])},
        }


# ---- text ------------------------------------------------------------------------------------


def text_rows(texts: Mapping[str, Group], family: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Features, exact counts and importance of pieces.

    Within a group a piece counts by the root of its size: sums of sessions lie in few large pieces, steps are small.
    """
    found = []
    for group in texts.values():
        rows = [row for row in group_rows(group, family) if row[1] >= LEAST_TOKENS]
        sizes = np.sqrt(np.minimum([count for _, count in rows], MOST_TOKENS))
        importance = group.share * sizes / sizes.sum()
        found += [(*row, each) for row, each in zip(rows, importance, strict=True)]
    return tuple(np.array(column, float) for column in zip(*found, strict=True))  # type: ignore[return-value]


def group_rows(group: Group, family: str) -> Iterable[tuple[Sequence[int], int]]:
    count = counter(family)
    for text in group.texts:
        yield core.features(text), count(text)
    key = np.array(core.features("value"))
    for value in group.values:
        counts = np.array(JsonTally({"value": value}).features) - key
        counts[ARGUMENTS] = 0
        yield counts, count(json.dumps(value, ensure_ascii=False, separators=(",", ":")))


def solve(
    matrix: np.ndarray, truth: np.ndarray, importance: np.ndarray, rounds: int = 12
) -> np.ndarray:
    """Non-negative weights that make the relative error small, outliers weighing less."""
    relative = np.sqrt(importance) / (truth + 20)
    scale, found = relative, np.zeros(matrix.shape[1])
    for _ in range(rounds):
        found = least(matrix * scale[:, None], truth * scale)
        error = np.abs(matrix @ found - truth) / (truth + 20)
        scale = relative / np.sqrt(np.maximum(error, 0.02))
    return found


def least(matrix: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """Non-negative least squares, of the triangle that the many rows come to."""
    turned, triangle = np.linalg.qr(matrix)
    return nnls(triangle, turned.T @ truth, maxiter=50 * matrix.shape[1])[0]


# ---- messages --------------------------------------------------------------------------------

COSTS = (BlockKind.TEXT, BlockKind.TOOL_USE, BlockKind.TOOL_RESULT, BlockKind.THINKING)
NAMES = {"text": 0, "tool_use": 1, "tool_result": 2, "thinking": 3}


def costs(step: Step) -> np.ndarray:
    """How many blocks of each kind, user messages that hold text, and parameters."""
    found = np.zeros(len(COSTS) + 2)
    for item in step.items:
        blocks = content(item)
        user = item.get("message", item).get("role") == "user"
        for block in blocks:
            if block.get("type") in NAMES:
                found[NAMES[block["type"]]] += 1
            if block.get("type") == "tool_use" and isinstance(block["input"], dict):
                found[-1] += len(block["input"])
        found[-2] += user
    return found


def fixed(steps: Sequence[Step], family: str) -> np.ndarray:
    """Least absolute deviations of what figures have over exact counts; what is hidden makes outliers."""
    count = counter(family)
    matrix = np.array([costs(step) for step in steps])
    over = np.array([step.tokens - sum(map(count, pieces(step))) for step in steps], float)
    # Thinking may be shown in a shortened form: its own cost is no part of the blocks'.
    plain = matrix[:, 3] == 0 if (matrix[:, 3] == 0).sum() > 100 else np.ones(len(matrix), bool)
    matrix, over = matrix[plain], over[plain]
    scale, found = np.ones(len(over)), np.zeros(matrix.shape[1])
    for _ in range(40):
        found, _ = nnls(matrix * scale[:, None], np.maximum(over, 0) * scale)
        scale = 1 / np.sqrt(np.maximum(np.abs(over - matrix @ found), 1.5))
    # Calls and results come in pairs: only their sum is known.
    found[1] = found[2] = (found[1] + found[2]) / 2
    return found


def hidden(steps: Sequence[Step], family: str, base: np.ndarray) -> tuple[int, float]:
    """A line through figures over all that is in clear, by characters of signature."""
    count = counter(family)
    signed, over = [], []
    for step in steps:
        blocks = [
            block
            for item in step.items
            for block in content(item)
            if block.get("type") == "thinking"
        ]
        if len(blocks) != 1 or not blocks[0].get("signature"):
            continue
        clear = sum(map(count, pieces(step))) + costs(step) @ base
        signed.append(len(blocks[0]["signature"]))
        over.append(step.tokens - clear + count(blocks[0]["thinking"]))
    if len(signed) < 50:
        return 0, 0.0
    matrix, truth = np.column_stack([signed, -np.ones(len(signed))]), np.array(over, float)
    scale, line = np.ones(len(truth)), np.zeros(2)
    for _ in range(40):
        line = np.linalg.lstsq(matrix * scale[:, None], truth * scale, rcond=None)[0]
        scale = 1 / np.sqrt(np.maximum(np.abs(truth - matrix @ line), 3))
    slope = max(float(line[0]), 0.0)
    return (max(0, round(float(line[1]) / slope)), slope) if slope else (0, 0.0)


# ---- all -------------------------------------------------------------------------------------


def family_of(step: Step) -> str:
    row = ModelTable.builtin().find(step.model)
    return row.family if row else ""


def clean(step: Step) -> bool:
    """Whether all that was added is in the file."""
    kinds_seen = {block.get("type") for item in step.items for block in content(item)}
    return step.tokens > 0 and not step.attachments and kinds_seen <= set(NAMES)


def fit(
    steps: Sequence[Step], texts: Mapping[str, Group], family: str, train: Sequence[str]
) -> Fit:
    matrix, truth, importance = text_rows(texts, family)
    found = Fit(solve(matrix, truth, importance), rows=len(truth))
    places = FIGURES.get(family, train)
    figures = [
        step
        for step in steps
        if step.repository in places and family_of(step) == family and clean(step)
    ]
    found.steps = len(figures)
    if figures:
        line = fixed(figures, family)
        found.blocks = dict(zip(COSTS, line, strict=False))
        found.messages = {Role.USER: line[-2]}
        found.features[ARGUMENTS] = line[-1]
        found.hidden = hidden(figures, family, line)
    return found


def origin(
    family: str, made: Fit, texts: Mapping[str, Group], train: Sequence[str]
) -> dict[str, Any]:
    return {
        "made": datetime.date.today().isoformat(),
        "command": "python benches/fidelity/fit.py --corpus FOLDER --write",
        "counted_by": FAMILIES[family]
        if not family.startswith("claude")
        else f"ctok {FAMILIES[family]}",
        "text_of": sources(texts),
        "pieces": made.rows,
        "figures_of": FIGURES.get(family, list(train)),
        "steps": made.steps,
    }


def sources(texts: Mapping[str, Group]) -> list[str]:
    """Transcripts by name and weight, kinds by their number."""
    named = {name: group.share for name, group in texts.items() if group.transcripts}
    told = [f"{name} × {share:g}" for name, share in named.items()]
    return [*told, f"{len(texts) - len(named)} kinds of benches/fidelity/texts.py"]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--corpus", type=Path, required=True)
    parser.add_argument("--family", action="append", choices=FAMILIES)
    parser.add_argument("--train", action="append", help="repositories in place of the usual ones")
    parser.add_argument("--output", type=Path, default=DATA)
    parser.add_argument("--half", type=int, choices=(0, 1), help="every other session only")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    steps = list(corpus(options.corpus, options.half))
    document = (
        json.loads(DATA.read_text("utf-8")) if DATA.exists() else {"unit": UNIT, "families": {}}
    )
    document["families"] = {name: document["families"].get(name, {}) for name in FAMILIES}
    for family in options.family or FAMILIES:
        train = options.train or TRAIN[family]
        texts = groups(steps, options.corpus, family, options.train)
        made = fit(steps, texts, family, train)
        document["families"][family] = {"origin": origin(family, made, texts, train), **made.data()}
        print(family, json.dumps(document["families"][family], indent=1))
    if options.write:
        options.output.parent.mkdir(parents=True, exist_ok=True)
        options.output.write_text(json.dumps(document, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()

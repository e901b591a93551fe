"""Prints how far estimates lie from the truth.

    python benches/fidelity/table.py --corpus FOLDER     against the provider's own figures, by model
    python benches/fidelity/table.py                     against exact counts, by kind of text
    python benches/fidelity/table.py --corpus FOLDER --exact   what even exact counts leave unexplained
    python benches/fidelity/table.py --corpus FOLDER --logged  only steps whose figure an exact count explains

Errors are shares of the truth: the median step, nine steps in ten, and all steps of a session together.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from itertools import compress
from pathlib import Path
from statistics import median
from typing import Any

from exact import FAMILIES, counter
from growth import Step, content, corpus
from texts import kinds
from training import pieces

from ullage._engine import core
from ullage.counting import calibration
from ullage.counting.models import ModelTable

Estimator = Callable[[Step], int]
LEAST = 1
"""Tokens of growth; nothing is left out for being small."""

BAR = 0.03
"""A session's sum should be nearer."""

SLACK_TOKENS, SLACK_SHARE = 25, 0.05
"""An exact count that misses a figure by more was of other text than the provider's: hosts add reminders of about
100 tokens that their files do not hold, and a few figures are of another tokenizer."""


def ours(step: Step) -> int:
    ledger = core.Ledger(calibration.weights_for(step.model), step.items)
    return ledger.tokens()


def quarter(step: Step) -> int:
    ledger = core.Ledger(None, step.items)
    return ledger.tokens()


def exact(step: Step) -> int:
    """Exact counts of all text in clear, with our own fixed costs: the floor of any estimate."""
    family = ModelTable.builtin().lookup(step.model).family
    weights = calibration.weights_for(step.model)
    clear = sum(core.estimate_text(text, weights) for text in pieces(step))
    return ours(step) - clear + sum(map(counter(family), pieces(step)))


def logged(step: Step) -> bool:
    """Whether the file holds what the figure is of; judged by exact counts alone, never by the estimate."""
    return abs(exact(step) - step.tokens) <= max(SLACK_TOKENS, SLACK_SHARE * step.tokens)


def corrected(steps: Sequence[Step]) -> list[int]:
    """Ours, corrected by the figures before each step of its session, as a `ContextManager` counts."""
    known: dict[tuple[str, str], calibration.Correction] = {}
    found = []
    for at, step in enumerate(steps):
        place = (step.session, step.model)
        before = known.get(place) or calibration.Correction(step.model)
        estimate = ours(step)
        found.append(before.apply(estimate).tokens)
        known[place] = before.observe(estimate, step.tokens, model=step.model, response_id=str(at))
    return found


def usable(step: Step) -> bool:
    types = {block.get("type") for item in step.items for block in content(item)}
    return step.tokens >= LEAST and not step.attachments and "image" not in types


def line(name: str, pairs: Sequence[tuple[int, int]], sessions: Iterable[float]) -> None:
    errors = sorted(abs(guess - truth) / truth for guess, truth in pairs)
    total = sum(guess for guess, _ in pairs) / sum(truth for _, truth in pairs) - 1
    shares = sorted(map(abs, sessions))
    over = f"{sum(share > BAR for share in shares)} of {len(shares)}"
    spread = f"{shares[len(shares) // 2]:7.1%} {shares[-1]:7.1%} {over:>8}" if shares else ""
    nine = errors[int(len(errors) * 0.9)]
    print(f"{name:48} {len(pairs):6} {median(errors):7.1%} {nine:7.1%} {total:+7.1%} {spread}")


HEAD = f"{'':48} {'n':>6} {'median':>7} {'9 in 10':>7} {'sum':>7} {'session':>7} {'worst':>7} {'over 3%':>8}"


def by_session(steps: Sequence[Step], guesses: Sequence[int]) -> list[float]:
    sums: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0])
    for step, guess in zip(steps, guesses, strict=True):
        known = sums[step.session]
        known[0] += guess
        known[1] += step.tokens
        known[2] += 1
    # A session of a few steps is no sum.
    return [guess / truth - 1 for guess, truth, count in sums.values() if count >= 20]


def figures(
    steps_of: Iterable[Step], estimators: dict[str, Any], keep: Callable[[Step], bool]
) -> None:
    """What is left out of a line is still observed by what learns from figures."""
    groups: dict[str, list[Step]] = defaultdict(list)
    for step in filter(usable, steps_of):
        groups[f"{step.repository} {step.model}"].append(step)
    for name, all_steps in sorted(groups.items()):
        chosen = [keep(step) for step in all_steps]
        steps = list(compress(all_steps, chosen))
        if len(steps) < 20:
            continue
        for title, estimator in estimators.items():
            found = (
                corrected(all_steps)
                if estimator is corrected
                else [estimator(step) for step in all_steps]
            )
            guesses = list(compress(found, chosen))
            pairs = [(guess, step.tokens) for guess, step in zip(guesses, steps, strict=True)]
            line(f"{name}: {title}", pairs, by_session(steps, guesses))


def texts_by_kind(families: Iterable[str]) -> None:
    made = kinds()
    for family in families:
        count = counter(family)
        row = next(row for row in ModelTable.builtin().rows.values() if row.family == family)
        weights = calibration.weights_for(row)
        for name, texts in made.items():
            truths = [(text, count(text)) for text in texts]
            rated = [(text, truth) for text, truth in truths if truth >= 15]
            line(
                f"{family} {name}: ours",
                [(core.estimate_text(text, weights), truth) for text, truth in rated],
                (),
            )
            line(
                f"{family} {name}: characters / 4",
                [(core.rough_text(text), truth) for text, truth in rated],
                (),
            )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--corpus", type=Path)
    parser.add_argument("--half", type=int, choices=(0, 1), help="every other session only")
    parser.add_argument("--exact", action="store_true")
    parser.add_argument("--logged", action="store_true")
    parser.add_argument("--family", action="append", choices=FAMILIES)
    options = parser.parse_args()
    print(HEAD)
    if options.corpus is None:
        texts_by_kind(options.family or FAMILIES)
        return
    estimators = {"ours": ours, "ours, corrected": corrected, "characters / 4": quarter}
    if options.exact:
        estimators = {"exact text": exact}
    keep = logged if options.logged else lambda _: True
    figures(corpus(options.corpus, options.half), estimators, keep)


if __name__ == "__main__":
    main()

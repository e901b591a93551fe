"""The forward-use score: how much of what the agent needs next does a compacted context still hold?

    python benches/fidelity/forward_use.py --corpus FOLDER [--size 3000] [--json FILE] [--ours] [--every 16 --first 7]

At a cut (see `cuts.py`), take the identifiers (paths, symbols, ids, commands, options, error names) that the next 20 tool
calls name in their parameters and that stood in the context before the cut. The score of a compacted context is the share of
them that it still holds. A path counts as held if its last two parts are there. *Remembered* leaves out what the agent saw
again after the cut before it used it: only what it had to know. *Own names* are those that stand in the sessions of one
repository only: not what any model knows.

All contexts of a cut have the same size, counted by one vocabulary: that of the summary which the session's own model wrote,
where there is one, else `--size`. The score of the written summary flatters it: the agent that went on knew nothing else.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from cuts import CALLS, Cut, Message, calls, cuts, text_of
from peer_reducers import ALL
from reducers import REDUCERS, count

SIZE = 3_000
"""Tokens; the median of the summaries that models wrote in the corpus."""

OURS = next(iter(REDUCERS))

LEAST = 5
"""A cut with fewer identifiers says nothing."""

WORD = re.compile(r"[A-Za-z0-9_@~.#/:-]{3,200}")
TELLING = re.compile(
    r"/.|^\.\w|\w\.[a-z]{1,5}$"  # a path, a file name
    r"|[a-z][A-Z]|[A-Za-z]_[A-Za-z]|\w::\w|\w\.[A-Za-z]\w"  # a symbol
    r"|^#\d+$|^[A-Z]{2,9}-\d+$|^(?=[0-9a-f-]*\d)(?=[0-9a-f-]*[a-f])[0-9a-f-]{7,40}$"  # an id
    r"|^--[a-z][\w-]+$|^E\d{3,4}$|(?:Error|Exception)$"  # an option, the name of an error
)
COMMAND = re.compile(r"(?:^|&&|\|\||;|\|)\s*((?:[a-z][\w.-]*)(?: [a-z][\w:-]+)?)")


def identifiers(given: Any) -> set[str]:
    """What the parameters of a call name."""
    found: set[str] = set()
    for text in _strings(given):
        for word in WORD.findall(text):
            word = word.strip(".:/")
            if TELLING.search(word):
                found.add(_short(word))
    if isinstance(given, dict):
        command = given.get("command") or given.get("cmd")
        line = " ".join(map(str, command)) if isinstance(command, list) else str(command or "")
        found |= {name for name in COMMAND.findall(line) if " " in name}
    return {name for name in found if len(name) >= 4}


def _strings(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [text for item in inner for text in _strings(item)]


def _short(word: str) -> str:
    """A path by its last two parts: where a repository lies differs from machine to machine."""
    return "/".join(word.split("/")[-2:]) if "/" in word else word


def needs(cut: Cut) -> tuple[set[str], set[str]]:
    """Identifiers that stood before the cut and are used after it: all, and those not seen again first."""
    before = "\n".join(map(text_of, cut.before))
    used: set[str] = set()
    remembered: set[str] = set()
    seen, told = [], 0
    for at, call in calls(cut.after, CALLS):
        seen += [shown(item) for item in cut.after[told:at]]
        told = max(told, at)
        fresh = {name for name in identifiers(call.get("input")) if name in before} - used
        again = "\n".join(seen)
        used |= fresh
        remembered |= {name for name in fresh if name not in again}
    return used, remembered


def shown(item: Message) -> str:
    """What others than the agent say: its own words are what it knew."""
    message = item.get("message", item)
    return text_of(item) if message.get("role") == "user" else ""


def score(text: str, names: set[str]) -> float:
    return sum(name in text for name in names) / len(names)


Texts = dict[str, set[str]]
"""The names in the contexts of each repository."""


def note_own(cut: Cut, seen: Texts) -> None:
    """Adds what a context names to what its repository does."""
    repository = re.sub(r"^[a-z]+_(?:[a-z]+-)?|/.*", "", cut.session)
    words = {word.strip(".:/") for word in WORD.findall("\n".join(map(text_of, cut.before)))}
    seen[repository] |= {_short(word) for word in words if TELLING.search(word)}


def add_own(rows: Sequence[dict[str, Any]], seen: Texts) -> None:
    """Scores own names, when the contexts of all repositories are known."""
    places = Counter(name for names in seen.values() for name in names)
    for row in rows:
        used, held = row.pop("used"), row.pop("held")
        own = {name for name in used if places[name] == 1}
        for name, told in row["scores"].items():
            told["own"] = len(own & held[name]) / len(own) if len(own) >= LEAST else None


def measure(cut: Cut, size: int, *, ours: bool) -> dict[str, Any] | None:
    used, remembered = needs(cut)
    if len(used) < LEAST:
        return None
    size = count(cut.written) if cut.written else size
    chosen = REDUCERS if ours else ALL
    texts = {name: reduce(cut.before, size) for name, reduce in chosen.items()}
    if cut.written:
        texts["the session's own summary"] = cut.written
    rows = {
        name: {
            "tokens": count(text),
            "all": score(text, used),
            "remembered": score(text, remembered) if len(remembered) >= LEAST else None,
        }
        for name, text in texts.items()
    }
    over = [name for name, row in rows.items() if row["tokens"] > size]
    assert not over, (over, size)  # nobody may have more room than the others
    held = {name: {each for each in used if each in text} for name, text in texts.items()}
    row = {"cut": f"{cut.session} {cut.kind}", "kind": cut.kind, "size": size, "scores": rows}
    return {**row, "used": used, "held": held}


def quartile(values: Sequence[float]) -> float:
    return sorted(values)[len(values) // 4]


def table(rows: Sequence[dict[str, Any]]) -> None:
    kinds: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        kinds[row["kind"]].append(row)
    for kind, found in sorted(kinds.items()):
        sizes = sorted(row["size"] for row in found)
        print(f"\n{kind}: {len(found)} cuts, {sizes[len(sizes) // 2]:,} tokens in the median")
        print(
            f"  {'':36} {'mean':>6} {'lower quarter':>14} {'remembered':>11} {'lower quarter':>14} {'own names':>10} {'better than ours':>17}"
        )
        for name in found[0]["scores"]:
            scores = [row["scores"][name] for row in found]
            every = [each["all"] for each in scores]
            kept = [each["remembered"] for each in scores if each["remembered"] is not None]
            told = f"{fmean(kept):11.3f} {quartile(kept):14.3f}" if kept else ""
            better = sum(row["scores"][name]["all"] > row["scores"][OURS]["all"] for row in found)
            own = [each["own"] for each in scores if each["own"] is not None]
            told = f"{told:26} {fmean(own) if own else 0:10.3f} {better:17}"
            print(f"  {name:36} {fmean(every):6.3f} {quartile(every):14.3f} {told}")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--corpus", type=Path, required=True)
    parser.add_argument("--size", type=int, default=SIZE)
    parser.add_argument("--json", type=Path, help="write every cut's scores")
    parser.add_argument("--only", help="cuts whose name holds this")
    parser.add_argument("--every", type=int, default=1, help="every how many-th cut")
    parser.add_argument("--first", type=int, default=0, help="from which cut on, with --every")
    parser.add_argument("--ours", action="store_true", help="without other packages")
    options = parser.parse_args()
    rows, start = [], time.monotonic()
    seen: Texts = defaultdict(set)
    for number, cut in enumerate(cuts(options.corpus)):
        if number % options.every != options.first:
            continue
        if options.only and options.only not in f"{cut.session} {cut.kind}":
            continue
        note_own(cut, seen)
        row = measure(cut, options.size, ours=options.ours)
        if row is not None:
            rows.append(row)
            if sys.stderr.isatty():
                print(f"\r{len(rows)} cuts", end="", file=sys.stderr, flush=True)
    add_own(rows, seen)
    table(rows)
    print(f"\n{len(rows)} cuts in {time.monotonic() - start:.0f} s", file=sys.stderr)
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()

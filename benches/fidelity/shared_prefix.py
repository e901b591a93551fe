"""How much of a summary is, byte for byte, the beginning of the next one, in the order that it has and in one that puts first what changes least.

    python benches/fidelity/shared_prefix.py --corpus FOLDER [--every 6] [--compactions 5] [--target 4000]

Long sessions arrive in parts of 40 000 tokens, each of which is compacted together with the summary before it to the target. *As it is*:
the nine sections in their order. *Volatility order*: the user's words (6), then rules and requests (1), open and closed work (7), decisions and
reports (5), failures (4), files (3), current work (8), next step (9) and names (2). Dollars are what a provider's cache would save on the shared prefix of each
compaction if its cache still held the request before: tokens written at 1.25 of the input price would be read at 0.1.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path
from statistics import fmean

from cuts import Message, conversations, said
from reducers import count

from ullage import compact, estimate_tokens

MODEL = "claude-opus-4-5"
DOLLARS = 5.0
"""Of a million input tokens."""

PART = 40_000
LEAST_BYTES = 1_500_000
ORDER = (6, 1, 7, 5, 4, 3, 8, 9, 2)
_HEADING = re.compile(r"(?m)^## (\d)\. ")


def bare(item: Message) -> Message:
    """Without the reported usage, which counts a system prompt and tools into the target."""
    message = said(item) or {}
    return {"role": message["role"], "content": message["content"]}


def parts(items: list[Message]) -> Iterator[list[Message]]:
    """The session in parts that begin with a message of the assistant's and end with an answered call."""
    part: list[Message] = []
    spent = 0
    for item in items:
        if spent >= PART and item["role"] == "assistant":
            yield part
            part, spent = [], 0
        part.append(item)
        spent += estimate_tokens([item], model=MODEL)


def summaries(items: list[Message], most: int, target: int) -> list[str]:
    """The texts of consecutive compactions."""
    context: list[Message] = []
    found: list[str] = []
    for part in parts(items):
        done = compact([*context, *part], model=MODEL, keep=0, target_tokens=target)
        if not done.compacted:
            break
        context = [dict(message) for message in done.messages]
        found.append(str(done.summary_messages[0]["content"]))
        if len(found) == most:
            break
    return found


def reordered(text: str) -> str:
    """The summary with its sections in the other order."""
    places = [*_HEADING.finditer(text)]
    if not places:
        return text
    ends = [*(match.start() for match in places[1:]), _end(text, places[-1].start())]
    bodies = {int(m[1]): text[m.start() : end].rstrip() for m, end in zip(places, ends, strict=True)}  # fmt: skip
    middle = "\n\n".join(bodies[n] for n in ORDER if n in bodies)
    return text[: places[0].start()] + middle + "\n\n" + text[ends[-1] :]


def _end(text: str, start: int) -> int:
    place = text.find("\n[End of the summary]", start)
    return place + 1 if place >= 0 else len(text)


def shared(pair: tuple[str, str]) -> int:
    """Tokens of the common beginning."""
    same = takewhile(lambda two: two[0] == two[1], zip(*pair, strict=False))
    return count("".join(one for one, _ in same))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--corpus", type=Path, required=True)
    parser.add_argument("--every", type=int, default=6)
    parser.add_argument("--compactions", type=int, default=5)
    parser.add_argument("--target", type=int, default=4_000)
    given = parser.parse_args()
    files = [p for p in sorted(given.corpus.glob("*/*.json*")) if p.stat().st_size > LEAST_BYTES]
    now: list[int] = []
    other: list[int] = []
    sizes: list[int] = []
    sessions = 0
    for path in files[:: given.every]:
        found = next(conversations(path), [])
        items = [bare(item) for item in found if said(item) and not item.get("isCompactSummary")]
        texts = summaries(items, given.compactions, given.target)
        if len(texts) < 3:
            continue
        sessions += 1
        sizes += [count(text) for text in texts[1:]]
        now += map(shared, zip(texts, texts[1:], strict=False))
        turned = [reordered(text) for text in texts]
        other += map(shared, zip(turned, turned[1:], strict=False))
    print(f"{sessions} sessions, {len(now)} pairs, {fmean(sizes):,.0f} tokens a summary")
    for name, found in (("as it is", now), ("volatility order", other)):
        dollars = fmean(found) * 1.15 * DOLLARS / 1e6
        print(f"{name}: {fmean(found):,.0f} tokens shared, ${dollars:.5f} a compaction at most")


if __name__ == "__main__":
    main()

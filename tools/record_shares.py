"""What records take of the contexts that they describe (`docs/record.md`), by size and by what happened.

python -m tools.record_shares            # of one compaction of a made conversation, with the summary's text
python -m tools.record_shares FOLDER     # sessions of any known format, replayed with records in their log
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from ullage import compact, ullage_check as check
from ullage.exceptions import UllageError
from ullage.manager import ContextManager, Request
from ullage.policy import Policy
from ullage.replay import replay_session, script_of
from ullage.sessions import open_session
from ullage.transcript.record import compaction_record

MODEL = "claude-opus-4-5"
LEAST_TOKENS = (0, 2_000, 10_000, 50_000, 100_000)
"""Of the contexts in each row."""

SUMMARIES = ("autocompact", "compact")


def records_of(session: Path) -> list[bytes]:
    """Lines of records of a session's replay."""
    script, managers = script_of(open_session(session)), list[ContextManager]()

    def seen(manager: ContextManager, request: Request) -> None:
        del request
        managers[:] = [manager]

    with TemporaryDirectory() as folder:
        log = Path(folder) / "log.jsonl"
        if script.messages:
            replay_session(script, Policy.buffered(), model=MODEL, seen=seen, log=log, record=True)
        for manager in managers:
            manager.close()
        lines = log.read_bytes().splitlines(keepends=True) if log.exists() else []
    return [line for line in lines if check.RECORD.encode() in line[:30]]


def talk(tokens: int) -> list[dict[str, object]]:
    """A made conversation of short turns, of about so many tokens."""
    items: list[dict[str, object]] = []
    characters = number = 0
    while characters < 4 * tokens:
        lines = range(12 + number * 37 % 40)
        body = "".join(f"def part_{number}_{at}(n): return n * {at * 7 + number}\n" for at in lines)
        call = {"type": "tool_use", "id": f"c{number}", "name": "Read", "input": {"path": f"src/part_{number}.py"}}  # fmt: skip
        turn: list[dict[str, object]] = [
            {
                "role": "user",
                "content": f"Step {number}: port part {number} of the parser, and keep its tests green.",
            },
            {"role": "assistant", "content": [call]},
            {
                "role": "user",
                "content": [{"type": "tool_result", "tool_use_id": f"c{number}", "content": body}],
            },
            {"role": "assistant", "content": f"Part {number} is ported: {number * 3} tests pass."},
        ]
        items += turn
        characters += sum(len(check.canonical(message)) for message in turn)
        number += 1
    return items


def of_compactions() -> None:
    """Print a row for each size: what one record takes of the context, and its parts."""
    print("| tokens | messages | share | `texts` | `put` | `input` |\n|---|---|---|---|---|---|")
    for tokens in LEAST_TOKENS[1:]:
        items = talk(tokens)
        record = compaction_record(items, compact(items, keep=tokens // 10))
        made = [op for op in record["list"] if isinstance(op, dict)]
        put = sum(len(check.canonical(op["put"])) for op in made if "put" in op)
        whole = sum(len(check.canonical(message)) for message in items)
        parts = (len(check.canonical(record)), len(record["texts"]), put, len(record["input"]))
        shares = " | ".join(f"{100 * part / whole:.1f} %" for part in parts)
        print(f"| {tokens:,} | {len(items)} | {shares} |")


def of_replays(folder: Path) -> None:
    """Print a row for each size and kind: records, their bytes and their share of the request's characters before it."""
    shares = defaultdict[tuple[int, str], list[tuple[int, float]]](list)
    sessions = 0
    for session in sorted(folder.rglob("*.json*")):
        try:
            lines = records_of(session)
        except UllageError:
            continue
        sessions += bool(lines)
        for line in lines:
            record = json.loads(line)
            acts = record.get("acts", ())
            _, characters, tokens = record["size"]
            before = max((act[2] for act in acts), default=tokens)
            levels = "a level acted" if acts else "no level acted"
            kind = "a summary" if {act[0] for act in acts} & {*SUMMARIES} else levels
            least = max(size for size in LEAST_TOKENS if size <= before)
            # The characters before the levels acted, by the tokens then.
            whole = characters * before / max(tokens, 1)
            shares[least, kind].append((len(line), 100 * len(line) / max(whole, 1)))
    print(f"{sessions} sessions, {sum(map(len, shares.values())):,} records\n")
    print("| tokens from | | records | bytes, median | share, median |\n|---|---|---|---|---|")
    for (least, kind), found in sorted(shares.items()):
        size, share = (median(column) for column in zip(*found, strict=True))
        print(f"| {least:,} | {kind} | {len(found):,} | {size:,.0f} | {share:.2f} % |")


if __name__ == "__main__":
    of_replays(Path(sys.argv[1])) if len(sys.argv) > 1 else of_compactions()

"""One conversation with a log, for as many turns as wanted: memory held, processor time a turn, size of the log.

`python -m benches.long_log --turns 100000` takes some minutes. The window is 200,000 tokens, without a summarizer; at the end the
conversation is resumed from its log, and the next request compared with that of the manager that wrote it.
"""

from __future__ import annotations

import argparse
import gc
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from ullage import ContextManager

WORDS = "word " * 60


def resident_mb() -> float:
    """Memory of this process, in MB (Linux)."""
    gc.collect()
    pages = Path("/proc/self/statm").read_text(encoding="ascii").split()[1]
    return int(pages) * 4096 / 1e6


def turn(manager: ContextManager, number: int) -> None:
    """A question and its response, of about 75 tokens each."""
    manager.add({"role": "user", "content": f"question {number} {WORDS}"})
    manager.prepare()
    text = {"type": "text", "text": f"response {number} {WORDS}"}
    manager.observe({"id": f"msg_{number}", "role": "assistant", "content": [text]})


def play(turns: int, path: Path, every: int) -> dict[str, list[Any]]:
    """The conversation; prints a row of the table after `every` turns."""
    manager = ContextManager(model="claude-sonnet-4-5", context_window=200_000, log=path)
    before, started = resident_mb(), time.process_time()
    for number in range(1, turns + 1):
        turn(manager, number)
        if number % every == 0 or number == turns:
            spent = time.process_time() - started
            held, size = resident_mb() - before, path.stat().st_size / 1e6
            print(
                f"| {number:,} | {held:.0f} MB | {1000 * spent / number:.1f} ms | {size:.0f} MB |",
                flush=True,
            )
    manager.add({"role": "user", "content": "the last question"})
    sent = list(manager.prepare().messages)
    manager.close()
    with ContextManager.resume(path) as again:
        return {"sent": sent, "resumed": list(again.prepare().messages)}


def main() -> int:
    """Print the table, and whether a resume gives the same request."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=100_000)
    options = parser.parse_args()
    print("| turns | memory held | processor time a turn | log |\n| --: | --: | --: | --: |")
    with tempfile.TemporaryDirectory() as folder:
        made = play(options.turns, Path(folder) / "log.jsonl", max(1, options.turns // 5))
    if made["sent"] != made["resumed"]:
        print("the resumed request is another one", file=sys.stderr)
        return 1
    print(f"\nthe request after a resume is equal ({len(made['sent'])} messages)")
    return 0


if __name__ == "__main__":
    sys.exit(main())

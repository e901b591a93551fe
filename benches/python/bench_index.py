"""Readers of a transcript, for `benches/python/bench_suite.py`; and

    python benches/python/bench_index.py [FILE]

what an index keeps in memory, and its peak. `1000` in place of FILE makes a session of so many
megabytes.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import orjson

from tests.kit.transcripts import Layout, session_file
from ullage import _core, _reference
from ullage.testing import scenario

MEGABYTES = 60


def make(path: Path, megabytes: int = MEGABYTES) -> Path:
    """Sessions one after another, until the file is large enough; tool output stored twice."""
    with path.open("wb") as file:
        seed = 0
        while file.tell() < megabytes * 1_000_000:
            seed += 1
            file.write(session_file(scenario(seed, turns=60), layout=Layout()).to_bytes())
    return path


# ---- the contenders --------------------------------------------------------------------------


def index(path: Path) -> Any:
    return _core.TranscriptIndex.open(str(path))


def keep_orjson(path: Path) -> list[Any]:
    return [orjson.loads(line) for line in path.read_bytes().splitlines() if line]


def drop_orjson(path: Path) -> int:
    count = 0
    for line in path.read_bytes().splitlines():
        if line:
            orjson.loads(line)
            count += 1
    return count


def keep_json(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_bytes().splitlines() if line]


def plain(path: Path) -> tuple[int, int, int]:
    """Lines, rough tokens and blocks of their messages: what an index must know, from objects."""
    objects = keep_orjson(path)
    said = [line for line in objects if isinstance(line.get("message"), dict) or "content" in line]
    ledger = _reference.Ledger(None, said)
    found = [ledger.message(at) for at in range(len(ledger))]
    return len(objects), ledger.tokens(), sum(message.block_count for message in found)


def check(path: Path) -> None:
    """The answer first. Lines without a message have no digest."""
    found = index(path)
    digests = [digest for at in range(len(found)) if (digest := found.line(at).message)]
    tokens = sum(digest.tokens for digest in digests)
    assert (len(found), tokens, sum(d.block_count for d in digests)) == plain(path)
    assert (found.bad, found.torn, found.size) == ([], None, path.stat().st_size)


# ---- memory ----------------------------------------------------------------------------------

MEMORY = """
import sys
from pathlib import Path
from ullage import _core

def kilobytes(key):
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(key))

# Bytes of `Line`, `MessageDigest`, `BlockDigest` in rust/core; of a string in addition to its text: where it ends, its number in
# the table, and the table's own byte, at seven eighths full.
LINE, MESSAGE, BLOCK, STRING = 40, 48, 32, 10

before = {key: kilobytes(key) for key in ("RssAnon", "RssFile")}
index = _core.TranscriptIndex.open(sys.argv[1])
peak, resident = kilobytes("VmHWM"), {key: kilobytes(key) - before[key] for key in before}
# What follows is for the bench alone, and costs memory of its own.
lines = [index.line(at) for at in range(len(index))]
names = 0
for ref in range(1, 10**9):
    try:
        names += len(index.string(ref).encode()) + STRING
    except IndexError:
        break
messages = [line.message for line in lines if line.message]
blocks = sum(message.block_count for message in messages)
needed = LINE * len(lines) + MESSAGE * len(messages) + BLOCK * blocks + names
print(peak - sum(before.values()), resident["RssAnon"], resident["RssFile"], len(index), blocks, needed)
"""


def memory(path: Path) -> None:
    command = [sys.executable, "-c", MEMORY, str(path)]
    shown = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
    peak, anon, mapped, lines, blocks, nbytes = map(int, shown)
    size = path.stat().st_size
    print(
        f"file {size / 1e6:.1f} MB, {lines} lines, {blocks} blocks; digests {nbytes / 1e6:.2f} MB"
    )
    own, held, most = (kilobytes * 1024 / 1e6 for kilobytes in (anon, mapped, peak))
    print(f"resident: {own:.1f} MB own, {held:.1f} MB of files; peak {most:.1f} MB")
    print(f"all resident memory over digests: {(anon + mapped) * 1024 / nbytes:.3f}")


def main(arguments: list[str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        if arguments and not arguments[0].isdigit():
            memory(Path(arguments[0]))
        else:
            size = int(arguments[0]) if arguments else MEGABYTES
            memory(make(Path(folder) / "session.jsonl", size))


if __name__ == "__main__":
    main(sys.argv[1:])

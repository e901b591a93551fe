"""Packs OpenAI's vocabularies into `python/ullage/data/*.bpe`.

    python benches/python/pack_bpe.py            write the files
    python benches/python/pack_bpe.py --check    compare them with what would be written

Reads the files that the crate tiktoken-rs ships (checked against the hashes that OpenAI's
tiktoken pins) and the Unicode tables of the crate regex-syntax, which tiktoken's own regular
expressions use. The form is described in `rust/core/src/bpe/packed.rs`.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import json
import re
import struct
import subprocess
import sys
from collections.abc import Iterable, Iterator
from itertools import pairwise
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / "python" / "ullage" / "data"
MAGIC = b"ullage-bpe-1"
NO_GAP = 0xFFFFFFFF

# From tiktoken_ext/openai_public.py.
HASHES = {
    "o200k_base": "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d",
    "cl100k_base": "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7",
    "p50k_base": "94b5ca7dff4d00767bc256fdd1b27e5b17361d7b8a5f968547f9f23eb70d2069",
}

# Name of the class in the packed file: tables of regex-syntax. Later ones win.
CLASSES = {
    1: ["LOWERCASE_LETTER"],
    2: ["UPPERCASE_LETTER", "TITLECASE_LETTER"],
    3: ["MODIFIER_LETTER", "OTHER_LETTER"],
    4: ["MARK"],
    5: ["NUMBER"],
    6: ["WHITE_SPACE"],
}
NEWLINE = 7


def crate(name: str) -> Path:
    """Where cargo keeps the sources of a dependency."""
    command = ["cargo", "metadata", "--format-version=1", "--locked"]
    text = subprocess.run(command, cwd=ROOT, check=True, capture_output=True).stdout
    found = [p for p in json.loads(text)["packages"] if p["name"] == name]
    return Path(found[0]["manifest_path"]).parent


def code_point(literal: str) -> int:
    """The value of a Rust character literal."""
    simple = {"\\0": 0, "\\t": 9, "\\n": 10, "\\r": 13, "\\'": 39, "\\\\": 92}
    if literal in simple:
        return simple[literal]
    if escaped := re.fullmatch(r"\\u\{([0-9a-f]+)\}|\\x([0-9a-f]{2})", literal):
        return int(escaped[1] or escaped[2], 16)
    return ord(literal)


def ranges(source: str, table: str) -> Iterator[tuple[int, int]]:
    """First and last code point of each range of a table of regex-syntax."""
    body = re.search(rf"const {table}: &'static \[\(char, char\)\] =\s*&\[(.*?)\];", source, re.S)
    if body is None:
        raise SystemExit(f"no table {table}")
    for low, high in re.findall(r"\('(.+?)', '(.+?)'\)", body[1]):
        yield code_point(low), code_point(high)


def class_runs() -> list[tuple[int, int]]:
    """(first code point, class) of each run of equal classes, from U+0000 on."""
    tables = crate("regex-syntax") / "src" / "unicode_tables"
    source = (tables / "general_category.rs").read_text() + (tables / "perl_space.rs").read_text()
    classes = bytearray(0x110000)
    for number, names in CLASSES.items():
        for low, high in (r for name in names for r in ranges(source, name)):
            classes[low : high + 1] = bytes([number]) * (high + 1 - low)
    classes[10] = classes[13] = NEWLINE
    starts = [i for i in range(0x110000) if i == 0 or classes[i] != classes[i - 1]]
    return [(start, classes[start]) for start in starts]


def ranks_of(name: str) -> dict[bytes, int]:
    """The vocabulary as OpenAI publishes it."""
    raw = (crate("tiktoken-rs") / "assets" / f"{name}.tiktoken").read_bytes()
    if hashlib.sha256(raw).hexdigest() != HASHES[name]:
        raise SystemExit(f"{name}: not the published file")
    lines = (line.split() for line in raw.splitlines() if line)
    return {base64.b64decode(token): int(rank) for token, rank in lines}


def last_merge(ranks: dict[bytes, int], token: bytes) -> tuple[int, int]:
    """The two tokens whose merge makes this one."""
    parts = [token[i : i + 1] for i in range(len(token))]
    while len(parts) > 2:
        pairs = [(ranks.get(a + b, NO_GAP), i) for i, (a, b) in enumerate(pairwise(parts))]
        rank, i = min(pairs)
        if rank >= ranks[token]:
            raise SystemExit(f"{token!r} is not what its own bytes merge to")
        parts[i : i + 2] = [parts[i] + parts[i + 1]]
    return ranks[parts[0]], ranks[parts[1]]


def columns(numbers: Iterable[int]) -> bytes:
    """Little-endian 24-bit numbers, byte plane after byte plane: deflates better than rows."""
    rows = list(numbers)
    return b"".join(bytes(n >> shift & 255 for n in rows) for shift in (0, 8, 16))


def pack(name: str, runs: list[tuple[int, int]]) -> bytes:
    """One vocabulary in packed form."""
    ranks = ranks_of(name)
    tokens = sorted(ranks, key=ranks.__getitem__)
    gaps = sorted(set(range(len(tokens))) - set(ranks.values()))
    if len(gaps) > 1 or any(len(token) != 1 for token in tokens[:256]):
        raise SystemExit(f"{name}: the packed form cannot hold this vocabulary")
    # Places in the file, which has no gap.
    places = {token: place for place, token in enumerate(tokens)}
    merges = [last_merge(places, token) for token in tokens[256:]]
    head = struct.pack("<III", len(runs), len(tokens), gaps[0] if gaps else NO_GAP)
    table = columns(start for start, _ in runs) + bytes(kind for _, kind in runs)
    body = b"".join(tokens[:256]) + columns(m[0] for m in merges) + columns(m[1] for m in merges)
    return MAGIC + head + table + body


def main() -> None:
    """Writes or checks all files."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="write nothing")
    check = parser.parse_args().check
    runs = class_runs()
    for name in HASHES:
        path, packed = DATA / f"{name}.bpe", pack(name, runs)
        if check and path.read_bytes() != packed:
            sys.exit(f"{path.name} differs")
        if not check:
            path.write_bytes(packed)
        print(f"{path.name}: {len(packed):,} bytes, sha256 {hashlib.sha256(packed).hexdigest()}")


if __name__ == "__main__":
    main()

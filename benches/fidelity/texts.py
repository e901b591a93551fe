"""Text of many kinds, made here or found among installed packages: what weights are fitted on besides transcripts.

Every kind is seeded and cut into pieces of 0.2 to 4 KB, about the size of a message. TypeScript is found in the
package `panel` (`pip install --no-deps panel`).
"""

from __future__ import annotations

import base64
import json
import random
import struct
import sysconfig
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

PIECES = 120
"""Of each kind that is made."""

FOUND = 300
"""At most, of each kind that is found."""

PACKAGES = sysconfig.get_paths()["purelib"]
LIBRARY = sysconfig.get_paths()["stdlib"]
CRATES = str(Path.home() / ".cargo/registry/src")
TOOLCHAINS = str(Path.home() / ".rustup/toolchains")
NODE = "/usr/lib/node_modules"

CODE = {
    "python": (PACKAGES, "**/*.py"),
    "python library": (LIBRARY, "**/*.py"),
    "rust": (CRATES, "**/*.rs"),
    "c": ("/usr/include", "**/*.h"),
    "perl": ("/usr/share/perl", "**/*.pm"),
    "javascript": (NODE, "**/*.js"),
    "typescript": (PACKAGES, "panel/models/**/*.ts"),
    "shell": ("/usr", "**/*.sh"),
}
"""Folder and pattern of each kind of file; a kind is left out where there is none."""

DOCUMENTS = {
    "markdown": (CRATES, "**/*.md"),
    "toml": (CRATES, "**/*.toml"),
    "rst": (LIBRARY, "**/*.rst"),
    "html": (TOOLCHAINS, "*/share/doc/rust/html/book/*.html"),
    "json files": (NODE, "**/*.json"),
    "manuals of git": ("/usr/share/doc/git", "**/*.txt"),
    "manuals of node": ("/usr/share/doc/nodejs", "**/*.md"),
    "manuals of vim": ("/usr/share/vim", "**/*.txt"),
    "prose": ("/usr/share/doc", "*/copyright"),
}

LANGUAGES = [
    "de",
    "fr",
    "es",
    "pl",
    "tr",
    "vi",
    "ru",
    "uk",
    "el",
    "he",
    "ar",
    "hi",
    "ta",
    "th",
    "ja",
    "ko",
    "zh_CN",
    "zh_TW",
    "ka",
]
"""Translated messages of installed programs (`/usr/share/locale`)."""


def kinds() -> dict[str, list[str]]:
    """Pieces by kind; the same on every call on one machine."""
    made = {
        name: [make(random.Random(f"{name} {at}")) for at in range(PIECES)]
        for name, make in MADE.items()
    }
    found = {name: list(files(name, *where)) for name, where in (CODE | DOCUMENTS).items()}
    spoken = {f"language {name}": list(translations(name)) for name in LANGUAGES}
    return {name: pieces for name, pieces in (made | found | spoken).items() if len(pieces) > 10}


def cut(text: str, rng: random.Random) -> str:
    size = rng.choice([200, 600, 1500, 4000])
    start = rng.randrange(max(1, len(text) - size))
    return text[start : start + size]


def files(name: str, folder: str, pattern: str) -> Iterator[str]:
    rng = random.Random(name)
    paths = sorted(Path(folder).glob(pattern))
    rng.shuffle(paths)
    each = max(1, min(20, FOUND // max(1, len(paths))))
    for path in paths[:FOUND]:
        try:
            text = path.read_text("utf-8")
        except (OSError, UnicodeDecodeError):
            continue
        if len(text) > 100:
            yield from (cut(text, rng) for _ in range(each))


def translations(language: str) -> Iterator[str]:
    rng = random.Random(language)
    messages: list[str] = []
    for path in sorted(Path("/usr/share/locale").glob(f"{language}/LC_MESSAGES/*.mo")):
        messages += catalogue(path.read_bytes())
    messages.sort()
    rng.shuffle(messages)
    if messages:
        for _ in range(PIECES // 2):
            yield "\n".join(rng.sample(messages, min(len(messages), rng.choice([3, 10, 30]))))


def catalogue(data: bytes) -> list[str]:
    """Translations of a compiled catalogue (GNU `.mo`, little-endian) that are UTF-8."""
    if data[:4] != b"\xde\x12\x04\x95":
        return []
    count, _, table = struct.unpack_from("<3I", data, 8)
    texts = []
    for at in range(1, count):  # entry 0 is the catalogue's own header
        length, start = struct.unpack_from("<2I", data, table + 8 * at)
        try:
            texts.append(data[start : start + length].decode().replace("\0", "\n"))
        except UnicodeDecodeError:
            continue
    return texts


# ---- made ------------------------------------------------------------------------------------

WORDS = (
    "the a of to and in is that for it with as was on be at by this from or an are which not have one "
    "request server index value config error message session token update branch handler parser result"
).split()


def some(
    rng: random.Random, least: int, most: int, line: Callable[[], str], joint: str = "\n"
) -> str:
    return joint.join(line() for _ in range(rng.randint(least, most)))


def stamp(rng: random.Random) -> str:
    return (
        f"2026-{rng.randint(1, 12):02}-{rng.randint(1, 28):02}T{rng.randint(0, 23):02}:{rng.randint(0, 59):02}:"
        f"{rng.randint(0, 59):02}.{rng.randint(0, 999):03}Z"
    )


def hexadecimal(rng: random.Random) -> str:
    size = rng.choice([7, 16, 32, 40, 64])
    return some(
        rng, 4, 40, lambda: f"{rng.getrandbits(4 * size):0{size}x}", rng.choice(["\n", " ", ","])
    )


def identifiers(rng: random.Random) -> str:
    return some(rng, 4, 40, lambda: str(uuid.UUID(int=rng.getrandbits(128))))


def encoded(rng: random.Random) -> str:
    return base64.b64encode(rng.randbytes(rng.randint(60, 1500))).decode()


def numbers(rng: random.Random) -> str:
    digits = rng.choice([1, 2, 4, 6])

    def row():
        return some(
            rng, 3, 9, lambda: f"{rng.uniform(-1, 1) * 10**digits:.{rng.randint(0, 6)}f}", ","
        )

    return some(rng, 5, 40, row)


def log(rng: random.Random) -> str:
    level = lambda: rng.choice(["INFO", "WARN", "ERROR", "DEBUG"])  # noqa: E731
    words = lambda: some(rng, 2, 8, lambda: rng.choice(WORDS), " ")  # noqa: E731
    return some(
        rng,
        4,
        30,
        lambda: (
            f"{stamp(rng)} {level()} [{rng.choice(WORDS)}.{rng.choice(WORDS)}] {words()} "
            f"id={rng.getrandbits(48):x} took={rng.randint(1, 9999)}ms"
        ),
    )


def listing(rng: random.Random) -> str:
    def name():
        return f"{rng.choice(WORDS)}{rng.choice(['_', '-', '.'])}{rng.choice(WORDS)}.{rng.choice(['py', 'go', 'txt'])}"

    return some(
        rng,
        5,
        40,
        lambda: (
            f"-rw-r--r-- 1 root root {rng.randint(10, 10**6):>8} Nov {rng.randint(1, 28):>2} "
            f"{rng.randint(0, 23):02}:{rng.randint(0, 59):02} {name()}"
        ),
    )


def record(rng: random.Random) -> dict[str, object]:
    return {
        "id": str(uuid.UUID(int=rng.getrandbits(128))),
        "name": " ".join(rng.sample(WORDS, 2)),
        "created_at": stamp(rng),
        "count": rng.randint(0, 99999),
        "ratio": rng.random(),
        "active": rng.random() < 0.5,
        "tags": rng.sample(WORDS, rng.randint(0, 4)),
        "parent": None,
        "path": f"/src/{rng.choice(WORDS)}/{rng.choice(WORDS)}.go",
    }


def compact_json(rng: random.Random) -> str:
    return json.dumps([record(rng) for _ in range(rng.randint(1, 8))], separators=(",", ":"))


def indented_json(rng: random.Random) -> str:
    return json.dumps([record(rng) for _ in range(rng.randint(1, 8))], indent=rng.choice([2, 4]))


def escaped_json(rng: random.Random) -> str:
    return json.dumps({"output": indented_json(rng), "code": rng.randint(0, 2)})


def table(rng: random.Random) -> str:
    width = rng.randint(10, 30)
    row = lambda: some(rng, 3, 5, lambda: rng.choice(WORDS).ljust(width), " ").rstrip()  # noqa: E731
    return some(rng, 5, 30, row)


def drawn(rng: random.Random) -> str:
    row = lambda: "│" + some(rng, 2, 4, lambda: f" {rng.choice(WORDS):<12} ", "│") + "│"  # noqa: E731
    edge = "─" * 40
    return f"┌{edge}┐\n{some(rng, 2, 20, row)}\n└{edge}┘\n{'=' * 60}\n{'█' * rng.randint(1, 30)}"


def marked(rng: random.Random) -> str:
    sign = lambda: rng.choice("✓✗✅❌⚠→←•…—“”🎉🚀🔥✨📦🐛")  # noqa: E731
    return some(
        rng, 4, 30, lambda: f"{sign()} {some(rng, 2, 8, lambda: rng.choice(WORDS), ' ')}{sign()}"
    )


def numbered(rng: random.Random) -> str:
    start = rng.randint(1, 900)

    def body():
        return "\t" * rng.randint(0, 3) + some(
            rng, 1, 5, lambda: rng.choice(WORDS), rng.choice([" ", ".", "("])
        )

    joint = rng.choice(["→", "\t"])
    return "\n".join(f"{at:>6}{joint}{body()}" for at in range(start, start + rng.randint(5, 40)))


MADE: dict[str, Callable[[random.Random], str]] = {
    "hex": hexadecimal,
    "uuid": identifiers,
    "base64": encoded,
    "numbers": numbers,
    "log": log,
    "listing": listing,
    "json compact": compact_json,
    "json indented": indented_json,
    "json escaped": escaped_json,
    "table": table,
    "box drawing": drawn,
    "symbols": marked,
    "numbered lines": numbered,
}

"""Estimates of text: how fast each kind of text is read, against our Python twin and `len(text) / 4`.

    python benches/python/bench_text.py

checks first that both engines see the same in every kind, then prints megabytes of UTF-8 a second and the
ratios of one run;

    python benches/python/bench_text.py instructions

prints instructions a byte (valgrind's callgrind; the difference of two runs, so that starting Python is
not counted). Texts are generated, each kind from a seed of its own.
"""

from __future__ import annotations

import importlib
import random
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

_core: Any = importlib.import_module("ullage._core")
_reference: Any = importlib.import_module("ullage._reference")

CHARS = 200_000
ENGLISH = "the of and context window returns every message that Anthropic counted before 2024, mostly".split()
CODE = [
    "def read(self, item):",
    "    return self.items[at]",
    "if x == 0x1F:",
    "",
    "value = call(a, b=1)",
    "}",
]
ALPHABETS = {
    "german": "Straße über für Größe und die der Wörter zählen, nähme 12".split(),
    "russian": "слово за словом и ещё 42, контекст".split(),
    "chinese": "上下文窗口的大小 压缩 消息。 第12条".split(),
    "hindi": "संदर्भ विंडो के आकार को देखना".split(),
    "emoji": "done 🎉 works ✓ → next 🚀".split(),
}


def drawn(words: list[str], seed: int, between: str = " ") -> str:
    rng = random.Random(seed)
    pieces, chars = [], 0
    while chars < CHARS:
        pieces.append(rng.choice(words))
        chars += len(pieces[-1]) + 1
    return between.join(pieces)[:CHARS]


def mixed() -> str:
    """Scripts by turns, a sentence each."""
    rng = random.Random(9)
    words = [ENGLISH, *ALPHABETS.values()]
    said = (" ".join(rng.choices(rng.choice(words), k=12)) for _ in range(CHARS // 20))
    return "\n".join(said)[:CHARS]


TEXTS: dict[str, Callable[[], str]] = {
    "prose": lambda: drawn(ENGLISH, 1),
    "code": lambda: drawn(CODE, 2, "\n"),
    "base64": lambda: "".join(random.Random(3).choices("ABCXYZabcxyz0189+/", k=CHARS)),
    "log": lambda: drawn(["2026-01-02T03:04:05.678Z", "INFO", "id=9f8e7d", "[worker-3]"], 4),
    **{name: partial(drawn, words, 5) for name, words in ALPHABETS.items()},
    "mixed": mixed,
}


def best(run: Callable[[], Any], seconds: float = 0.3) -> float:
    """Shortest of the runs that fit, in seconds."""
    found, end = [], time.perf_counter() + seconds
    while time.perf_counter() < end or len(found) < 3:
        start = time.perf_counter()
        run()
        found.append(time.perf_counter() - start)
    return min(found)


def table() -> None:
    weights = _core.Weights(range(44), blocks=range(15), messages=range(5))
    print(f"{'kind':8} {'bytes/char':>10} {'MB/s':>7} {'twin':>7} {'len/4':>9}")
    for kind, make in TEXTS.items():
        text = make()
        assert _core.features(text) == _reference.features(text), kind
        size = len(text.encode())
        ours = best(lambda: _core.estimate_text(text, weights))  # noqa: B023
        twin = best(lambda: _reference.features(text))  # noqa: B023
        plain = best(lambda: (len(text) + 2) // 4)  # noqa: B023
        rate, width = size / ours / 1e6, size / len(text)
        print(f"{kind:8} {width:10.2f} {rate:7.0f} {twin / ours:6.0f}x {plain / ours:8.5f}x")


def counted(kind: str, rounds: int) -> int:
    """Instructions of a process that reads a text so often."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "out"
        tool = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={out}"]
        run = [sys.executable, __file__, "read", kind, str(rounds)]
        subprocess.run([*tool, *run], check=True, capture_output=True)
        found = re.search(r"^(?:summary|totals): (\d+)", out.read_text(), re.MULTILINE)
    assert found is not None
    return int(found[1])


def instructions() -> None:
    for kind in ("prose", "code", "russian", "mixed"):
        size = len(TEXTS[kind]().encode())
        each = (counted(kind, 11) - counted(kind, 1)) / 10 / size
        print(f"{kind:8} {each:.2f} instructions a byte")


def main(args: list[str]) -> None:
    if args[:1] == ["read"]:
        text = TEXTS[args[1]]()
        for _ in range(int(args[2])):
            _core.features(text)
    elif args[:1] == ["instructions"]:
        instructions()
    else:
        table()


if __name__ == "__main__":
    main(sys.argv[1:])

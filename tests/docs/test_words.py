"""Words that the list in CONTRIBUTING.md replaces do not come back."""

from __future__ import annotations

import ast
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
    "python/ullage/facts/pasted.toml": ("dear|mind|told", "patterns that read what users pasted"),
    "python/ullage/facts/work.py": ("mind", "patterns that read what users typed"),
    "python/ullage/compaction/summary_call.py": ("told", "patterns that read what models wrote"),
    "python/ullage/facts/rules.py": ("mind|minds", "patterns that read what users typed"),
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
            + sorted(path.rglob("*.md"))
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


FAMILIES = "AUTO|BEY|BUD|CNT|COL|COST|CTX|FULL|HOOK|HOST|IN|KEEP|LOG|MED|MEM|MIC|P|PIPE|POST|REC|SM|SNIP|TOK|WIN"
RULE = re.compile(rf"\b(?:{FAMILIES})-\d+[a-z]?\b")
DEFINITION = re.compile(rf"^- \*\*((?:{FAMILIES})-\d+[a-z]?)\b", re.MULTILINE)
"""A rule begins a bullet of docs/behaviour.md with its id in bold type."""


def defined_rules() -> list[str]:
    return DEFINITION.findall((ROOT / "docs/behaviour.md").read_text(encoding="utf-8"))


def named_rules(*folders: str) -> set[tuple[str, str]]:
    """File and rule of each id in the sources below the folders."""
    sources = [
        path
        for folder in folders
        for path in (ROOT / folder).rglob("*")
        if path.suffix in (".py", ".rs", ".toml", ".md") and path != Path(__file__)
    ]
    return {
        (path.relative_to(ROOT).as_posix(), rule)
        for path in sources
        for rule in RULE.findall(path.read_text(encoding="utf-8"))
    }


def test_every_rule_that_is_named_is_defined() -> None:
    defined = set(defined_rules())
    named = named_rules("python", "rust", "tests", "benches", "docs")
    assert sorted(each for each in named if each[1] not in defined) == []


def test_every_rule_that_is_defined_is_named_where_it_holds() -> None:
    """In the code, or in the test that shows it."""
    named = {rule for _, rule in named_rules("python", "rust", "tests")}
    assert [rule for rule in defined_rules() if rule not in named] == []


def test_each_rule_is_defined_once_and_in_the_order_of_its_number() -> None:
    rules = defined_rules()
    assert len(rules) > 90
    assert len(set(rules)) == len(rules)
    for family in {rule.partition("-")[0] for rule in rules}:
        numbers = [
            (int(digits), letter)
            for name, digits, letter in (
                re.match(r"(\w+)-(\d+)(\w?)", rule).groups() for rule in rules
            )
            if name == family
        ]
        places = [at for at, rule in enumerate(rules) if rule.startswith(f"{family}-")]
        assert numbers == sorted(numbers), family
        assert places == list(range(places[0], places[0] + len(places))), f"{family} is scattered"


DIALECT = frozenset(
    "told said found each given made known kept gone torn mend beside behind rest took taken".split()
)
"""As the name of a variable, an argument or a function these do not say what it holds: found *what*?"""

PUBLIC_NAMES = {
    "_reference/jsonl.py": {"torn"},
    "batch/run.py": {"KEPT"},
    "clients/installation.py": {"found"},
    "compaction/job.py": {"kept"},
    "counting/calibration.py": {"known"},
    "counting/models.py": {"known"},
    "exceptions.py": {"found"},
    "levels/level.py": {"Rest", "rest"},
    "levels/view.py": {"Made", "given"},
    "manager/manager.py": {"given"},
    "manager/whole_list.py": {"given"},
    "memory/notes/folder.py": {"given"},
    "memory/session/session_memory.py": {"known"},
    "observe/cache_monitor.py": {"rest"},
    "recall/tool.py": {"given"},
    "report/session_figures.py": {"kept"},
    "testing/generator.py": {"made"},
}
"""Arguments and fields that programs of others may name."""

STATED = {"levels": {"rest"}}
"""What a level states of itself: a field of `Level`, and a function of that name in each level's file."""


def bound_names(path: Path) -> Iterator[str]:
    """What a file gives a name: variables, arguments, fields, functions and classes."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.id if isinstance(node, ast.Name) else node.attr
        elif isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name


def dialect_in(path: Path) -> set[str]:
    return {name for name in bound_names(path) if name.strip("_").lower() in DIALECT}


def test_names_say_what_they_hold() -> None:
    package = ROOT / "python/ullage"
    vague: dict[str, set[str]] = {}
    for path in sorted(package.rglob("*.py")):
        name = path.relative_to(package).as_posix()
        allowed = PUBLIC_NAMES.get(name, set()) | STATED.get(name.partition("/")[0], set())
        if names := dialect_in(path) - allowed:
            vague[name] = names
    assert vague == {}
    for name, names in PUBLIC_NAMES.items():
        assert dialect_in(package / name) >= names

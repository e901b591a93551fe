"""A made-up code base: files with symbols that call each other, and that edits really change."""

from __future__ import annotations

from dataclasses import dataclass, field

from ullage.testing._rng import Rng
from ullage.testing._templates import BLOCKS, EXTENSIONS, HEADS, TEST_COMMANDS

_VERBS = tuple(
    "load parse merge flush resolve validate collect render encode split drain refresh attach "
    "compact release verify schedule index publish expand rotate archive throttle reconcile".split()
)
_NOUNS = tuple(
    "invoice ledger session token cache queue worker shard cursor retry batch webhook tenant quota "
    "payload snapshot cluster region digest manifest receipt upload stream policy budget account "
    "feature refund coupon address carrier parcel".split()
)
_DOCS = (
    "Keeps the newest %s of every %s",
    "Turns a %s into what the %s expects",
    "Checks that each %s belongs to its %s",
    "Counts %s entries per %s",
)
_NAMES = ("harbor", "lantern", "quill", "meridian", "cobalt", "juniper", "tessera", "alder")


@dataclass(slots=True)
class SourceFile:
    """One file: its lines change with the edits of the session."""

    path: str
    lines: list[str]
    symbols: list[str]

    @property
    def text(self) -> str:
        return "\n".join(self.lines) + "\n"


@dataclass(frozen=True, slots=True)
class Edit:
    """A replacement that fits: `old` occurs once in the file, `new` now stands there."""

    old: str
    new: str
    line: int


@dataclass(slots=True)
class Project:
    """The code base of one session."""

    rng: Rng
    language: str
    root: str
    files: list[SourceFile] = field(default_factory=list)
    _taken: set[str] = field(default_factory=set)

    @classmethod
    def make(cls, rng: Rng, languages: tuple[str, ...] = ()) -> Project:
        """An empty project in one of the languages; files appear as the session asks for them."""
        language = rng.pick(languages or tuple(BLOCKS))
        return cls(rng, language, f"/home/dev/src/{rng.pick(_NAMES)}-{rng.pick(_NOUNS)}")

    def symbol(self) -> str:
        """A name that no other symbol of the project has, in the language's own case."""
        words = [self.rng.pick(_VERBS), *self.rng.some(_NOUNS, 2)]
        while " ".join(words) in self._taken:
            words.append(self.rng.pick(_NOUNS))
        self._taken.add(" ".join(words))
        if self.language == "go":
            return "".join([word.capitalize() for word in words])
        if self.language == "typescript":
            return words[0] + "".join([word.capitalize() for word in words[1:]])
        return "_".join(words)

    def new_file(self, chars: int, *, first: str = "") -> SourceFile:
        """A new source file of about that many characters; `first`: the symbol it begins with."""
        rng, suffix = self.rng, EXTENSIONS[self.language]
        stem = f"{rng.pick(_NOUNS)}_{rng.pick(_VERBS)}"
        folder = rng.pick(("src", "internal", "lib", "app")) + "/" + rng.pick(_NOUNS)
        path = f"{self.root}/{folder}/{stem}.{suffix}"
        if any(path == file.path for file in self.files):
            path = f"{self.root}/{folder}/{stem}_{len(self.files)}.{suffix}"
        title = f"{stem.replace('_', ' ').capitalize()} of the {folder.rpartition('/')[2]}"
        head = HEADS[self.language] % {"title": title, "package": folder.rpartition("/")[2]}
        parts, symbols, size = [head], list[str](), len(head)
        while size < chars or not symbols:
            parts.append(self._block(symbols, "" if symbols else first))
            size += len(parts[-1]) + 1
        file = SourceFile(path, "\n".join(parts).split("\n")[:-1], symbols)
        self.files.append(file)
        return file

    def _block(self, symbols: list[str], name: str) -> str:
        rng, name = self.rng, name or self.symbol()
        noun, other = rng.pick(_NOUNS), rng.pick(_NOUNS)
        call = rng.pick(symbols) if symbols else "len" if self.language == "python" else name
        symbols.append(name)
        return rng.pick(BLOCKS[self.language]) % {
            "fn": name,
            "cls": "".join([word.capitalize() for word in name.split("_")]),
            "arg": noun if noun != other else f"{noun}s",
            "word": other,
            "call": call,
            "doc": rng.pick(_DOCS) % (noun, other),
            "n": rng.between(16, 4096),
            "small": rng.between(2, 9),
        }

    def file(self, chars: int) -> SourceFile:
        """A file of the session so far, or a new one of about that size."""
        if self.files and self.rng.chance(20):
            return self.rng.pick(self.files)
        return self.new_file(chars)

    def edit(self, file: SourceFile, symbol: str) -> Edit:
        """Change the file: a guard in front of the body of `symbol`."""
        at = next(n for n, line in enumerate(file.lines) if self._defines(line, symbol))
        old = "\n".join(file.lines[at : at + 2])
        guard = self._guard(symbol)
        new = "\n".join([file.lines[at], guard, file.lines[at + 1]])
        file.lines.insert(at + 1, guard)
        return Edit(old, new, at + 2)

    def _defines(self, line: str, symbol: str) -> bool:
        words = {"python": "def ", "typescript": "export ", "go": "func ", "rust": "fn "}
        named = f" {symbol}(" in line or f" {symbol} =" in line
        return named and words[self.language] in line

    def _guard(self, symbol: str) -> str:
        number, noun = self.rng.between(100, 999), self.rng.pick(_NOUNS)
        if self.language == "python":
            return f"    # {noun}: never more than {number}, see test_{symbol}"
        indent = "\t" if self.language == "go" else "  "
        return f"{indent}// {noun}: never more than {number}, see {symbol} tests"

    def test_path(self, symbol: str) -> str:
        """Where the tests of a symbol live, relative to the root."""
        if self.language == "rust":
            return f"tests/{symbol}.rs"
        suffix = {"python": "py", "typescript": "test.ts", "go": "go"}[self.language]
        stem = f"test_{symbol}" if self.language == "python" else symbol
        return f"tests/{stem}_test.go" if suffix == "go" else f"tests/{stem}.{suffix}"

    def test_command(self, symbol: str) -> str:
        """The command that runs the tests of a symbol."""
        path = self.test_path(symbol)
        argument = {"go": "tests", "rust": symbol}.get(self.language, path)
        return TEST_COMMANDS[self.language] % argument

    def matches(self, word: str, *, limit: int = 60) -> list[tuple[str, int, str]]:
        """Path, line number and line of each occurrence, as a search would find them.

        Looks into the file that defines the word and the eight newest: enough to be believable,
        and a long session costs no more per search than a short one.
        """
        found, defining = [], [file for file in self.files[:-8] if word in file.symbols]
        for file in [*defining, *self.files[-8:]]:
            for number, line in enumerate(file.lines, start=1):
                if word in line:
                    found.append((file.path, number, line))
                    if len(found) >= limit:
                        return found
        return found

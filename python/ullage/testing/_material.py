"""What a generated session is made of: seeded choices, words, a code base, media, and what tools answer."""

from __future__ import annotations

import base64
import hashlib
import json
import random
import struct
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import islice
from typing import Any, NamedTuple, TypeVar

import orjson

from ullage._start import table
from ullage.messages import THINKING, Block, SystemPrompt

_T = TypeVar("_T")
_ALPHANUMERIC = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


class Rng:
    """A stream of choices.

    Built on `random.Random(int).random()` alone: the only sequence that Python promises to keep
    from version to version (`choice`, `shuffle` and `sample` have changed theirs).

    Args:
        seed: Any int; its low 64 bits count.
        stream: Name of an independent stream of the same seed.
    """

    __slots__ = ("_next", "_seed")

    def __init__(self, seed: int, stream: str = "") -> None:
        # crc32 and not hash(): the hash of a str differs from process to process.
        self._seed = (seed & (1 << 64) - 1) << 32 | zlib.crc32(stream.encode())
        self._next = random.Random(self._seed).random  # noqa: S311 - test data, not secrets

    def below(self, stop: int) -> int:
        """An int in [0, stop); `stop` under 2**32."""
        return int(self._next() * stop)

    def between(self, low: int, high: int) -> int:
        """An int in [low, high], both ends included."""
        return low + int(self._next() * (high - low + 1))

    def chance(self, percent: int) -> bool:
        """True in `percent` of 100 calls."""
        return self._next() * 100 < percent

    def pick(self, items: Sequence[_T]) -> _T:
        """One item."""
        return items[int(self._next() * len(items))]

    def some(self, items: Sequence[_T], count: int) -> list[_T]:
        """Up to `count` different items, in their order in `items`."""
        count = min(count, len(items))
        left, chosen = len(items), []
        for item in items:
            if self._next() * left < count:
                chosen.append(item)
                count -= 1
            left -= 1
        return chosen

    def token(self, length: int) -> str:
        """Letters and digits, as in the ids of an API."""
        draw = self._next
        return "".join([_ALPHANUMERIC[int(draw() * 62)] for _ in range(length)])

    def hex(self, length: int) -> str:
        """Lower-case hexadecimal digits, as in a commit id."""
        return self.noise((length + 1) // 2).hex()[:length]

    def uuid(self) -> str:
        """A version 4 UUID."""
        raw = self.noise(16).hex()
        return f"{raw[:8]}-{raw[8:12]}-4{raw[13:16]}-a{raw[17:20]}-{raw[20:]}"

    def noise(self, length: int) -> bytes:
        """Bytes without structure, several hundred MB per second."""
        salt = self._next().hex().encode()
        return hashlib.shake_128(salt + self._seed.to_bytes(12, "little")).digest(length)


class Language(NamedTuple):
    """A programming language: how its files end and begin, how its tests run, how its definitions look."""

    suffix: str
    test_command: str
    defines: str
    head: str
    blocks: list[str]


class Material(NamedTuple):
    """The words that sessions are made of, as `material.toml` has them."""

    plans: list[str]
    thoughts: list[str]
    answers: list[str]
    closings: list[str]
    instructions: list[tuple[str, str]]
    verbs: list[str]
    nouns: list[str]
    projects: list[str]
    docstrings: list[str]
    errors: list[str]
    log_levels: list[str]
    log_events: list[str]
    prose: list[str]
    requests: dict[str, dict[str, list[str]]]
    languages: dict[str, Language]


@cache
def material() -> Material:
    """The words, read when a session is first made."""
    words = table(__file__, "material.toml")
    words["languages"] = {name: Language(**one) for name, one in words["languages"].items()}
    return Material(**words)


SYSTEM = (
    "You are a coding agent in a terminal. Work on the user's code with the tools you have. "
    "Read a file before you change it, run the tests after a change, and say plainly what you "
    "could not do."
)


def _tool(name: str, purpose: str, required: str, /, **optional: str) -> dict[str, Any]:
    properties: dict[str, Any] = {key: {"type": "string"} for key in required.split()}
    properties |= {key: {"type": kind} for key, kind in optional.items()}
    schema = {"type": "object", "properties": properties, "required": required.split()}
    return {"name": name, "description": purpose, "input_schema": schema}


TOOLS: tuple[dict[str, Any], ...] = (
    _tool("Read", "Read a file.", "file_path", offset="integer", limit="integer"),
    _tool("Grep", "Search file contents.", "pattern", path="string", output_mode="string"),
    _tool("Glob", "Find files by name.", "pattern", path="string"),
    _tool("Bash", "Run a shell command.", "command", description="string", timeout="integer"),
    _tool(
        "Edit", "Replace text in a file.", "file_path old_string new_string", replace_all="boolean"
    ),
    _tool("Write", "Write a file.", "file_path content"),
    _tool("TodoWrite", "Keep the list of steps.", "", todos="array"),
    _tool("Task", "Give a task to a sub-agent.", "description prompt", subagent_type="string"),
    _tool("WebFetch", "Fetch a page.", "url prompt"),
    _tool("AskUserQuestion", "Ask the user to choose.", "question", options="array"),
)

WEB_SEARCH: dict[str, Any] = {"type": "web_search_20250305", "name": "web_search", "max_uses": 8}


@dataclass(slots=True)
class SourceFile:
    """One file: its lines change with the edits of the session."""

    path: str
    lines: list[str]
    symbols: list[str]


class Edit(NamedTuple):
    """A replacement that fits: `old` occurs once in the file, `new` now stands there."""

    old: str
    new: str
    line: int


class Project:
    """The code base of one session; files appear as the session asks for them."""

    def __init__(self, rng: Rng) -> None:
        self._rng, self._words = rng, material()
        self.language = rng.pick(tuple(self._words.languages))
        self._form = self._words.languages[self.language]
        name = f"{rng.pick(self._words.projects)}-{rng.pick(self._words.nouns)}"
        self.root = f"/home/dev/src/{name}"
        self.files: list[SourceFile] = []
        self._symbols: set[str] = set()

    def symbol(self) -> str:
        """A name that no other symbol of the project has, in the language's own case."""
        rng, nouns = self._rng, self._words.nouns
        words = [rng.pick(self._words.verbs), *rng.some(nouns, 2)]
        while " ".join(words) in self._symbols:
            words.append(rng.pick(nouns))
        self._symbols.add(" ".join(words))
        if self.language == "go":
            return "".join([word.capitalize() for word in words])
        if self.language == "typescript":
            return words[0] + "".join([word.capitalize() for word in words[1:]])
        return "_".join(words)

    def new_file(self, chars: int, *, first: str = "") -> SourceFile:
        """A new source file of about that many characters; `first`: the symbol it begins with."""
        rng, nouns = self._rng, self._words.nouns
        stem = f"{rng.pick(nouns)}_{rng.pick(self._words.verbs)}"
        parent = rng.pick(("src", "internal", "lib", "app"))
        package = rng.pick(nouns)
        path = f"{self.root}/{parent}/{package}/{stem}.{self._form.suffix}"
        if any(path == file.path for file in self.files):
            path = f"{self.root}/{parent}/{package}/{stem}_{len(self.files)}.{self._form.suffix}"
        title = f"{stem.replace('_', ' ').capitalize()} of the {package}"
        head = self._form.head % {"title": title, "package": package}
        parts, symbols, size = [head], list[str](), len(head)
        while size < chars or not symbols:
            parts.append(self._definition(symbols, "" if symbols else first))
            size += len(parts[-1]) + 1
        file = SourceFile(path, "\n".join(parts).split("\n")[:-1], symbols)
        self.files.append(file)
        return file

    def _definition(self, symbols: list[str], name: str) -> str:
        rng, name = self._rng, name or self.symbol()
        noun, other = rng.pick(self._words.nouns), rng.pick(self._words.nouns)
        call = rng.pick(symbols) if symbols else "len" if self.language == "python" else name
        symbols.append(name)
        return rng.pick(self._form.blocks) % {
            "fn": name,
            "cls": "".join([word.capitalize() for word in name.split("_")]),
            "arg": noun if noun != other else f"{noun}s",
            "word": other,
            "call": call,
            "doc": rng.pick(self._words.docstrings) % (noun, other),
            "n": rng.between(16, 4096),
            "small": rng.between(2, 9),
        }

    def file(self, chars: int) -> SourceFile:
        """A file of the session so far, or a new one of about that size."""
        if self.files and self._rng.chance(20):
            return self._rng.pick(self.files)
        return self.new_file(chars)

    def edit(self, file: SourceFile, symbol: str) -> Edit:
        """Change the file: a guard in front of the body of `symbol`."""
        at = next(
            at
            for at, line in enumerate(file.lines)
            if self._form.defines in line and (f" {symbol}(" in line or f" {symbol} =" in line)
        )
        number, noun = self._rng.between(100, 999), self._rng.pick(self._words.nouns)
        if self.language == "python":
            guard = f"    # {noun}: never more than {number}, see test_{symbol}"
        else:
            indent = "\t" if self.language == "go" else "  "
            guard = f"{indent}// {noun}: never more than {number}, see {symbol} tests"
        head, body = file.lines[at : at + 2]
        file.lines.insert(at + 1, guard)
        return Edit(f"{head}\n{body}", f"{head}\n{guard}\n{body}", at + 2)

    def test_path(self, symbol: str) -> str:
        """Where the tests of a symbol live, relative to the root."""
        forms = {
            "python": "tests/test_{}.py",
            "typescript": "tests/{}.test.ts",
            "go": "tests/{}_test.go",
            "rust": "tests/{}.rs",
        }
        return forms[self.language].format(symbol)

    def test_command(self, symbol: str) -> str:
        """The command that runs the tests of a symbol."""
        argument = {"go": "tests", "rust": symbol}.get(self.language, self.test_path(symbol))
        return self._form.test_command % argument

    def matches(self, word: str) -> list[str]:
        """`path:number:line` of the first occurrences, as a search would find them.

        Looks into the file that defines the word and the eight newest: enough to be believable,
        and a long session costs no more per search than a short one.
        """
        defining = [file for file in self.files[:-8] if word in file.symbols]
        hits = (
            f"{file.path}:{number}:{line}"
            for file in [*defining, *self.files[-8:]]
            for number, line in enumerate(file.lines, start=1)
            if word in line
        )
        return list(islice(hits, 60))


# ---- what tools answer -----------------------------------------------------------------------


def numbered(file: SourceFile, *, start: int = 1, count: int = 0, arrow: bool = False) -> str:
    """Lines with their numbers, as a file-reading tool shows them (`count` 0: to the end)."""
    lines = file.lines[start - 1 : start - 1 + count] if count else file.lines[start - 1 :]
    form = "%6d→%s" if arrow else "%6d\t%s"
    return "\n".join([form % pair for pair in enumerate(lines, start=start)])


def glob_list(rng: Rng, project: Project, chars: int) -> str:
    """Paths: the known files, then generated neighbours up to about `chars`."""
    paths = [file.path for file in project.files]
    stem = f"{project.root}/vendor/{rng.hex(6)}"
    while sum(map(len, paths)) + len(paths) < chars:
        at = len(paths)
        paths.append(f"{stem}/pkg_{at % 17:02}/module_{at:04}.{rng.hex(4)}.js")
    return "\n".join(paths)


def failed_run(
    rng: Rng, project: Project, file: SourceFile, symbol: str, chars: int
) -> tuple[str, str]:
    """Output of a test run with one failure, and its error line."""
    error, test = rng.pick(material().errors), project.test_path(symbol)
    line = next((n for n, text in enumerate(file.lines, 1) if symbol in text), 1)
    output = [
        _collected(rng, chars // 2),
        f"FAILED {test}::{symbol} - {error}",
        "Traceback (most recent call last):",
        f'  File "{project.root}/{test}", line {rng.between(8, 90)}',
        f"    result = {symbol}(fixture)",
        f'  File "{file.path}", line {line}, in {symbol}',
        f"{error}\n",
        f"{file.path.removeprefix(project.root + '/')}:{line}: {error}",
        f"1 failed, {rng.between(3, 60)} passed in 2.{rng.below(90):02}s",
    ]
    return "\n".join(output), error


def passed_run(rng: Rng, chars: int) -> str:
    """Output of a test run that passes."""
    return f"{_collected(rng, chars)}\n{rng.between(4, 90)} passed in 1.{rng.below(90):02}s"


def _collected(rng: Rng, chars: int) -> str:
    suite = rng.pick(("unit", "integration", "contract", "smoke"))
    return "\n".join(
        [
            f"tests/{suite}/case_{at:04} ................ ok ({at * 7 % 91 + 1} ms) [{at % 8}]"
            for at in range(1 + chars // 62)
        ]
    )


def service_log(rng: Rng, chars: int) -> str:
    """Lines of a service's log, about `chars` characters."""
    words = material()
    day, second, lines, size = rng.between(1, 28), rng.below(80_000), list[str](), 0
    host = f"billing-{rng.hex(5)}"
    while size < chars:
        second += rng.below(3)
        clock = f"{second // 3600:02}:{second // 60 % 60:02}:{second % 60:02}"
        event = rng.pick(words.log_events) % (rng.between(1, 250), rng.between(1, 9000))
        stamp = f"2026-03-{day:02}T{clock}.{rng.below(1000):03}Z"
        lines.append(f"{stamp} {host} {rng.pick(words.log_levels)} {event}")
        size += len(lines[-1]) + 1
    return "\n".join(lines)


def records(rng: Rng, chars: int) -> str:
    """An indented JSON list of records, about `chars` characters."""
    rows = [
        {
            "id": f"inv_{rng.hex(10)}",
            "tenant": rng.between(1, 400),
            "amount": rng.between(100, 999_999) / 100,
            "state": rng.pick(("open", "paid", "void")),
            "tags": ["q1", f"batch-{at:03}"],
            "note": None,
        }
        for at in range(1 + chars // 190)
    ]
    return json.dumps(rows, indent=2)


def install_log(rng: Rng, tool: str, chars: int) -> str:
    """What a package manager prints."""
    lines = [
        f"  + @scope/package-{at:03} {rng.below(9)}.{rng.below(30)}.{rng.below(9)} {rng.hex(12)}"
        for at in range(1 + chars // 70)
    ]
    end = f"done in {rng.between(1, 40)}.{rng.below(10)}s"
    return "\n".join([f"{tool}: resolving dependencies", *lines, end])


def diff(rng: Rng, project: Project, file: SourceFile, edit: Edit) -> str:
    """A unified diff of one edit."""
    path = file.path.removeprefix(project.root + "/")
    old, new = edit.old.split("\n"), edit.new.split("\n")
    lines = [
        f"diff --git a/{path} b/{path}",
        f"index {rng.hex(9)}..{rng.hex(9)} 100644",
        f"--- a/{path}",
        f"+++ b/{path}",
        f"@@ -{edit.line - 1},{len(old)} +{edit.line - 1},{len(new)} @@",
        f" {old[0]}",
        *[f"+{line}" for line in new[1:-1]],
        f" {old[-1]}",
    ]
    return "\n".join(lines)


def web_page(rng: Rng, title: str, chars: int) -> str:
    """A page of documentation as Markdown, about `chars` characters."""
    parts, size, prose = [f"# {title}"], 0, material().prose
    while size < chars:
        number = f"{rng.between(1, 9)}.{rng.between(1, 20)}"
        heading = rng.pick(("Limits", "Retries", "Keys", "Upgrade"))
        parts.append(f"## {number} {heading}\n\n{rng.pick(prose)}")
        size += len(parts[-1]) + 2
    return "\n\n".join(parts)


# ---- media -----------------------------------------------------------------------------------


def png(width: int, height: int, *, extra: bytes = b"") -> bytes:
    """A grey PNG of that size that any decoder opens.

    One bit per pixel and compressed, so that 8000 x 8000 pixels take some 8 KB; `extra` bytes go
    into a private chunk, to make the file as heavy as a real screenshot.
    """

    def chunk(kind: bytes, data: bytes) -> bytes:
        check = struct.pack(">I", zlib.crc32(kind + data))
        return struct.pack(">I", len(data)) + kind + data + check

    row, packer = b"\0" + b"\0" * ((width + 7) // 8), zlib.compressobj(6)
    body = b"".join([packer.compress(row) for _ in range(height)]) + packer.flush()
    head = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 1, 0, 0, 0, 0))
    padding = chunk(b"prVt", extra) if extra else b""
    return b"\x89PNG\r\n\x1a\n" + head + padding + chunk(b"IDAT", body) + chunk(b"IEND", b"")


def jpeg(width: int, height: int, comment: bytes) -> bytes:
    """A grey baseline JPEG of that size, with a comment of at most 65 533 bytes."""

    def segment(marker: int, data: bytes) -> bytes:
        return struct.pack(">BBH", 0xFF, marker, len(data) + 2) + data

    # One Huffman code, "0", for the value 0: every 8 x 8 square is then the two bits 00, mid-grey.
    huffman = [segment(0xC4, bytes([which, 1]) + b"\0" * 16) for which in (0x00, 0x10)]
    whole, odd = divmod(((width + 7) // 8) * ((height + 7) // 8) * 2, 8)
    tail = bytes([(1 << (8 - odd)) - 1]) if odd else b""  # the last byte is filled with ones
    parts = [
        b"\xff\xd8",
        segment(0xFE, comment),
        segment(0xDB, b"\0" + b"\1" * 64),
        segment(0xC0, struct.pack(">BHHBBBB", 8, height, width, 1, 1, 0x11, 0)),
        *huffman,
        segment(0xDA, b"\1\1\0\0\x3f\0"),
        b"\0" * whole + tail,
        b"\xff\xd9",
    ]
    return b"".join(parts)


def pdf(pages: int, *, text: str = "page") -> bytes:
    """A PDF of that many pages with one line of text on each."""
    font = "<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>"
    page = f"/MediaBox[0 0 612 792]/Resources<</Font<</F1{font}>>>>"
    kids = " ".join([f"{3 + 2 * n} 0 R" for n in range(pages)])
    objects = ["<</Type/Catalog/Pages 2 0 R>>", f"<</Type/Pages/Count {pages}/Kids[{kids}]>>"]
    for n in range(pages):
        stream = f"BT /F1 12 Tf 72 720 Td ({text} {n + 1}) Tj ET"
        objects.append(f"<</Type/Page/Parent 2 0 R{page}/Contents {4 + 2 * n} 0 R>>")
        objects.append(f"<</Length {len(stream)}>>stream\n{stream}\nendstream")
    out, offsets = b"%PDF-1.4\n", []
    for number, body in enumerate(objects, start=1):
        offsets.append(len(out))
        out += f"{number} 0 obj{body}endobj\n".encode("latin-1")
    table = "".join([f"{offset:010} 00000 n \n" for offset in offsets])
    size = len(objects) + 1
    xref = f"xref\n0 {size}\n0000000000 65535 f \n{table}"
    trailer = f"trailer<</Size {size}/Root 1 0 R>>\nstartxref\n{len(out)}\n%%EOF\n"
    return out + xref.encode() + trailer.encode()


def _encoded(kind: str, media_type: str, data: bytes) -> Block:
    encoded = base64.b64encode(data).decode("ascii")
    return {"type": kind, "source": {"type": "base64", "media_type": media_type, "data": encoded}}


_SIZES = ((320, 200), (640, 480), (1280, 720), (1440, 900), (1092, 1092), (390, 844), (1568, 1003))


def image_block(rng: Rng) -> Block:
    """An `image` block: a PNG or JPEG of a usual screen size, as heavy as a small one."""
    width, height = rng.pick(_SIZES)
    extra = rng.noise(rng.between(400, 6000))
    if rng.chance(60):
        return _encoded("image", "image/png", png(width, height, extra=extra))
    return _encoded("image", "image/jpeg", jpeg(width, height, extra))


def pdf_block(rng: Rng) -> Block:
    """A `document` block with a PDF of one to twelve pages."""
    data = pdf(rng.between(1, 12), text="Quarterly report, page")
    return _encoded("document", "application/pdf", data)


# ---- signatures of thinking ------------------------------------------------------------------


_CHECK_BYTES = 96  # makes a signature some 250 characters, like the shorter of the real ones


def canonical(value: Any) -> bytes:
    """JSON with sorted keys; also of what strict JSON cannot hold."""
    try:
        return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    except TypeError:  # lone surrogates, ints over 64 bits
        return json.dumps(value, sort_keys=True, separators=(",", ":"), default=repr).encode()


def _bare(block: Any) -> Any:
    """The block without its cache markers: moving one changes no prefix."""
    if not isinstance(block, dict):
        return block
    if "cache_control" in block:
        block = {key: value for key, value in block.items() if key != "cache_control"}
    content = block.get("content")
    if isinstance(content, list) and any(
        isinstance(b, dict) and "cache_control" in b for b in content
    ):
        block = {**block, "content": [_bare(inner) for inner in content]}
    return block


def _blocks(content: Any) -> Iterable[Any]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if content else []
    return content if isinstance(content, list) else []


class Walk:
    """Goes through the messages of a request and knows, for each, where its thinking stands.

    A running hash over system prompt, tools and turns: neighbours of one role count as one turn, so cutting a message
    in two changes nothing; thinking is left out, so dropping it from the start is allowed.
    """

    __slots__ = ("_before", "_hash", "_role", "step")

    def __init__(
        self, system: SystemPrompt | None = None, tools: Iterable[Mapping[str, Any]] | None = None
    ) -> None:
        self.step = 0
        self._hash = hashlib.sha256()
        self._role = ""
        for block in _blocks(system):
            self._hash.update(b"system" + canonical(_bare(block)))
        for tool in tools or ():
            if not tool.get("defer_loading"):
                self._hash.update(b"tool" + canonical(_bare(tool)))
        self._before = self.now()

    def now(self) -> str:
        """The hash of all that was added."""
        return self._hash.hexdigest()[:20]

    def turn(self, role: str) -> str:
        """Begin a message; the hash of all before the turn that it belongs to."""
        if role != self._role:
            self._role, self._before = role, self.now()
        return self._before

    def enter(self, message: Mapping[str, Any]) -> str:
        """Take a message in; the hash that thinking in it is bound to."""
        role, blocks = str(message.get("role")), _blocks(message.get("content"))
        if role == "user" and not any(_is(block, "tool_result") for block in blocks):
            self.step = 0
        before = self.turn(role)
        for block in blocks:
            if not _is(block, *THINKING):
                self._hash.update(role.encode() + canonical(_bare(block)))
        return before


def _is(block: Any, *kinds: str) -> bool:
    return isinstance(block, dict) and block.get("type") in kinds


@dataclass(frozen=True, slots=True)
class Seal:
    """What a signature says."""

    model: str
    prefix: str
    text: str  # hash of the thinking text, "" for thinking that is not shown
    previous: str = ""  # name of the thinking before it, "" for the first
    step: int = 0  # thinking blocks before it since the user's last words

    @property
    def name(self) -> str:
        """What the next seal calls this one."""
        return hashlib.sha256(repr(self).encode()).hexdigest()[:12]


def _text_hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:12] if text else ""


def seal(model: str, prefix: str, text: str, previous: str = "", step: int = 0) -> tuple[str, Seal]:
    """A signature for `text`, about as long as a real one, and what it says."""
    value = Seal(model, prefix, _text_hash(text), previous, step)
    body = "|".join(("sealed", model, prefix, value.text, previous, str(step))).encode()
    check = hashlib.shake_128(body).digest(_CHECK_BYTES)
    return base64.b64encode(body + b"|" + check).decode("ascii"), value


def unseal(signature: Any, text: str = "") -> Seal | None:
    """What a signature says; `None` if it is foreign, damaged, or not for this text."""
    try:
        raw = base64.b64decode(signature, validate=True)
        body, check = raw[: -_CHECK_BYTES - 1], raw[-_CHECK_BYTES:]
        kind, model, prefix, text_hash, previous, step = body.decode().split("|")
        value = Seal(model, prefix, text_hash, previous, int(step))
    except (ValueError, TypeError):
        return None
    genuine = kind == "sealed" and check == hashlib.shake_128(body).digest(_CHECK_BYTES)
    fits = not text or _text_hash(text) == text_hash
    return value if genuine and fits else None


def sign_thinking(
    messages: Iterable[Mapping[str, Any]],
    *,
    system: SystemPrompt | None = None,
    tools: Iterable[Mapping[str, Any]] | None = None,
    model: str = "claude-opus-5-5",
) -> list[Any]:
    """The same messages with all thinking signed for the place where it stands.

    Messages without thinking are the same objects. `redacted_thinking` gets its `data` likewise.
    """
    walk, previous, out = Walk(system, tools), "", list[Any]()
    for message in messages:
        before = walk.enter(message)
        blocks = list(_blocks(message.get("content")))
        thoughts = [at for at, block in enumerate(blocks) if _is(block, *THINKING)]
        for at in thoughts:
            block = blocks[at]
            text = str(block.get("thinking") or "")
            signature, value = seal(model, before, text, previous, walk.step)
            previous, walk.step = value.name, walk.step + 1
            key = "signature" if block["type"] == "thinking" else "data"
            blocks[at] = {**block, key: signature}
        out.append({**message, "content": blocks} if thoughts else message)
    return out

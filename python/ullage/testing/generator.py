"""Seeded conversations of a coding agent, with the truth about them.

Equal in every process and Python version for equal arguments, so that a number in a document can
name the seed it was measured with.

First what a session is made of: choices, words, a code base, what tools answer, media, signatures of thinking. Then its tasks.
"""

from __future__ import annotations

import base64
import hashlib
import json
import random
import struct
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from itertools import chain, islice
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal, NamedTuple, TypeAlias, TypeVar

import orjson

from ullage._start import table
from ullage.exceptions import InvalidPolicy
from ullage.messages import THINKING, Block, Message, SystemPrompt, as_blocks

_T = TypeVar("_T")
_ALPHANUMERIC = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


class Rng:
    """A stream of choices.

    Built on `random.Random(int).random()` alone: the only sequence that Python promises to keep
    from version to version (`choice`, `shuffle` and `sample` have changed theirs). Of the seed the low 64 bits count;
    `stream` names an independent stream of the same seed.
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
    """A programming language: how its files end and begin, how its tests run, how its definitions and an edit of them look."""

    suffix: str
    test_path: str  # relative to the root
    test_command: str
    guard: str  # what an edit puts in front of a body
    defines: str
    head: str
    blocks: list[str]


@cache
def material() -> SimpleNamespace:
    """The words that sessions are made of, by their names in `material.toml`; read when a session is first made."""
    words = table(__file__, "material.toml")
    words["tools"] = [_tool(**row) for row in words["tools"]]
    words["languages"] = {name: Language(**one) for name, one in words["languages"].items()}
    return SimpleNamespace(**words)


def _tool(
    name: str, description: str, required: list[str], optional: dict[str, str]
) -> dict[str, Any]:
    kinds = {**dict.fromkeys(required, "string"), **optional}
    properties = {key: {"type": kind} for key, kind in kinds.items()}
    schema = {"type": "object", "properties": properties, "required": required}
    return {"name": name, "description": description, "input_schema": schema}


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
        self.language: str = rng.pick(tuple(self._words.languages))
        self._form: Language = self._words.languages[self.language]
        name = f"{rng.pick(self._words.projects)}-{rng.pick(self._words.nouns)}"
        self.root = f"/home/dev/src/{name}"
        self.files: list[SourceFile] = []
        self._symbols: set[str] = set()

    def symbol(self) -> str:
        """A name that no other symbol of the project has, in the language's own case."""
        rng, nouns = self._rng, self._words.nouns
        words: list[str] = [rng.pick(self._words.verbs), *rng.some(nouns, 2)]
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
        guard = self._form.guard.format(noun=noun, number=number, symbol=symbol)
        head, body = file.lines[at : at + 2]
        file.lines.insert(at + 1, guard)
        return Edit(f"{head}\n{body}", f"{head}\n{guard}\n{body}", at + 2)

    def test_path(self, symbol: str) -> str:
        """Where the tests of a symbol live, relative to the root."""
        return self._form.test_path.format(symbol=symbol)

    def test_command(self, symbol: str) -> str:
        """The command that runs the tests of a symbol."""
        return self._form.test_command.format(path=self.test_path(symbol), symbol=symbol)

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
    bare = {key: value for key, value in block.items() if key != "cache_control"}
    if isinstance(bare.get("content"), list):
        bare["content"] = [_bare(inner) for inner in bare["content"]]
    return bare


def _blocks(content: Any) -> list[Any]:
    return as_blocks(content) if content else []


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
        blocks = _blocks(message.get("content"))
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


# ---- a session ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Style:
    """How a generated session looks. Shares are in percent.

    Attributes:
        tasks: Kinds of work, chosen with equal chance; name one twice to double its share.
        languages: Languages of the user's words.
        thinking: Share of responses that begin with thinking; 0: none.
        hidden: Share of thinking whose text is not shown (empty, with a signature).
        parallel: Share of look-ups that make several calls at once.
        large: Share of all characters that lie in results over 10 000 characters.
        small_chars: Least and most characters of an ordinary result.
        large_chars: The same for a large one.
        late: How much of the large results' share is held back to the end; 0: spread evenly.
        detours: Share of turns with more look-ups after the task.
        interrupts: Share of those in which the user stops a call.
    """

    tasks: tuple[str, ...] = ("fix", "fix", "build", "explore", "logs", "plan", "ask", "research")
    languages: tuple[str, ...] = ("en", "en", "en", "de", "ja", "zh")
    thinking: int = 40
    hidden: int = 15
    parallel: int = 50
    large: int = 35
    small_chars: tuple[int, int] = (300, 5_000)
    large_chars: tuple[int, int] = (12_000, 40_000)
    late: int = 0
    detours: int = 20
    interrupts: int = 10


@dataclass(frozen=True, slots=True)
class MadeCommand:
    """A shell command of the session and how it ended."""

    command: str
    ok: bool


class MadeCall(NamedTuple):
    """A tool call with its answer."""

    name: str
    input: dict[str, Any]
    output: str | list[Block]
    failed: bool = False


@dataclass(slots=True)
class MadeSession:
    """What the tasks write into. `chars` is what the rough estimate counts."""

    rng: Rng
    style: Style
    project: Project
    budget: int  # characters; 0: none
    messages: list[Message] = field(default_factory=list)
    offsets: list[int] = field(default_factory=list)  # seconds since the start, per message
    chars: int = 0
    large: int = 0
    runner: str = ""  # what a standing instruction puts in front of commands
    closing: str = ""
    facts: dict[str, dict[Any, None]] = field(default_factory=dict)  # kind → values, in order
    words: list[str] = field(default_factory=list)  # what the user wrote
    commands: list[MadeCommand] = field(default_factory=list)
    todos: list[dict[str, str]] = field(default_factory=list)

    def note(self, kind: str, *values: Any) -> None:
        """Keep facts of the truth, each once."""
        for value in values:
            self.facts.setdefault(kind, {})[value] = None

    def size(self, most: int = sys.maxsize) -> int:
        """Characters for the next output, so that large ones keep their share."""
        style, left = self.style, self.budget - self.chars
        late = style.late * max(0, left) // self.budget if self.budget else 0
        want_large = self.large * 10_000 < style.large * (100 - late) * self.chars
        chars = self.rng.between(*(style.large_chars if want_large else style.small_chars))
        # A quarter of what is left at most, so that no single result goes far beyond the budget.
        return min(chars, max(200, left // 4) if self.budget else chars, most)

    def user(self, content: str | list[Block]) -> None:
        """What a user writes; text is part of the truth."""
        blocks = content if isinstance(content, list) else [{"type": "text", "text": content}]
        self.words += [block["text"] for block in blocks if block["type"] == "text"]
        self.append("user", content, self.rng.between(20, 200))

    def say(self, text: str) -> None:
        """An assistant message without calls."""
        self.append("assistant", [*self._thinking(), {"type": "text", "text": text}], 9)

    def act(self, *calls: MadeCall, say: str = "") -> None:
        """One response with its calls, and the user message that answers them."""
        self.answer(self.call(*calls, say=say), calls)

    def call(self, *calls: MadeCall, say: str = "") -> list[str]:
        """One response with calls that nobody has answered yet; their ids."""
        blocks: list[Block] = [*self._thinking()]
        if say:
            blocks.append({"type": "text", "text": say})
        ids = [f"toolu_01{self.rng.token(22)}" for _ in calls]
        for name, call in zip(ids, calls, strict=True):
            blocks.append({"type": "tool_use", "id": name, "name": call.name, "input": call.input})
        self.append("assistant", blocks, self.rng.between(2, 12))
        return ids

    def answer(self, ids: Sequence[str], calls: Sequence[MadeCall], *, after: str = "") -> None:
        """The results of a response; `after`: what the user typed meanwhile."""
        blocks: list[Block] = []
        for name, call in zip(ids, calls, strict=True):
            block: Block = {"type": "tool_result", "tool_use_id": name, "content": call.output}
            blocks.append({**block, "is_error": True} if call.failed else block)
        if after:
            blocks.append({"type": "text", "text": after})
            self.words.append(after)
        self.append("user", blocks, self.rng.between(1, 9))

    def append(self, role: Any, content: str | list[Block], seconds: int) -> None:
        """A message, so many seconds after the one before."""
        self.messages.append({"role": role, "content": content})
        self.offsets.append(self.offsets[-1] + seconds if self.offsets else 0)
        for block in [{"type": "text", "text": content}] if isinstance(content, str) else content:
            self.chars += self._weigh(block)

    def _thinking(self) -> list[Block]:
        if not self.rng.chance(self.style.thinking):
            return []
        names = {"fn": "this", "file": "the file"}
        if self.project.files:
            newest = self.project.files[-1]
            names = {"fn": self.rng.pick(newest.symbols), "file": newest.path}
        thoughts = self.rng.some(material().thoughts, self.rng.between(1, 5))
        shown = not self.rng.chance(self.style.hidden)
        text = " ".join(thoughts).format(**names) if shown else ""
        return [{"type": "thinking", "thinking": text, "signature": ""}]

    def _weigh(self, block: Block) -> int:
        kind = block["type"]
        if kind in ("text", "thinking"):
            return len(block[kind])
        if kind == "tool_use":
            return len(block["name"]) + len(orjson.dumps(block["input"]).decode())
        if kind in ("image", "document"):
            return 8_000  # 2000 tokens, the rough estimate's figure
        if kind != "tool_result":
            return len(orjson.dumps(block).decode())
        content = block["content"]
        size = len(content) if isinstance(content, str) else sum(map(self._weigh, content))
        # The length from which snipping in place acts.
        self.large += size if size > 10_000 else 0
        return size


# ---- calls of tools --------------------------------------------------------------------------


def _read(session: MadeSession, file: SourceFile) -> MadeCall:
    """Read a file: whole, or a range of a long one."""
    session.note("files_read", file.path)
    arguments: dict[str, object] = {"file_path": file.path}
    start = 1
    if len(file.lines) > 80 and session.rng.chance(25):
        start = session.rng.between(1, len(file.lines) // 2)
        arguments["offset"] = start
    arrow = session.project.language in ("go", "rust")  # both forms occur in real transcripts
    output = numbered(file, start=start, arrow=arrow)
    session.note("identifiers", *[symbol for symbol in file.symbols if symbol in output])
    return MadeCall("Read", arguments, output)


def _missing(session: MadeSession) -> MadeCall:
    """A read that fails, because the path is wrong."""
    path = f"{session.project.root}/src/{session.project.symbol()}.txt"
    error = f"File does not exist: {path}"
    session.note("errors", error)
    output = f"<tool_use_error>{error}</tool_use_error>"
    return MadeCall("Read", {"file_path": path}, output, failed=True)


def _grep(session: MadeSession, word: str) -> MadeCall:
    """Search for a word in what is known of the project."""
    output = "\n".join(session.project.matches(word)) or "No matches found"
    arguments = {"pattern": word, "path": session.project.root, "output_mode": "content"}
    return MadeCall("Grep", arguments, output)


def _bash(session: MadeSession, command: str, output: str, *, ok: bool = True) -> MadeCall:
    """Run a command; a standing instruction's runner is put in front."""
    if session.runner and not command.startswith(("git", "tail", "curl", "jq")):
        command = f"{session.runner} {command}"
    session.commands.append(MadeCommand(command, ok))
    text = output if ok else f"Exit code 1\n{output}"
    arguments = {"command": command, "description": command.split()[0]}
    return MadeCall("Bash", arguments, text, failed=not ok)


def _todo(session: MadeSession, steps: list[str], done: int) -> MadeCall:
    """Write the list of steps: `done` of them finished, the next one in progress."""
    states = ["completed"] * done + ["in_progress"] + ["pending"] * len(steps)
    session.todos = [
        {"content": step, "status": state, "activeForm": f"Working on: {step}"}
        for step, state in zip(steps, states, strict=False)
    ]
    output = "Todos have been modified successfully. Proceed with the current tasks."
    return MadeCall("TodoWrite", {"todos": [dict(item) for item in session.todos]}, output)


def _fetch(session: MadeSession, title: str) -> MadeCall:
    url = f"https://docs.juniper.test/{session.rng.hex(4)}/{title.lower().replace(' ', '-')}"
    session.note("urls", url)
    page = web_page(session.rng, title, session.size())
    return MadeCall("WebFetch", {"url": url, "prompt": f"What does it say about {title}?"}, page)


# ---- tasks -----------------------------------------------------------------------------------


def _request(session: MadeSession, kind: str, **names: str) -> str:
    """The user's words for a kind of work, in one of the session's languages."""
    requests = material().requests
    language = session.rng.pick(session.style.languages)
    phrases = requests[language].get(kind) or requests["en"][kind]
    text: str = session.rng.pick(phrases).format(**names)
    if names["fn"] in text:
        session.note("identifiers", names["fn"])
    if session.rng.chance(8) and not session.runner:
        instruction, session.runner = session.rng.pick(material().instructions)
        session.note("instructions", instruction)
        text = f"{text} {instruction}"
    return text


def _target(session: MadeSession) -> tuple[SourceFile, dict[str, str]]:
    file = session.project.file(session.size())
    symbol = session.rng.pick(file.symbols)
    error = session.rng.pick(("TimeoutError", "off by one", "null region", "HTTP 502"))
    return file, {"fn": symbol, "file": file.path, "error": error, "new": session.project.symbol()}


def _asked(session: MadeSession, kind: str) -> tuple[SourceFile, dict[str, str]]:
    """What the user asks for with words alone: a file, and the names in the words."""
    file, names = _target(session)
    session.user(_request(session, kind, **names))
    return file, names


def _look(session: MadeSession, file: SourceFile, names: dict[str, str]) -> None:
    """Find and read: at once, or one after the other."""
    search, other = _grep(session, names["fn"]), session.project.file(session.size())
    reads = [_read(session, file), _read(session, other)]
    say = session.rng.pick(material().answers).format(**names)
    if session.rng.chance(session.style.parallel):
        session.act(search, *reads, say=say)
        return
    session.act(search, say=say)
    for call in reads:
        session.act(call)


def _fix(session: MadeSession) -> Iterator[None]:
    yield from _repair(session, *_asked(session, "fix"))


def _repair(session: MadeSession, file: SourceFile, names: dict[str, str]) -> Iterator[None]:
    """Look, see the test fail, change, see it pass."""
    rng, project, symbol = session.rng, session.project, names["fn"]
    _look(session, file, names)
    yield
    if rng.chance(30):
        session.act(_missing(session))
        yield
    test = project.test_command(symbol)
    output, error = failed_run(rng, project, file, symbol, session.size(30_000))
    session.note("errors", error)
    failing = _bash(session, test, output, ok=False)
    session.act(failing, say=f"Running the tests of {symbol}.")
    yield
    # The file changes for real: later reads show the new text.
    change = project.edit(file, symbol)
    session.note("files_edited", file.path)
    cut = numbered(file, start=max(1, change.line - 4), count=9)
    output = f"The file {file.path} has been updated. Here's a cut of it:\n{cut}"
    arguments = {"file_path": file.path, "old_string": change.old, "new_string": change.new}
    session.act(MadeCall("Edit", arguments, output))
    yield
    passing = _bash(session, test, passed_run(rng, session.size(30_000)))
    session.act(passing, _bash(session, "git diff", diff(rng, project, file, change)))
    session.closing = rng.pick(material().closings).format(**{**names, "error": error})


def _build(session: MadeSession) -> Iterator[None]:
    file, names = _asked(session, "build")
    paths = glob_list(session.rng, session.project, session.size(9_000))
    session.act(MadeCall("Glob", {"pattern": "**/*"}, paths), _read(session, file))
    yield
    new_file = session.project.new_file(session.size(12_000), first=names["new"])
    session.note("files_written", new_file.path)
    session.note("identifiers", *new_file.symbols)
    arguments = {"file_path": new_file.path, "content": "\n".join(new_file.lines) + "\n"}
    write = MadeCall("Write", arguments, f"File created successfully at: {new_file.path}")
    session.act(write, say=f"I'll add {names['new']} in a file of its own.")
    yield
    yield from _repair(session, new_file, {**names, "fn": names["new"], "file": new_file.path})


def _explore(session: MadeSession) -> Iterator[None]:
    file, names = _asked(session, "explore")
    _look(session, file, names)
    yield
    if session.rng.chance(40):
        arguments = {
            "description": "Look into it",
            "prompt": f"Find every caller of {names['fn']}",
            "subagent_type": "general-purpose",
        }
        report = web_page(session.rng, "Report", session.size(6_000))
        session.act(MadeCall("Task", arguments, [{"type": "text", "text": report}]))
        yield
    cut = "\n".join(file.lines[:8])
    session.closing = (
        f"`{names['fn']}` lives in {file.path}:\n\n```\n{cut}\n```\n\nNothing was changed."
    )


def _logs(session: MadeSession) -> Iterator[None]:
    _, names = _asked(session, "logs")
    log = service_log(session.rng, session.size())
    session.act(_bash(session, "tail -n 4000 /var/log/billing.log", log))
    yield
    rows = records(session.rng, session.size())
    url = f"https://staging.juniper.test/v1/invoices?tenant={session.rng.below(400)}"
    session.note("urls", url)
    session.act(_bash(session, f"curl -s '{url}'", rows))
    session.closing = f"The failures of {names['fn']} begin with the connection resets in the log."


def _plan(session: MadeSession) -> Iterator[None]:
    file, names = _asked(session, "plan")
    steps = [step.format(**names) for step in session.rng.some(material().plans, 4)]
    session.act(_todo(session, steps, 0))
    yield
    for done, _ in enumerate(_repair(session, file, names), start=1):
        if done < len(steps):
            session.act(_todo(session, steps, done))
        yield


def _ask(session: MadeSession) -> Iterator[None]:
    file, names = _asked(session, "ask")
    session.act(_read(session, file))
    yield
    options = ["cache the result for 60 seconds", "batch the calls", "leave it as it is"]
    choice, question = session.rng.pick(options), f"How should {names['fn']} become faster?"
    decision = f"{question} → {choice}"
    session.note("decisions", decision)
    answer = f"User has answered your questions: {decision}"
    session.act(MadeCall("AskUserQuestion", {"question": question, "options": options}, answer))
    yield
    yield from _repair(session, file, names)


def _research(session: MadeSession) -> Iterator[None]:
    _, names = _asked(session, "research")
    session.act(_fetch(session, "Rate limits"), _fetch(session, "Idempotency"))
    yield
    session.closing = (
        f"What applies to {names['fn']}: limits are per tenant, retries are idempotent."
    )


def _search(session: MadeSession) -> Iterator[None]:
    """The provider's own web search, whose blocks pair inside one response."""
    _, names = _asked(session, "research")
    name, title = f"srvtoolu_01{session.rng.token(22)}", "Rate limits"
    url = f"https://docs.juniper.test/{session.rng.hex(6)}"
    session.note("urls", url)
    hit = {"type": "web_search_result", "url": url, "title": title, "page_age": "3 days ago"}
    hit["encrypted_content"] = session.rng.noise(180).hex()
    use = {"type": "server_tool_use", "id": name, "name": "web_search", "input": {"query": title}}
    result = {"type": "web_search_tool_result", "tool_use_id": name, "content": [hit]}
    answer = {"type": "text", "text": f"The limits are described at {url}."}
    session.append("assistant", [use, result, answer], session.rng.between(5, 20))
    session.user("ok, and the retries?")
    session.act(_fetch(session, "Retries"))
    yield
    session.closing = f"Retries of {names['fn']} repeat the key; nothing else is needed."


def _review(session: MadeSession) -> Iterator[None]:
    file, names = _target(session)
    text = {"type": "text", "text": _request(session, "review", **names)}
    media = pdf_block(session.rng) if session.rng.chance(25) else image_block(session.rng)
    session.user([media, text])
    path = f"{session.project.root}/shots/{session.rng.hex(6)}.png"
    session.note("files_read", path)
    screenshot = MadeCall("Read", {"file_path": path}, [image_block(session.rng)])
    session.act(screenshot, _read(session, file))
    yield
    yield from _repair(session, file, names)


def _chat(session: MadeSession) -> Iterator[None]:
    _, names = _asked(session, "chat")
    yield
    session.closing = web_page(session.rng, names["fn"], session.size(3_000))


def _more_work(session: MadeSession, rounds: int) -> Iterator[None]:
    """Look-ups after the task (`rounds` 0: without end), for a turn that is to be longer."""
    while rounds != 1:
        rounds -= 1
        file, names = _target(session)
        _look(session, file, names)
        yield
        if session.rng.chance(session.style.interrupts):
            # The user stops a call and says what to do instead.
            words = "The user doesn't want to proceed with this tool use."
            call = MadeCall("Bash", {"command": "git push --force"}, words, failed=True)
            ids = session.call(call)
            session.answer(ids, [call], after="stop, never force-push. Go on without it.")
            session.note("instructions", "never force-push")
            yield
        log = install_log(session.rng, session.runner or "npm", session.size(6_000))
        session.act(_bash(session, "install", log), _grep(session, names["fn"]))
        yield
        page = service_log(session.rng, session.size())
        session.act(_bash(session, f"tail -n 900 /var/log/{names['fn']}.log", page))
        yield


_TASKS: dict[str, Callable[[MadeSession], Iterator[None]]] = {
    "ask": _ask,
    "build": _build,
    "chat": _chat,
    "explore": _explore,
    "fix": _fix,
    "logs": _logs,
    "plan": _plan,
    "research": _research,
    "review": _review,
    "search": _search,
}


Ending: TypeAlias = Literal["user", "loop", "assistant", "open"]

STYLES: Mapping[str, Style] = {
    "coding": Style(),
    "chat": Style(tasks=("chat",), large=0, thinking=0, detours=0),
    "media": Style(tasks=("review", "review", "fix"), large=10),
    "multilingual": Style(
        languages=("de", "fr", "es", "pt", "ru", "zh", "ja", "ko", "ar", "he", "hi", "emoji")
    ),
    "operations": Style(tasks=("logs", "logs", "fix"), large=80),
    "research": Style(tasks=("research", "search", "explore")),
    "mixed": Style(
        tasks=tuple(_TASKS), languages=("en", "de", "ja", "zh", "ar", "emoji"), interrupts=15
    ),
}
"""Ready styles by name; pass a `Style` of your own for anything else."""

# 15 March 2026, 09:00 UTC: all sessions begin then, and every answer of the server is made: equal requests get equal answers.
EPOCH_SECONDS = 1_773_565_200


@dataclass(frozen=True, slots=True)
class Truth:
    """What a good summary of a session would have to know; everything in order of appearance.

    Attributes:
        user_messages: Every text that the user wrote.
        commands: Shell commands and how they ended.
        errors: Error lines that tools reported.
        pending_todos: Steps of the newest list that are not done.
        questions: What the assistant asked and nobody has answered.
        instructions: What the user wants for the whole session.
        decisions: Question and chosen answer.
        identifiers: Symbols that were read, written or named by the user.
    """

    user_messages: tuple[str, ...] = ()
    files_read: tuple[str, ...] = ()
    files_edited: tuple[str, ...] = ()
    files_written: tuple[str, ...] = ()
    commands: tuple[MadeCommand, ...] = ()
    errors: tuple[str, ...] = ()
    pending_todos: tuple[str, ...] = ()
    questions: tuple[str, ...] = ()
    instructions: tuple[str, ...] = ()
    decisions: tuple[str, ...] = ()
    identifiers: tuple[str, ...] = ()
    urls: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return (
            f"Truth({len(self.user_messages)} user messages, {len(self.files_edited)} files edited, "
            f"{len(self.commands)} commands, {len(self.errors)} errors)"
        )


@dataclass(frozen=True, slots=True)
class Scenario:
    """A conversation with what belongs to its requests, and the truth about it.

    Attributes:
        messages: Bare Anthropic messages, ready to be sent unless `ending` said otherwise.
        times: When each message came, in milliseconds since the epoch.
        rough_tokens: The rough estimate (characters / 4) of the messages alone.
    """

    seed: int
    model: str
    system: str
    tools: tuple[dict[str, Any], ...]
    messages: list[Message]
    times: tuple[int, ...]
    rough_tokens: int
    cwd: str
    truth: Truth

    def __repr__(self) -> str:
        size = f"{len(self.messages)} messages, ≈{self.rough_tokens:_} tokens"
        return f"Scenario(seed={self.seed}, {size}, {self.truth!r})"


def conversation(
    seed: int,
    *,
    turns: int | None = None,
    tokens: int | None = None,
    style: str | Style = "coding",
    ending: Ending = "user",
) -> list[Message]:
    """The messages of `scenario` alone, with its arguments: `tokens` are characters / 4, of which a model counts more.

    Example:
        >>> messages = conversation(7, tokens=20_000)
        >>> messages[0]["role"], messages[-1]["role"]
        ('user', 'user')
    """
    return scenario(seed, turns=turns, tokens=tokens, style=style, ending=ending).messages


def scenario(
    seed: int,
    *,
    turns: int | None = None,
    tokens: int | None = None,
    style: str | Style = "coding",
    ending: Ending = "user",
    model: str = "claude-opus-5-5",
    minutes: int | None = None,
) -> Scenario:
    """A coding session: requests, look-ups, failing and passing tests, edits, decisions.

    Files are read, changed and tested consistently: what an edit replaces was in the file, and a
    later read shows the new text. Thinking is signed for its prefix (system, tools, messages).

    Args:
        seed: Any int; equal seeds and arguments give equal sessions.
        turns: User inputs; `None`: as many as `tokens` need, or 6 without those.
        tokens: Size by the rough estimate (characters / 4), so that a seed gives the same whatever a model counts:
            `estimate_tokens` counts 1.1 to 2 times as many, by model. `None`: what the turns come to.
        style: A name in `STYLES`, or a `Style`.
        ending: `user`: the newest message is the user's words. `loop`: it holds tool results.
            `assistant`: an answer. `open`: tool calls that nobody has answered (not legal to send).
        model: Whom the thinking is from.
        minutes: How long the session took; `None`: as long as its pauses come to.

    Raises:
        InvalidPolicy: An argument is out of range, or there is no such style.
    """
    if not isinstance(style, Style):
        if style not in STYLES:
            raise InvalidPolicy("style", style, f"must be one of {', '.join(STYLES)}")
        style = STYLES[style]
    for name, value in (("turns", turns), ("tokens", tokens)):
        if value is not None and value < 1:
            raise InvalidPolicy(name, value, "must be at least 1")
    rng = Rng(seed, "session")
    session = MadeSession(rng, style, Project(rng), (tokens or 0) * 4)
    _play(session, turns, tokens, ending)
    words = material()
    tools = (*words.tools, words.web_search) if "search" in style.tasks else (*words.tools,)
    return Scenario(
        seed=seed,
        model=model,
        system=words.system,
        tools=tools,
        messages=sign_thinking(session.messages, system=words.system, tools=tools, model=model),
        times=_times(session.offsets, minutes),
        rough_tokens=(session.chars + 2) // 4,
        cwd=session.project.root,
        truth=Truth(
            user_messages=tuple(session.words),
            commands=tuple(session.commands),
            pending_todos=tuple(_open_steps(session)),
            **{name: tuple(values) for name, values in session.facts.items()},
        ),
    )


def _play(session: MadeSession, turns: int | None, tokens: int | None, ending: Ending) -> None:
    """Turn by turn until there are enough of them, or enough characters."""
    count = turns or (6 if tokens is None else 0)
    last = count - 1 if ending == "user" else count
    done = 0
    while done < last or (not count and session.chars < session.budget):
        # The count of characters at which this turn is to end; 0: when its task is done.
        goal = session.budget
        if goal and last > done:
            goal = session.chars + max(0, goal - session.chars) // (last - done)
        finished = _turn(session, goal, fill=bool(turns and tokens))
        done += 1
        final = done == last or (not count and session.chars >= session.budget)
        if not final or ending not in ("loop", "open"):
            closing = session.closing if finished else ""
            if not closing and (steps := _open_steps(session)):
                closing = f"Not finished yet; next: {steps[0]}."
            session.say(closing or "I stopped here; tell me to go on.")
        elif ending == "open":
            session.call(_grep(session, session.project.root), _missing(session))
    if ending == "user":
        symbol = session.rng.pick(tuple(session.facts.get("identifiers", ("the tests",))))
        session.user(_request(session, "chat", fn=symbol))


def _turn(session: MadeSession, goal: int, *, fill: bool) -> bool:
    """One user input and the work on it; whether the work came to its end."""
    session.closing = ""
    steps: Iterator[None] = _TASKS[session.rng.pick(session.style.tasks)](session)
    if fill or session.rng.chance(session.style.detours):
        steps = chain(steps, _more_work(session, 0 if fill else session.rng.between(1, 6)))
    for _ in steps:
        if goal and session.chars >= goal:
            return bool(session.closing)
    return True


def _open_steps(session: MadeSession) -> list[str]:
    return [item["content"] for item in session.todos if item["status"] != "completed"]


def _times(offsets: list[int], minutes: int | None) -> tuple[int, ...]:
    total = max(offsets[-1] if offsets else 1, 1)
    length = total if minutes is None else minutes * 60
    return tuple([(EPOCH_SECONDS * 1000) + offset * length * 1000 // total for offset in offsets])


@dataclass(frozen=True, slots=True)
class SessionFile:
    """A transcript.

    Attributes:
        entries: The lines, as objects.
        session_id: Name of the session, and of its file.
    """

    entries: list[dict[str, Any]]
    session_id: str

    def to_bytes(self) -> bytes:
        """The file's bytes."""
        return b"".join([orjson.dumps(entry) + b"\n" for entry in self.entries])

    def write(self, folder: str | Path) -> Path:
        """Write `<session id>.jsonl` into a folder that exists; its path."""
        path = Path(folder) / f"{self.session_id}.jsonl"
        path.write_bytes(self.to_bytes())
        return path

    def __repr__(self) -> str:
        return f"SessionFile({self.session_id}, {len(self.entries)} lines)"


def session_file(made: Scenario) -> SessionFile:
    """A session as a transcript, one line per message; equal sessions give equal lines.

    Example:
        >>> from ullage.testing import scenario
        >>> file = session_file(scenario(1, turns=3))
        >>> file.entries[-1]["type"]
        'user'
    """
    rng = Rng(made.seed, "entries")
    session_id, parent = rng.uuid(), None
    entries: list[dict[str, Any]] = []
    for message, time in zip(made.messages, made.times, strict=True):
        sent: dict[str, Any] = {**message}
        if message["role"] == "assistant":
            sent |= {"type": "message", "id": f"msg_01{rng.token(22)}", "model": made.model}
        stamp = datetime.fromtimestamp(time / 1000, UTC).isoformat(timespec="milliseconds")
        entries.append(
            {
                "parentUuid": parent,
                "isSidechain": False,
                "userType": "external",
                "cwd": made.cwd,
                "sessionId": session_id,
                "version": "2.1.232",
                "type": message["role"],
                "message": sent,
                "uuid": (parent := rng.uuid()),
                "timestamp": stamp.replace("+00:00", "Z"),
            }
        )
    return SessionFile(entries, session_id)

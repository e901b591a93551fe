"""What a generated session is made of: seeded choices, words, a code base, media, and what tools answer."""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import random
import struct
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import orjson

from ullage.messages import THINKING, SystemPrompt

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


REQUESTS: dict[str, dict[str, tuple[str, ...]]] = {
    "en": {
        "fix": (
            "`{fn}` fails in production since this morning, please find out why and fix it. Error: {error}",
            "The tests around {fn} are red again ({error}). Fix the cause, not the test.",
            "customers report wrong totals, I suspect {fn} in {file}. can you check and fix?",
        ),
        "build": (
            "Add a function {new} next to {fn} in {file}, with tests.",
            "We need {new}: same contract as {fn}, but it must cope with empty input. Write the tests first.",
        ),
        "explore": (
            "How does {fn} work, and who calls it? Don't change anything yet.",
            "Explain {file} to me.",
        ),
        "logs": ("Look through the service log for what happened around the {fn} failures.",),
        "review": ("Here is a screenshot of the page. Why is the total cut off? Probably {file}.",),
        "research": (
            "Read up on rate limits of the provider and write down what applies to {fn}.",
        ),
        "plan": ("Before you start on {fn}: make a list of the steps and work through it.",),
        "ask": ("Make {fn} faster. Ask me if there is more than one way.",),
        "chat": (
            "Thanks! Before we go on: what would you do about {fn} in the long run?",
            "ok, next: {fn}",
        ),
    },
    "de": {
        "fix": (
            "`{fn}` wirft seit heute früh {error}. Bitte die Ursache finden und beheben, nicht nur den Test.",
        ),
        "explore": (
            "Erkläre mir bitte, wie {fn} funktioniert und wer es aufruft – noch nichts ändern!",
        ),
    },
    "fr": {
        "fix": (
            "Depuis ce matin `{fn}` échoue ({error}). Trouve la cause et corrige-la, s'il te plaît.",
        )
    },
    "es": {
        "fix": (
            "¿Puedes arreglar `{fn}`? En producción aparece «{error}» desde ayer por la noche.",
        )
    },
    "pt": {"build": ("Precisamos de {new} ao lado de {fn} em {file}; escreva também os testes.",)},
    "ru": {
        "fix": (
            "После обновления `{fn}` падает с ошибкой {error}. Найди причину и исправь, пожалуйста.",
        )
    },
    "zh": {
        "fix": ("`{fn}` 从今天早上开始报错：{error}。请找出原因并修复，不要只改测试。",),
        "explore": ("请解释一下 {file} 里的 {fn} 是怎么工作的，先不要改代码。",),
    },
    "ja": {
        "fix": (
            "今朝から `{fn}` が {error} で失敗します。原因を調べて直してください。テストは変えないで。",
        )
    },
    "ko": {"build": ("{file}의 {fn} 옆에 {new} 함수를 추가하고 테스트도 작성해 주세요.",)},
    "ar": {"fix": ("الدالة `{fn}` تفشل منذ الصباح: {error}. من فضلك ابحث عن السبب وأصلحه.",)},
    "he": {"explore": ("תסביר לי בבקשה איך {fn} עובדת ומי קורא לה, בלי לשנות כלום עדיין.",)},
    "hi": {"fix": ("`{fn}` सुबह से {error} दे रहा है। कृपया कारण खोजकर ठीक करें।",)},
    "emoji": {"fix": ("🔥🔥 {fn} is down 😱 ({error}) pls fix asap 🙏🏽 👩‍👩‍👧‍👦",)},
}

INSTRUCTIONS = (
    ("Always use pnpm, never npm.", "pnpm"),
    ("From now on always run commands through `just`.", "just"),
    ("Immer `uv` statt pip benutzen, auch später.", "uv"),
    ("请始终用 pnpm，不要用 npm。", "pnpm"),
)

PLANS = (
    "reproduce the failure of {fn}",
    "read {file} and its callers",
    "change {fn}",
    "run the tests of {fn}",
    "update the changelog",
    "check {fn} against the staging log",
)

THOUGHTS = (
    "The error points at {fn}, but the value is already wrong when it arrives there.",
    "I should look at the callers of {fn} before I change its contract.",
    "Two explanations fit: the limit is off by one, or {file} is read before the cursor moves.",
    "The user asked for the cause, so the test must stay as it is.",
    "If I run the tests of {fn} first I know whether the failure is still there.",
    "{file} has changed since I read it, so the line numbers may be off.",
)

ANSWERS = (
    "I'll look at {fn} first.",
    "`{fn}` in {file} is the place. Let me see who calls it.",
    "The test still fails, now for another reason; I'll read {file} again.",
    "Running the tests of {fn}.",
)

CLOSINGS = (
    "Done: `{fn}` in {file} is fixed and its tests pass. The cause was {error}.",
    "`{fn}` works again. I left the tests as they were; the guard in {file} is the only change.",
    "Finished. {file} now holds the change, `{fn}` keeps its contract.",
)


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


EXTENSIONS = {"python": "py", "typescript": "ts", "go": "go", "rust": "rs"}

TEST_COMMANDS = {
    "python": "uv run pytest -q %s",
    "typescript": "npx vitest run %s",
    "go": "go test ./%s -run .",
    "rust": "cargo test --quiet --test %s",
}

HEADS = {
    "python": '"""%(title)s."""\n\nfrom __future__ import annotations\n\nimport logging\n\nlog = logging.getLogger(__name__)\n',
    "typescript": '// %(title)s\nimport { logger } from "../lib/logger";\nimport type { Row, Scope } from "../types";\n',
    "go": 'package %(package)s\n\nimport (\n\t"context"\n\t"errors"\n\t"fmt"\n)\n\n// %(title)s.\n',
    "rust": "//! %(title)s.\n\nuse std::collections::BTreeMap;\n\nuse crate::error::{Error, Result};\n",
}

_PYTHON = (
    '''def %(fn)s(%(arg)s: dict[str, object], *, limit: int = %(n)d) -> list[str]:
    """%(doc)s."""
    seen: set[str] = set()
    kept = []
    for key, value in sorted(%(arg)s.items()):
        if key in seen or value is None:
            continue
        seen.add(key)
        kept.append(f"{key}={value}")
        if len(kept) >= limit:
            break
    return kept
''',
    '''async def %(fn)s(client, %(arg)s_id: int, attempts: int = %(small)d) -> bytes | None:
    """%(doc)s; gives up after `attempts` tries."""
    for attempt in range(attempts):
        response = await client.get(f"/v1/%(word)s/{%(arg)s_id}")
        if response.status_code == 404:
            return None
        if response.status_code < 500:
            return response.content
        log.warning("%(fn)s: try %%d of %%d failed", attempt + 1, attempts)
        await client.pause(0.05 * 2**attempt)
    raise TimeoutError(f"%(fn)s: {%(arg)s_id} did not answer")
''',
    '''def %(fn)s(%(arg)s: list[float]) -> float:
    """%(doc)s, as a share between 0 and 1."""
    if not %(arg)s:
        return 0.0
    total = sum(%(arg)s)
    peak = max(%(arg)s)
    if total <= 0 or peak > %(n)d:
        raise ValueError(f"%(fn)s: out of range: {peak}")
    return round(%(call)s(%(arg)s) / total, %(small)d)
''',
    '''class %(cls)s:
    """%(doc)s."""

    def __init__(self, %(arg)s: str, *, size: int = %(n)d) -> None:
        self.%(arg)s = %(arg)s
        self._size = size
        self._pending: list[tuple[int, str]] = []

    def push(self, order: int, line: str) -> None:
        self._pending.append((order, line))
        if len(self._pending) >= self._size:
            self.flush()

    def flush(self) -> int:
        done = len(self._pending)
        for _, line in sorted(self._pending):
            %(call)s(line)
        self._pending.clear()
        return done


def %(fn)s(%(arg)s: str) -> %(cls)s:
    return %(cls)s(%(arg)s, size=%(n)d)
''',
)

_TYPESCRIPT = (
    """export async function %(fn)s(%(arg)s: string[], scope: Scope): Promise<Row[]> {
  const rows = await scope.db.query<Row>("SELECT * FROM %(word)s WHERE id = ANY($1)", [%(arg)s]);
  const byId = new Map(rows.map((row) => [row.id, row]));
  return %(arg)s.flatMap((id) => {
    const row = byId.get(id);
    if (!row) logger.warn("%(fn)s: no row", { id });
    return row ? [row] : [];
  });
}
""",
    """export function %(fn)s(%(arg)s: number, now = Date.now()): boolean {
  // %(doc)s
  const age = Math.floor((now - %(arg)s) / 1000);
  if (Number.isNaN(age) || age < 0) {
    throw new RangeError(`%(fn)s: bad timestamp ${%(arg)s}`);
  }
  return age > %(n)d && %(call)s(age);
}
""",
    """export const %(fn)s = (%(arg)s: Row[]): Record<string, number> =>
  %(arg)s.reduce<Record<string, number>>((sums, row) => {
    const key = row.%(word)s ?? "none";
    sums[key] = (sums[key] ?? 0) + (row.amount ?? 0) * %(small)d;
    return sums;
  }, {});
""",
)

_GO = (
    """func %(fn)s(ctx context.Context, %(arg)s []string) (map[string]int, error) {
\tcounts := make(map[string]int, len(%(arg)s))
\tfor i, item := range %(arg)s {
\t\tif err := ctx.Err(); err != nil {
\t\t\treturn nil, fmt.Errorf("%(fn)s: stopped at %%d: %%w", i, err)
\t\t}
\t\tif item == "" {
\t\t\tcontinue
\t\t}
\t\tcounts[item]++
\t}
\tif len(counts) > %(n)d {
\t\treturn nil, errors.New("%(fn)s: too many kinds of %(word)s")
\t}
\treturn counts, nil
}
""",
    """func %(fn)s(%(arg)s string) (string, bool) {
\t// %(doc)s.
\tif len(%(arg)s) > %(n)d {
\t\treturn %(arg)s[:%(n)d], true
\t}
\tfor range %(small)d {
\t\tif next, ok := %(call)s(%(arg)s); ok {
\t\t\treturn next, true
\t\t}
\t}
\treturn %(arg)s, false
}
""",
)

_RUST = (
    """pub fn %(fn)s(%(arg)s: &[u8], limit: usize) -> Result<BTreeMap<u32, usize>> {
    let mut out = BTreeMap::new();
    for (at, piece) in %(arg)s.chunks(%(n)d).enumerate() {
        if at >= limit {
            return Err(Error::TooLong { what: "%(fn)s", limit });
        }
        let key = piece.iter().fold(%(small)du32, |sum, byte| sum.rotate_left(5) ^ u32::from(*byte));
        *out.entry(key).or_insert(0) += piece.len();
    }
    Ok(out)
}
""",
    """/// %(doc)s.
pub(crate) fn %(fn)s(%(arg)s: &str) -> Option<&str> {
    let start = %(arg)s.find("%(word)s:")? + %(small)d;
    let rest = %(arg)s.get(start..)?;
    let end = rest.find([',', '\\n']).unwrap_or(rest.len());
    (end <= %(n)d).then(|| %(call)s(&rest[..end])).flatten()
}
""",
)

BLOCKS = {"python": _PYTHON, "typescript": _TYPESCRIPT, "go": _GO, "rust": _RUST}


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
    _symbols: set[str] = field(default_factory=set)

    @classmethod
    def make(cls, rng: Rng, languages: tuple[str, ...] = ()) -> Project:
        """An empty project in one of the languages; files appear as the session asks for them."""
        language = rng.pick(languages or tuple(BLOCKS))
        return cls(rng, language, f"/home/dev/src/{rng.pick(_NAMES)}-{rng.pick(_NOUNS)}")

    def symbol(self) -> str:
        """A name that no other symbol of the project has, in the language's own case."""
        words = [self.rng.pick(_VERBS), *self.rng.some(_NOUNS, 2)]
        while " ".join(words) in self._symbols:
            words.append(self.rng.pick(_NOUNS))
        self._symbols.add(" ".join(words))
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
        hits, defining = [], [file for file in self.files[:-8] if word in file.symbols]
        for file in [*defining, *self.files[-8:]]:
            for number, line in enumerate(file.lines, start=1):
                if word in line:
                    hits.append((file.path, number, line))
                    if len(hits) >= limit:
                        return hits
        return hits


_ERRORS = (
    "AssertionError: expected 3 rows, got 4",
    "ValueError: out of range: 8191",
    "TypeError: cannot read properties of undefined",
    "TimeoutError: no answer after 30.0 s",
    "KeyError: 'region'",
    "index out of bounds: the len is 12 but the index is 12",
)
_LEVELS = ("INFO", "INFO", "INFO", "DEBUG", "WARN", "ERROR")
_EVENTS = (
    "request finished method=GET path=/v1/invoices/%d status=200 duration_ms=%d",
    "cache miss key=tenant:%d:quota shard=%d",
    "retrying delivery webhook_id=%d attempt=%d backoff=exponential",
    "connection reset by peer peer=10.42.7.%d:5432 pool_free=%d",
    'slow query rows=%d duration_ms=%d statement="SELECT * FROM receipts WHERE cursor > $1"',
    "job acknowledged queue=billing job=%d lag_seconds=%d",
)
_PROSE = (
    (
        "The default is chosen so that a worker which restarts finds its cursor again without reading "
        "the whole stream; raise it only if the broker keeps fewer segments than that."
    ),
    (
        "Every call is idempotent: send the same key twice and the second answer repeats the first, "
        "with the header `Idempotency-Replayed: true`."
    ),
    (
        "Limits are per tenant and not per key. A burst above the limit is answered with 429 and a "
        "`Retry-After` in seconds, and does not count against the next window."
    ),
    (
        "Since version 4 the client closes idle connections after 55 seconds, five seconds before the "
        "load balancer would; earlier versions see sporadic resets."
    ),
)


def numbered(file: SourceFile, *, start: int = 1, count: int = 0, arrow: bool = False) -> str:
    """Lines with their numbers, as a file-reading tool shows them (`count` 0: to the end)."""
    lines = file.lines[start - 1 : start - 1 + count] if count else file.lines[start - 1 :]
    form = "%6d→%s" if arrow else "%6d\t%s"
    return "\n".join([form % pair for pair in enumerate(lines, start=start)])


def grep_lines(project: Project, word: str) -> str:
    """Matches in `path:line:text` form, or the tool's words for none."""
    hits = project.matches(word)
    return "\n".join([f"{path}:{at}:{line}" for path, at, line in hits]) or "No matches found"


def glob_list(project: Project, chars: int) -> str:
    """Paths: the known files, then generated neighbours up to about `chars`."""
    paths = [file.path for file in project.files]
    stem = f"{project.root}/vendor/{project.rng.hex(6)}"
    while sum(map(len, paths)) + len(paths) < chars:
        at = len(paths)
        paths.append(f"{stem}/pkg_{at % 17:02}/module_{at:04}.{project.rng.hex(4)}.js")
    return "\n".join(paths)


def failed_run(project: Project, file: SourceFile, symbol: str, chars: int) -> tuple[str, str]:
    """Output of a test run with one failure, and its error line."""
    rng = project.rng
    error = rng.pick(_ERRORS)
    line = next((n for n, text in enumerate(file.lines, 1) if symbol in text), 1)
    relative = file.path.removeprefix(project.root + "/")
    head = _collected(rng, chars // 2)
    trace = "\n".join(
        [
            f"FAILED {project.test_path(symbol)}::{symbol} - {error}",
            "Traceback (most recent call last):",
            f'  File "{project.root}/{project.test_path(symbol)}", line {rng.between(8, 90)}',
            f"    result = {symbol}(fixture)",
            f'  File "{file.path}", line {line}, in {symbol}',
            f"{error}",
        ]
    )
    tail = f"\n\n{relative}:{line}: {error}\n1 failed, {rng.between(3, 60)} passed in 2.{rng.below(90):02}s"
    return f"{head}\n{trace}{tail}", error


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
    day, second, lines, size = rng.between(1, 28), rng.below(80_000), list[str](), 0
    host = f"billing-{rng.hex(5)}"
    while size < chars:
        second += rng.below(3)
        clock = f"{second // 3600:02}:{second // 60 % 60:02}:{second % 60:02}"
        event = rng.pick(_EVENTS) % (rng.between(1, 250), rng.between(1, 9000))
        line = f"2026-03-{day:02}T{clock}.{rng.below(1000):03}Z {host} {rng.pick(_LEVELS)} {event}"
        lines.append(line)
        size += len(line) + 1
    return "\n".join(lines)


def records(rng: Rng, chars: int) -> str:
    """An indented JSON list of records, about `chars` characters."""
    return json.dumps([_record(rng, at) for at in range(1 + chars // 190)], indent=2)


def _record(rng: Rng, at: int) -> dict[str, object]:
    return {
        "id": f"inv_{rng.hex(10)}",
        "tenant": rng.between(1, 400),
        "amount": rng.between(100, 999_999) / 100,
        "state": rng.pick(("open", "paid", "void")),
        "tags": ["q1", f"batch-{at:03}"],
        "note": None,
    }


def install_log(rng: Rng, tool: str, chars: int) -> str:
    """What a package manager prints."""
    lines = [
        f"  + @scope/package-{at:03} {rng.below(9)}.{rng.below(30)}.{rng.below(9)} {rng.hex(12)}"
        for at in range(1 + chars // 70)
    ]
    end = f"done in {rng.between(1, 40)}.{rng.below(10)}s"
    return "\n".join([f"{tool}: resolving dependencies", *lines, end])


def diff(project: Project, file: SourceFile, edit: Edit) -> str:
    """A unified diff of one edit."""
    path = file.path.removeprefix(project.root + "/")
    old, new = edit.old.split("\n"), edit.new.split("\n")
    head = f"diff --git a/{path} b/{path}\nindex {project.rng.hex(9)}..{project.rng.hex(9)} 100644"
    hunk = f"@@ -{edit.line - 1},{len(old)} +{edit.line - 1},{len(new)} @@"
    body = [f" {old[0]}", *[f"+{line}" for line in new[1:-1]], f" {old[-1]}"]
    return "\n".join([head, f"--- a/{path}", f"+++ b/{path}", hunk, *body])


def edited(file: SourceFile, edit: Edit) -> str:
    """The answer of an editing tool: a cut of the changed file."""
    start = max(1, edit.line - 4)
    cut = numbered(file, start=start, count=9)
    return f"The file {file.path} has been updated. Here's a cut of it:\n{cut}"


def web_page(rng: Rng, title: str, chars: int) -> str:
    """A page of documentation as Markdown, about `chars` characters."""
    parts, size = [f"# {title}"], 0
    while size < chars:
        part = f"## {rng.between(1, 9)}.{rng.between(1, 20)} {rng.pick(('Limits', 'Retries', 'Keys', 'Upgrade'))}\n\n"
        parts.append(part + rng.pick(_PROSE))
        size += len(parts[-1]) + 2
    return "\n\n".join(parts)


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(width: int, height: int, *, extra: bytes = b"") -> bytes:
    """A grey PNG of that size that any decoder opens.

    One bit per pixel and compressed, so that 8000 x 8000 pixels take some 8 KB; `extra` bytes go
    into a private chunk, to make the file as heavy as a real screenshot.
    """
    row = b"\0" + b"\0" * ((width + 7) // 8)
    packer = zlib.compressobj(6)
    body = b"".join([packer.compress(row) for _ in range(height)]) + packer.flush()
    head = struct.pack(">IIBBBBB", width, height, 1, 0, 0, 0, 0)
    padding = _chunk(b"prVt", extra) if extra else b""
    chunks = _chunk(b"IHDR", head) + padding + _chunk(b"IDAT", body) + _chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + chunks


def _segment(marker: int, data: bytes) -> bytes:
    return struct.pack(">BBH", 0xFF, marker, len(data) + 2) + data


# One Huffman code, "0", for the value 0: every 8 x 8 square is then the two bits 00, mid-grey.
_HUFFMAN = b"".join([_segment(0xC4, bytes([which, 1]) + b"\0" * 16) for which in (0x00, 0x10)])


def jpeg(width: int, height: int, *, extra: bytes = b"") -> bytes:
    """A grey baseline JPEG of that size; `extra` goes into a comment (at most 65 533 bytes)."""
    squares = ((width + 7) // 8) * ((height + 7) // 8)
    whole, odd = divmod(squares * 2, 8)
    tail = bytes([(1 << (8 - odd)) - 1]) if odd else b""  # the last byte is filled with ones
    head = struct.pack(">BHHBBBB", 8, height, width, 1, 1, 0x11, 0)
    parts = [
        b"\xff\xd8",
        _segment(0xFE, extra[:65533]) if extra else b"",
        _segment(0xDB, b"\0" + b"\1" * 64),
        _segment(0xC0, head),
        _HUFFMAN,
        _segment(0xDA, b"\1\1\0\0\x3f\0"),
        b"\0" * whole + tail,
        b"\xff\xd9",
    ]
    return b"".join(parts)


_FONT = "<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>"
_PAGE = f"/MediaBox[0 0 612 792]/Resources<</Font<</F1{_FONT}>>>>"


def pdf(pages: int, *, text: str = "page") -> bytes:
    """A PDF of that many pages with one line of text on each."""
    kids = " ".join([f"{3 + 2 * n} 0 R" for n in range(pages)])
    objects = [
        "<</Type/Catalog/Pages 2 0 R>>",
        f"<</Type/Pages/Count {pages}/Kids[{kids}]>>",
    ]
    for n in range(pages):
        stream = f"BT /F1 12 Tf 72 720 Td ({text} {n + 1}) Tj ET"
        objects.append(f"<</Type/Page/Parent 2 0 R{_PAGE}/Contents {4 + 2 * n} 0 R>>")
        objects.append(f"<</Length {len(stream)}>>stream\n{stream}\nendstream")
    return _numbered(objects)


def _numbered(objects: list[str]) -> bytes:
    out, offsets = b"%PDF-1.4\n", []
    for number, body in enumerate(objects, start=1):
        offsets.append(len(out))
        out += f"{number} 0 obj{body}endobj\n".encode("latin-1")
    table = "".join([f"{offset:010} 00000 n \n" for offset in offsets])
    size = len(objects) + 1
    xref = f"xref\n0 {size}\n0000000000 65535 f \n{table}"
    trailer = f"trailer<</Size {size}/Root 1 0 R>>\nstartxref\n{len(out)}\n%%EOF\n"
    return out + xref.encode() + trailer.encode()


def _source(media_type: str, data: bytes) -> dict[str, Any]:
    encoded = base64.b64encode(data).decode("ascii")
    return {"type": "base64", "media_type": media_type, "data": encoded}


_SIZES = ((320, 200), (640, 480), (1280, 720), (1440, 900), (1092, 1092), (390, 844), (1568, 1003))


def image_block(rng: Rng, *, width: int = 0, height: int = 0) -> dict[str, Any]:
    """An `image` block: a PNG or JPEG of a usual screen size (0: chosen), as heavy as a small one."""
    if not (width and height):
        width, height = rng.pick(_SIZES)
    extra = rng.noise(rng.between(400, 6000))
    if rng.chance(60):
        return {"type": "image", "source": _source("image/png", png(width, height, extra=extra))}
    return {"type": "image", "source": _source("image/jpeg", jpeg(width, height, extra=extra))}


def pdf_block(rng: Rng, *, pages: int = 0) -> dict[str, Any]:
    """A `document` block with a PDF (`pages` 0: one to twelve)."""
    data = pdf(pages or rng.between(1, 12), text="Quarterly report, page")
    return {"type": "document", "source": _source("application/pdf", data)}


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


class Prefix:
    """A running hash over system prompt, tools and turns.

    Neighbours of one role count as one turn, so cutting a message in two changes nothing;
    thinking is left out, so dropping it from the start is allowed.
    """

    __slots__ = ("_hash", "_role", "_turn")

    def __init__(
        self, system: SystemPrompt | None = None, tools: Iterable[Mapping[str, Any]] | None = None
    ) -> None:
        self._hash = hashlib.sha256()
        self._role = ""
        for block in _blocks(system):
            self._hash.update(b"system" + canonical(_bare(block)))
        for tool in tools or ():
            if not tool.get("defer_loading"):
                self._hash.update(b"tool" + canonical(_bare(tool)))
        self._turn = self.now()

    def now(self) -> str:
        """The hash of all that was added."""
        return self._hash.hexdigest()[:20]

    def enter(self, role: str) -> str:
        """Begin a message; the hash of all before the turn that it belongs to."""
        if role != self._role:
            self._role, self._turn = role, self.now()
        return self._turn

    def add(self, role: str, content: Any) -> str:
        """Take a whole message in; the hash of all before its turn."""
        before = self.enter(role)
        for block in _blocks(content):
            if not (isinstance(block, dict) and block.get("type") in THINKING):
                self._hash.update(role.encode() + canonical(_bare(block)))
        return before


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
    except (ValueError, TypeError, binascii.Error):
        return None
    genuine = kind == "sealed" and check == hashlib.shake_128(body).digest(_CHECK_BYTES)
    fits = not text or _text_hash(text) == text_hash
    return value if genuine and fits else None


class Walk:
    """Goes through the messages of a request and knows, for each, where its thinking stands."""

    __slots__ = ("prefix", "step")

    def __init__(
        self, system: SystemPrompt | None = None, tools: Iterable[Mapping[str, Any]] | None = None
    ) -> None:
        self.prefix = Prefix(system, tools)
        self.step = 0

    def enter(self, message: Mapping[str, Any]) -> str:
        """Take a message in; the hash that thinking in it is bound to."""
        role, content = str(message.get("role")), message.get("content")
        if role == "user" and not any(_is(block, "tool_result") for block in _blocks(content)):
            self.step = 0
        return self.prefix.add(role, content)


def _is(block: Any, *kinds: str) -> bool:
    return isinstance(block, dict) and block.get("type") in kinds


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
        content = message.get("content")
        if not any(_is(block, *THINKING) for block in _blocks(content)):
            out.append(message)
            continue
        blocks = []
        for block in _blocks(content):
            if _is(block, *THINKING):
                text = str(block.get("thinking") or "")
                signature, value = seal(model, before, text, previous, walk.step)
                previous, walk.step = value.name, walk.step + 1
                key = "signature" if block["type"] == "thinking" else "data"
                block = {**block, key: signature}
            blocks.append(block)
        out.append({**message, "content": blocks})
    return out

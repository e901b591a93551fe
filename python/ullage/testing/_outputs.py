"""What tools answer: numbered files, matches, test runs, logs, JSON, diffs, web pages."""

from __future__ import annotations

import json

from ullage.testing._project import Edit, Project, SourceFile
from ullage.testing._rng import Rng

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
    found = project.matches(word)
    return "\n".join([f"{path}:{at}:{line}" for path, at, line in found]) or "No matches found"


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

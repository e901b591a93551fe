"""What results of tools tell in a line: numbers with their keys, versions, ports, ids, addresses; which of it was used."""

from __future__ import annotations

import re
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from posixpath import basename, normpath

from ullage._engine import core
from ullage._start import NamedTuple, pattern
from ullage.facts.calls import Action, CallEffect, describe
from ullage.facts.model import (
    AgentRun,
    Command,
    Declared,
    FailedCall,
    FileUse,
    Name,
    Origin,
    ResultFact,
    ToolStep,
)
from ullage.facts.names import KINDS, NameKind, urls_in
from ullage.facts.words import ends_of, feedback_of, is_launch

# How a tool call ended: refused, failed or successful, with the line that shows it.
#
# What counts as a failure, a verdict or a host's framing is in `_reference/outcome.py`, and in Rust in `outcome.rs`.


class CallOutcome(NamedTuple):
    """`ok` is `None` where the call was refused or stopped, and so never ran, or has not ended (`LEFT_RUNNING`)."""

    ok: bool | None
    exit_code: int | None
    line: str  # the error's first informative line, or the last line of a success; may be empty
    feedback: str  # what the user said when refusing


REFUSED = "The user doesn't want to"
_REFUSED = (REFUSED, "[Request interrupted by user")
# Claude Code's, of calls next to one that failed.
_NOT_RUN = "<tool_use_error>Sibling tool call errored"
HEAD_CHARS = 600
# A command that went on when its call returned; a later call may report its end.
LEFT_RUNNING = CallOutcome(None, None, "left running", "")
# In the words of Codex (above all output, or in its last line) and of Claude Code (below it).
_GOES_ON = pattern(
    r"^(?:Process running with session ID|Script running with cell ID|Command [^\n]{0,160}\bbackground(?:ed by user)?(?: with ID:| \(ID:)) ?(\w+)|"
    r"^SESSION_ID=(\d+)\s*\Z",
    re.M,
)


def running_id(text: str) -> str:
    """The id by which later calls ask for a command that, as its result says, has not ended; empty: it does not say so."""
    ends = ends_of(text, 2 * HEAD_CHARS)
    if " running with " not in ends and " background" not in ends and "SESSION_ID=" not in ends:
        return ""
    match = _GOES_ON.search(ends)
    return match[1] or match[2] if match else ""


def read_outcome(text: str, *, is_error: bool) -> CallOutcome:
    """The outcome of a call, from its result's text and error flag."""
    if text[:HEAD_CHARS].lstrip().startswith(_REFUSED):
        # Hosts mark a refusal as an error; any tool may print its words.
        return CallOutcome(None, None, "", feedback_of(text) if is_error else "")
    if text.startswith(_NOT_RUN):
        return CallOutcome(None, None, "", "")
    failed, code, line = core.read_result(text, is_error)
    return CallOutcome(not failed, code, line, "")


# A command's end that only picks lines of its output; its exit code is that of the picking.
PIPED = pattern(r"\|\s*(?:head|tail|grep|rg|sed|awk|cat|less|sort|uniq|tee|wc)\b[^|;&]*$")
_HIDES_CODE = pattern(
    rf"{PIPED.pattern.removesuffix('$')}(?:&&\s*echo\b[^;|&]*)?$|\|\|\s*(?:true|:|echo\b[^;|&]*)\s*$|[;\n]\s*(?:true|echo\b[^;|&]*)$"
)
_GIT_FAILED = pattern(
    r"^(?:fatal: |error: failed to push| ! \[(?:remote )?rejected\]|hint: Updates were rejected)",
    re.MULTILINE,
)
# Lines that a test runner, a compiler or a linter prints only where something failed, maybe after the name of a task.
_FAILED_CHECK = (
    r"(?:\[[\w:.-]{1,60}\] )?(?:--- FAIL: \S|FAIL(?:\t|$)|FAIL +\S+\.\w|FAILED \S+::|test result: FAILED|BUILD FAILED|make(?:\[\d+\])?: \*\*\*|npm (?:ERR!|error)|ERROR task failed|"
    r"error\[E\d+\]: |error: (?:could not compile|test failed|no library targets|aborting due to)|(?:[^\n]{1,200}: )?error TS\d+: |not ok \d+(?!.*# (?i:todo|skip))|"
    r"(?:=+ )?[1-9]\d* (?:failed|errors?)\b.* in [\d.]+m?s|[1-9]\d* failing\b|Tests?:? .*\b[1-9]\d* failed\b|Found [1-9]\d* errors?\b(?!.*\b0 remaining)|✖ \d+ problems? \([1-9]|[1-9]\d* issues:$)"
)
_SHOWS_FAILURE = pattern(rf"\n[ \t]{{0,20}}{_FAILED_CHECK}", re.M)  # begins as `DECLARES`
# How their output ends then; other programs print such lines too.
_FAILED_RUN = pattern(
    rf"{_FAILED_CHECK}|FAIL(?:ED)?(?:[\s:]|$)|error(?:\[E\d+\])?: |(?i:exit(?: status| code)?)\s?[:=]?\s?[1-9]|(?:=+ )?[1-9]\d* failed\b|"
    # a compiler's place; in a table or a search the line would not begin with it, or the command only looks
    r"[\w./-]{1,200}\.\w{1,5}(?:\(\d+,\d+\)|:\d+:\d+): (?!warning|note|info)"
)
_PASSED_RUN = pattern(
    r"test result: ok|(?:=+ )?\d+ pass(?:ed|ing)\b(?!.*\d failed)|Tests?\b.*\b\d+ passed\b|ok\s+\S+\s+(?:\d|\(cached)|Finished\b|All checks passed|BUILD SUCCESS|Done in \d|no issues found",
    re.I,
)
# Of an output, in which such an end is looked for: what is printed after a test run is short.
LAST_CHARS, LAST_LINES = 1_000, 4
_FINDS = pattern(r"(?:git )?(?:rg|[ef]?grep|diff)\b[^;&|]*(?:\|\s*(?:rg|grep)\b[^;&|]*)?$")
_QUOTED = pattern(r"""'[^']*'|"(?:\\.|[^"\\])*\"""")
_NO_OUTPUT = "Command: "  # what Codex writes above all output


def ran(command: str, outcome: CallOutcome, text: str) -> CallOutcome:
    """The outcome of a shell command whose exit code says something else: of a search that found nothing, or of the `tail` that shortens a test's output."""
    silent = not outcome.line or outcome.line.startswith(_NO_OUTPUT)
    bare = _QUOTED.sub("''", command[:COMMAND_CHARS]) if silent and outcome.exit_code == 1 else ""
    if bare and _FINDS.match(_CD.sub("", bare)):
        return CallOutcome(True, 1, "", "")  # their code for "no match"
    if not outcome.ok or only_looks(command):
        return outcome
    failed = False
    if outcome.exit_code in (None, 0) and _HIDES_CODE.search(command):
        end = text[-LAST_CHARS:]
        failed = any(_FAILED_RUN.match(line.strip()) for line in end.splitlines()[-LAST_LINES:])
        failed = failed or ("git " in command and _GIT_FAILED.search(end) is not None)
    if not failed and (outcome.exit_code is None or _MORE.search(command)):
        failed = runs_check(command) and bool(_SHOWS_FAILURE.search(f"\n{ends_of(text, SCANNED)}"))
    if not failed:
        return outcome
    return CallOutcome(False, outcome.exit_code, core.read_result(text, True)[2], "")


_MORE = pattern(r"[|;\n]")  # after which an exit code may be that of something else
CHECKS = pattern(
    r"\b(?:(?P<test>tests?|specs?|pytest|jest|vitest|nextest|e2e)|(?P<lint>lint|clippy|vet|ruff|eslint|(?<![\w/.\"'-])fmt(?![\w/.\"'-]))|(?P<build>check|build|compile|typecheck|tsc|mypy|pyright))\b"
)
FORMATS = pattern(r"[\w./-]+(?: run)? fmt(?![\w:.-])(?!.*-check\b)")
# Commands that keep books, move files or show what others printed, whatever these are called.
_NO_CHECK = pattern(
    r"(?:git|gh|sed|tar|zip|unzip|gzip|cp|mv|rm|mkdir|touch|chmod|ln|curl|wget|rsync|scp|docker logs|kubectl logs|journalctl) "
)


def is_check(part: str) -> bool:
    """Whether a part of a command tests, lints or builds something."""
    return CHECKS.search(part) is not None and not _NO_CHECK.match(part) and not only_looks(part)


def runs_check(command: str) -> bool:
    """Whether one of the parts of a command does."""
    return CHECKS.search(command) is not None and any(map(is_check, command_steps(command)))


# Lines of one result that are kept; the response that follows states what matters in a long table.
MOST_OF_ONE = 4
MOST_URLS = 3  # addresses of one result; a page of links is data
MOST = 400  # newest facts that are ranked
NEWEST_RESULTS = 3  # results whose facts come before those of older ones
SCANNED = 40_000
_ALIKE = 2  # lines of one pattern that are findings; more are a table
# What the engine says of a line: it may tell a value by its key, it may name a port.
KEYED, PORT = 1, 2
_FACT = pattern(
    r"^(?:"
    # a number with its key
    r"[ \t]{0,20}[-*•]?[ \t]{0,3}[\"']?[A-Za-z][\w ()/.%-]{1,50}[\"']?[ \t]?[:=][ \t]{0,3}[-+$€£]?\d[\d,._]{0,24}(?:[ \t]?[%\w/]{1,12}){0,2}[ \t]{0,9}[.,;]?[ \t]{0,9}$|"
    # a program or package with its version
    r"[ \t]{0,8}[A-Za-z@][\w@/-]{1,40}(?: version)?[ \t@]v?\d{1,5}\.\d{1,5}[\w.+-]{0,24}(?: \([^()\n]{1,60}\))?$|"
    # an id or a hash with its key
    r"[ \t]{0,20}[-*•]?[ \t]{0,3}[\"']?(?:\w{1,30}[ _-])?(?:id|uuid|sha\d{0,3}|digest|hash|commit|job|run|build|release|deployment|order|request|"
    r"ticket|version|tag)[\"']?[ \t]?[:=#][ \t]{0,3}[\"']?(?=[\w.:-]{0,40}\d)[\w.:-]{4,80}[\"']?,?[ \t]{0,9}$)",
    re.IGNORECASE,
)
_PORT = pattern(
    r"(?:[Pp]ort|[Ll]istening|[Ll]istens|[Ss]erving|[Rr]unning|localhost|127\.0\.0\.1|0\.0\.0\.0)\b.{0,30}[ :=]\d{2,5}\b[^\d\n]{0,40}$"
)
_DIGIT = pattern(r"\d")
_DIGITS = pattern(r"\d+")
_VALUE = pattern(r"(?<![\w.])[\w-]{0,40}\d[\w.,:-]{0,60}\w")
_PICTURE = pattern(r"\.(?:png|jpe?g|gif|svg|ico|webp|css|js)\b|[?&]v=\d+$")


def fact_lines(text: str) -> list[str]:
    """Lines of a result that tell a value by its key, such as `rejected: 48213`; those that repeat a pattern are a table, not a finding."""
    lines = []
    for line, marks in core.telling_lines(ends_of(text, SCANNED)):
        # A count of one digit says little by itself; times and exit codes of the host are in the steps.
        if (marks & KEYED and _FACT.match(line)) or (marks & PORT and _PORT.search(line)):
            if len(_DIGIT.findall(line)) > 1 and not core.is_framing(line.strip()):
                lines.append(line)
    if len(lines) <= _ALIKE:
        return list(map(str.strip, lines))
    shapes = [_DIGITS.sub("0", line) for line in lines]
    often = Counter(shapes)
    rows = zip(lines, shapes, strict=True)
    rare = [line.strip() for line, shape in rows if often[shape] <= _ALIKE]
    return rare[:MOST_OF_ONE] if len(rare) <= MOST_OF_ONE * 3 else []


def values_in(text: str) -> set[str]:
    """The numbers, versions and ids of three and more characters in a text, and its addresses."""
    values = _VALUE.findall(text[:SCANNED]) if _DIGIT.search(text) else ()
    return {*(value for value in values if len(value) > 2), *urls_in(text[:SCANNED])}


class FactTally:
    """Facts of results, in order; a value that is named again marks its fact as used."""

    def __init__(self) -> None:
        self._facts: dict[str, ResultFact] = {}
        self._by_value: dict[str, str] = {}
        self._results = 0

    def showed(self, text: str, index: int, *, read: bool) -> None:
        """Reads what a result shows; `read`: the text of a file, which can be read again."""
        self._results += 1
        lines = fact_lines(text)
        if "://" in text:
            urls = dict.fromkeys(urls_in(text[: SCANNED // 2]))
            shown = [url for url in urls if not _PICTURE.search(url)][:MOST_URLS]
            lines += [url for url in shown if not any(url in line for line in lines)]
        for line in lines:
            fact = self._facts.pop(line, None)
            seen = fact.shown + 1 if fact else 1
            used = fact is not None and fact.used
            self._facts[line] = ResultFact(index, line, used, seen, read, self._results)
            self._by_value.update((value, line) for value in values_in(line))

    def named(self, text: str) -> None:
        """Marks what a text of the user or the assistant, or a call, names again."""
        if self._by_value:
            for value in values_in(text) & self._by_value.keys():
                line = self._by_value[value]
                self._facts[line] = self._facts[line]._replace(used=True)

    def ranked(self) -> tuple[ResultFact, ...]:
        """Used ones first, then repeated ones and those of the newest results; newer before older, what a program printed before what a file holds."""
        return tuple(sorted(list(self._facts.values())[-MOST:], key=self._worth))

    def _worth(self, fact: ResultFact) -> tuple[int, bool, int]:
        newest = fact.result > self._results - NEWEST_RESULTS
        first = 0 if fact.used else 1 if newest or fact.shown > 1 else 2
        return first, fact.read, -fact.result


NAMES_CHARS = 20_000  # characters of one text that are searched for names: half at each end
MAX_NAMES = 2000  # names that are ranked at most
# Of one result; more are a listing of objects, of which nothing but the program knows which one matters.
MAX_HASHES = 12
MAX_RANGES = 24
# Of one file: how many of the newest texts that were written to it are kept, and how much of each.
MAX_WRITTEN, MAX_CODE = 8, 20_000

WEIGHTS = {"user": 8, "call": 4, "assistant": 3, "edit": 2, "summary": 2, "result": 1}
"""How much one use of a name counts, depending on who used it. With `1 / (5 + age)` this order found the
names of the next 20 tool calls best in recorded sessions (see `benches/fidelity`)."""

_NUMBERS = {author: number for number, author in enumerate(WEIGHTS)}
_KINDS: dict[int | None, NameKind] = {None: NameKind.COMMAND, **dict(enumerate(KINDS))}
# By the numbers of the authors.
_OTHERS = {"user": Origin.USER, "summary": Origin.SUMMARY, "result": Origin.TOOL}
_ORIGINS = [_OTHERS.get(author, Origin.ASSISTANT) for author in WEIGHTS]


class NameTally:
    """Which names were used, by whom, how long ago, and with which file or command; the engine counts them."""

    def __init__(self) -> None:
        self._counted = core.NameTally(tuple(WEIGHTS.values()))

    def add(self, text: str, source: str, index: int, home: str = "") -> None:
        """Counts each name in a text once; `source`: a key of `WEIGHTS`; `home`: the file whose text it is, or the command; empty: neither."""
        self._counted.add(
            ends_of(text, NAMES_CHARS),
            _NUMBERS[source],
            index,
            home=home,
            moves=source == "edit",
            most_hashes=MAX_HASHES if source == "result" else 0,
        )

    def add_command(self, name: str, index: int) -> None:
        """Counts a program with its subcommand that was run."""
        self._counted.add_name(name, _NUMBERS["call"], index)

    def ranked(self, end: int, most: int) -> tuple[Name, ...]:
        """The names, those of most worth for their room at the newest message (`end`) first; ties by text."""
        return tuple(
            Name(text, _KINDS[number], uses, last, score, _ORIGINS[author], home)
            for text, number, uses, last, score, author, home in self._counted.ranked(end, most)
        )


class FileTally:
    """What was done to each file, in order of first use."""

    def __init__(self) -> None:
        self._files: dict[str, FileUse] = {}
        self._by_name: dict[str, dict[str, None]] = {}  # paths, also old ones, by their last part
        self._stashed: dict[str, FileUse] = {}

    def add(self, call: CallEffect, index: int) -> None:
        """Counts a call about a file that succeeded."""
        path = call.target.strip()
        if not path or len(path) > 1000 or "\n" in path:
            return
        use = self._files.get(path) or FileUse(path, index, index)
        self._put(_used(use, call, index))

    def _put(self, use: FileUse) -> None:
        self._files[use.path] = use
        self._by_name.setdefault(basename(use.path), {})[use.path] = None

    def removed_from(self, path: str) -> set[str]:
        """The names of what edits took out of a file."""
        use = self._files.get(path)
        return {row.name for row in use.declared if not row.now} if use else set()

    def undone(self, call: CallEffect, committed: int) -> None:
        """A command may have moved files, or taken back or deleted what was written since the newest commit (index of its call)."""
        for step in command_steps(call.target):
            undoes = _UNDOES.match(step)
            if undoes is None:
                continue
            if undoes["back"]:
                self._files.update(self._stashed)
                self._stashed = {}
                continue
            words = step[undoes.end() :].partition("||")[0].split()
            if {"--staged", "-S", "--cached"}.intersection(words) and "--worktree" not in words:
                continue
            named = [word for word in words if not word.startswith("-")]
            folder = folder_of(call.target) or call.folder
            if undoes["mv"]:
                if "-t" not in words:  # the folder comes first
                    self._move(named, folder)
                continue
            if undoes["all"] or "." in named:
                paths = [*self._files]
            else:
                paths = [path for word in named if (path := self._file(word, folder))]
            for path in paths:
                use = self._files[path]
                if undoes["rm"] or use.changed_at > committed:
                    if undoes["stash"]:
                        self._stashed[path] = use
                    if not undoes["rm"]:
                        use = use._replace(changed_at=-1, edits=0, writes=0)
                    deleted = undoes["rm"] is not None
                    self._files[path] = use._replace(written=(), declared=(), deleted=deleted)

    def _move(self, names: Sequence[str], folder: str) -> None:
        """The files of all names but the last have another path from now on."""
        for name in map(normpath, names[:-1]):
            path, target = self._file(name, folder), names[-1]
            # A shell makes other words of a target with such a sign.
            if not path or not path.endswith(name) or not set("$*?{").isdisjoint(target):
                continue
            # What stands before a name is what the command's folder stands for.
            new = normpath(path.removesuffix(name) + target if target[:1] != "/" else target)
            within = len(names) > 2 or target.endswith(("/", "."))
            if within or any(other.startswith(f"{new}/") for other in self._files):
                new = f"{new}/{basename(path)}"
            self._put(self._files.pop(path)._replace(path=new))

    def _file(self, name: str, folder: str) -> str:
        """Which file a command means by a name; empty: none that is known, or one of several."""
        if folder.startswith("/") or name.startswith("/"):
            path = normpath(name if name.startswith("/") else f"{folder}/{name}")
            return path if path in self._files else ""
        tail = "/" + normpath(f"{folder}/{name}").lstrip("/")
        alike = self._by_name.get(basename(name), ())
        paths = [path for path in alike if path in self._files and f"/{path}".endswith(tail)]
        return paths[0] if len(paths) == 1 else ""

    def files(self) -> tuple[FileUse, ...]:
        """All files."""
        return tuple(self._files.values())


# What takes back what was written to files since the newest commit; `git stash` all of it, until it is popped.
_UNDOES = pattern(
    r"(?P<back>git stash (?:pop|apply)\b)|(?P<all>git reset --hard\b|(?P<stash>git stash(?: push| save)?(?: -\S+)*$))|"
    r"git (?:checkout(?: \S+)? --|restore)(?= )|(?P<rm>(?:git )?rm )|(?P<mv>(?:git )?mv )"
)


def _used(use: FileUse, call: CallEffect, at: int) -> FileUse:
    """What was done to a file, with one call more."""
    if call.action is Action.READ:
        start = max(call.start, 1)
        asked = (start, start + call.lines - 1 if call.lines else 0)
        ranges = merge_ranges((*use.ranges, asked))[-MAX_RANGES:]
        return use._replace(last=at, reads=use.reads + 1, ranges=ranges)
    if call.action is Action.DELETE:
        return use._replace(last=at, changed_at=at, deleted=True, written=(), declared=())
    whole, written = call.action is Action.WRITE, use.written
    if whole or call.removed:
        written = () if whole else _without_lines(written, call.removed)
    if call.code.strip():
        written = (*written[1 - MAX_WRITTEN :], (at, call.code[:MAX_CODE]))
    declared = _redeclared(use, call, at) if call.code or call.removed else use.declared
    use = use._replace(last=at, changed_at=at, deleted=False, written=written, declared=declared)
    return use._replace(writes=use.writes + 1) if whole else use._replace(edits=use.edits + 1)


def _change(call: CallEffect) -> str:
    """What a small edit put in the place of what; empty: it took nothing out, or more than two lines."""
    removed, added = ([*filter(None, _stripped(text))] for text in (call.removed, call.code))
    if not call.target.endswith(DOCUMENTS):  # what lines do says more than what is remarked on them
        removed, added = (
            [row for row in rows if not COMMENT.match(row)] or rows for rows in (removed, added)
        )
    if not call.anchor or not 0 < len(removed) <= FEW_LINES or len(added) > FEW_LINES:
        return ""
    before, after = (_cut(" / ".join(rows).replace("`", "'")) for rows in (removed, added))
    if before == after:  # they differ in what is cut
        return ""
    return f"`{before}` → `{after}`" if after else f"took out `{before}`"


def _cut(text: str) -> str:
    return text if len(text) <= CHANGE_CHARS else f"{text[: CHANGE_CHARS - 1]}…"


FEW_LINES, CHANGE_CHARS = 2, 120
COMMENT = pattern(r"//|/?\*|#|--|\"\"\"")  # how a line begins that is a comment


def _stripped(text: str) -> list[str]:
    return [row.strip() for row in text.split("\n")]


def _places(rows: Sequence[str], wanted: Sequence[str]) -> list[int]:
    """Where some rows stand among others, one after the other."""
    first, last, count = wanted[0], wanted[-1], len(wanted)
    ends = zip(rows, rows[count - 1 :], strict=False)
    places = [at for at, (a, b) in enumerate(ends) if a == first and b == last]
    return [at for at in places if rows[at : at + count] == wanted]


def _around(rows: Sequence[str]) -> str:
    """The name of the innermost declaration around the last of the lines; empty: none is above it."""
    indent = len(rows[-1]) - len(rows[-1].lstrip())
    for row in reversed(rows):
        own = len(row) - len(row.lstrip())
        if row.strip() and own < indent:
            if match := DECLARES.match(f"\n{row}"):
                return match["name"]
            indent = own
    return ""


def _without_lines(
    written: tuple[tuple[int, str], ...], removed: str
) -> tuple[tuple[int, str], ...]:
    """What was written to a file, without the lines that an edit took out."""
    taken_out = {row.strip() for row in removed.split("\n")}
    texts = []
    for at, text in written:
        rows = [row for row in text.split("\n") if row.strip() not in taken_out]
        if any(map(str.strip, rows)):
            texts.append((at, "\n".join(rows)))
    return tuple(texts)


def _redeclared(use: FileUse, call: CallEffect, at: int) -> tuple[Declared, ...]:
    """What edits of a file changed among its declarations, with one edit more."""
    added = declarations(call.code, call.target)
    by_name = {row.name: row for row in use.declared}
    whole = call.action is Action.WRITE
    if whole:
        removed = {row.name: row.now for row in use.declared if row.now}
        added = {name: line for name, line in added.items() if removed.pop(name, "") != line}
    else:
        removed = declarations(call.removed, call.target)
    # A file that was there before it was written whole may have had them.
    unknown = None if whole and (use.reads or use.edits) and not use.writes else ""
    for name in {**removed, **added}:
        before = by_name.pop(name).before if name in by_name else removed.get(name, unknown)
        now = added.get(name, "")
        if before != now:
            by_name[name] = Declared(name, before, now, at)
    return tuple(by_name.values())[-MAX_DECLARED:]


def declarations(text: str, path: str) -> dict[str, str]:
    """The lines of a text that declare something, by the name with its keyword; of a document its headings."""
    text = f"\n{text[:MAX_CODE]}"
    if path.endswith(DOCUMENTS):
        return {heading: heading for heading in map(str.strip, _HEADING.findall(text))}
    lines = {}
    for match in DECLARES.finditer(text):
        line = match[0].strip()
        if line.endswith("("):  # its arguments follow, up to a line that closes them
            closed = text.find(f"\n{match['indent'] or ''})", match.end())
            stop = text.find("\n", closed + 1) if closed > 0 else match.end()
            line = text[match.start() : stop if stop > 0 else None][:MAX_SIGNATURE]
            line = _IN_BRACKETS.sub("", " ".join(line.split()))
        if not _IMPORTED.search(line):
            lines[" ".join(match["name"].split())] = line.rstrip(" \t{:;=")
    return lines


MAX_DECLARED, MAX_SIGNATURE = 60, 600
DOCUMENTS = (".md", ".rst", ".txt")
# Of the first level only the title: further ones are remarks in examples of code.
_HEADING = pattern(r"\A\n# .*|^#{2,4} .*", re.M)
_IMPORTED = pattern(r"\b(?:require|import)\(|__\w+__\(")  # and methods that any class may have
_IN_BRACKETS = pattern(r"(?<=[(\[]) | (?=[)\]])|,(?= \))")
# Lines of any language that declare a function, type, test or constant; not the variables of a function.
# The line's break before them is part of it: so a search passes over all else quickly.
DECLARES = pattern(
    r"\n(?P<indent>[ \t]+)?(?=[\w#<\[])(?!(?:if|for|while|switch|catch|else|elif|return|with|match|using|lock|when|go|defer|await|throw|new|case|do)\b)"
    r"(?:(?:export|default|declare|pub(?:\([^)\n]{0,20}\))?|public|private|protected|internal|static|async|abstract|final|override|open|virtual|inline|unsafe|readonly|suspend|data|sealed) +)*"
    r"(?P<name>(?:func|def|fn|fun|function\*?) +(?:\([^)\n]{0,80}\) *)?\w[\w.$]*|"
    r"(?:class|struct|interface|enum|trait|protocol|impl|namespace)(?:<[^>\n]{0,80}>)? +\w[\w.:<>]*|"
    r"(?:it|test|describe)(?:\.\w+)?\( ?(?P<quote>[\"'`])[^\"'`\n]{3,120}(?P=quote)|"
    r"(?:(?:const|final|val|[\w<>\[\]]{1,40}) +)?[A-Z][A-Z0-9_]{2,}(?=(?: ?: ?[\w\[\], .]{1,40})? *= *(?!\"?\$)\S)|"
    # of a group of constants
    r"(?<=\n\t)(?!var|let)(?:const )?[A-Za-z]\w*(?=(?: +[\w.]+)? += +[\d\"`])|"
    r"(?(indent)(?!)|(?:type|mod|module|record|object|const|var|let|val|static|#define|create (?:table|view|function)) +(?:mut +)?\w[\w.$]*)|"
    # a method without a keyword
    r"(?:[\w<>\[\],.?*&]{1,60} +){0,3}[\w$]+(?=\([^()\n]*\)[^\n;={]*\{(?:\n|\Z))"
    r")[^\n]*",
)


def merge_ranges(ranges: tuple[tuple[int, int], ...]) -> tuple[tuple[int, int], ...]:
    """Line ranges in order, adjacent ones merged; an end of 0 means the end of the file."""
    merged: list[tuple[int, int]] = []
    for first, last in sorted(ranges, key=lambda r: (r[0], r[1] == 0, r[1])):
        if merged and (merged[-1][1] == 0 or first <= merged[-1][1] + 1):
            start, stop = merged[-1]
            merged[-1] = (start, 0 if 0 in (stop, last) else max(stop, last))
        else:
            merged.append((first, last))
    return tuple(merged)


COMMAND_CHARS = 2_000  # of a command that are read: what follows is a text or a program inside it
_CD = pattern(r"^\(?cd (\S+) ?(?:&&|;) ?")
# For commands with single spaces only: the pattern would try every split of a longer run.
_TAIL = pattern(r" ?(?:2>&1 ?)?\| ?(?:head|tail|grep|rg|less|cat|wc)\b.*$| ?2>&1$")


def command_key(command: str) -> str:
    """A command without parts that do not change its meaning: a leading `cd`, a trailing pager or filter."""
    core = " ".join(command[:COMMAND_CHARS].split())
    return _TAIL.sub("", _CD.sub("", core)).strip()


_FOLLOWS = pattern(r"[;\n]")
_SETS = pattern(r"^(?:(?:env|export|sudo|time|nohup|timeout \d+\w?) +|[A-Za-z_]\w{0,60}=\S* *)+")
_REDIRECTED = pattern(r" ?\d?>{1,2} ?(?:&\d|[^\s>]{1,200})")
_NO_WORK = pattern(r"^(?:cd|echo|export|set|sleep|true|pwd|source|mkdir -p)\b|^\W*$")


@lru_cache(maxsize=512)
def command_parts(command: str) -> tuple[str, ...]:
    """The commands on which the exit code depends, in order, each without what does not change its meaning: variables, redirections, a pager.

    Of `a && b` both, of `a; b` the second, unless that does no work. A loop, and a text that does not end, is one.
    """
    text, hidden = _without_texts(command)
    segments = _FOLLOWS.split(text)
    if "<<" in text or any(map(_BLOCK.match, segments)):
        return (command_key(command),)
    if _STOPS_AT_ONCE.search(text):
        segments = [" && ".join(segments)]
    for segment in reversed(segments):
        cores = map(_core, segment.split("&&"))
        if parts := dict.fromkeys(core for core in cores if not _NO_WORK.match(core)):
            return tuple([_whole(part, hidden) for part in parts])
    return ()


@lru_cache(maxsize=512)
def command_steps(command: str) -> tuple[str, ...]:
    """All that a command does, in order, each with `''` in place of texts and of quotations of more than a word."""
    text, hidden = _without_texts(command)
    if "<<" in text:  # a text that is longer than what is read
        before, mark, after = text.partition("<<")
        text = before + mark + after.partition("\n")[0]

    def shown(match: re.Match[str]) -> str:
        quoted = hidden[int(match[1])]
        return quoted[1:-1] if _WORD_ALONE.fullmatch(quoted) else "''"

    parts = [part for segment in _FOLLOWS.split(text) for part in segment.split("&&")]
    return tuple(filter(None, (_HIDDEN.sub(shown, _core(part)) for part in parts)))


def folder_of(command: str) -> str:
    """Where a command says that it runs; empty: where the one before did."""
    if not command.lstrip().startswith(("cd", "(cd")):
        return ""
    match = _CD.match(" ".join(command[:COMMAND_CHARS].split()))
    return match[1].rstrip("/") if match else ""


def is_scratch(command: str, text: str) -> bool:
    """Whether a commit is of a repository that a command made to try something out."""
    return "git init" in command or ("(root-commit)" in text and "tmp" in command)


def place_of(call: CallEffect) -> str:
    """The folder in which a command ran, as far as it says; empty: where the one before did."""
    folder = folder_of(call.target)
    return normpath(f"{call.folder}/{folder}") if call.folder and folder[:1] != "/" else folder


def same_folder(one: str, other: str) -> bool:
    """Whether two commands may have run in one folder."""
    return not one or not other or one == other


def _without_texts(command: str) -> tuple[str, list[str]]:
    """A command with marks in place of quotations and of texts inside it, and these."""
    hidden: list[str] = []

    def hide(match: re.Match[str]) -> str:
        hidden.append(match[0])
        return f"\0{len(hidden) - 1}\1"

    text = command[:COMMAND_CHARS].replace("\0", "").replace("\1", "").strip()
    if "\n" in text:
        text = _CONTINUED.sub(r"\1 ", text)
    if "<<" in text:
        text = _HEREDOC.sub(lambda match: hide(match) + match["rest"], text)
    if "'" in text or '"' in text:
        text = _QUOTED.sub(hide, text)
    if text[:1] == "(" and text[-1:] == ")":
        text = text[1:-1]
    return text, hidden


def _whole(part: str, hidden: Sequence[str]) -> str:
    """A part with what the marks in it stand for; a quotation may hold the mark of a text."""
    for _ in range(2):
        part = _HIDDEN.sub(lambda match: hidden[int(match[1])], part)
    return part


def _core(part: str) -> str:
    part = _SETS.sub("", part.strip())
    return command_key(_REDIRECTED.sub("", part) if ">" in part else part)


_CONTINUED = pattern(r"(?:\\|(&&|\|\|?))[ \t]*\n\s*")
# A script of which each command has to succeed.
_STOPS_AT_ONCE = pattern(r"^set -\w*e\w*", re.MULTILINE)
_HIDDEN = pattern("\0(\\d+)\1")
_WORD_ALONE = pattern(r"(['\"])[\w./#@:+-]+\1")
_BLOCK = pattern(r"[ \t]{0,40}(?:for|while|until|if|case)\b")
_HEREDOC = pattern(
    r"<<-?[ \t]{0,4}(?P<quote>['\"]?)(?P<end>\w{1,40})(?P=quote)(?P<rest>[^\n]*)\n(?:.*?\n)??[ \t]*(?P=end)\b",
    re.DOTALL,
)
MOST_CHANGES = 100  # newest changes of files among which those after a failure are looked for


Part = tuple[str, str]


def _parts(call: CallEffect) -> list[Part]:
    """What a call is about: it ends the failures of that, and its own has ended when all of it has succeeded."""
    if call.action is Action.COMMAND:
        parts = command_parts(call.target) or (command_key(call.target),)
        return [("command", part) for part in parts]
    if call.action in (Action.EDIT, Action.WRITE):
        return [("change", call.target)]
    return [(call.name, call.target[:500])]


@dataclass(slots=True, eq=False, repr=False)
class _Failure:
    call: FailedCall
    parts: list[Part]
    left: set[Part]  # that have not succeeded since
    folder: str | None  # where a command ran, as far as it says; `None`: it was none


class FailureTally:
    """What failed, and which later success of the same thing ended it."""

    def __init__(self) -> None:
        self._all: list[_Failure] = []
        self._open: dict[Part, list[_Failure]] = {}
        self._changes: list[tuple[int, str]] = []

    def failed(self, call: CallEffect, outcome: CallOutcome, index: int) -> None:
        """Record a call that failed or was refused."""
        parts = _parts(call)
        folder = place_of(call) if call.action is Action.COMMAND else None
        failed = FailedCall(index, describe(call), outcome.line, outcome.feedback)
        failure = _Failure(failed, parts, {*parts}, folder)
        self._all.append(failure)
        for part in failure.left:
            self._open.setdefault(part, []).append(failure)

    def explained(self, words: str) -> None:
        """What the user says next who has refused the newest call without a word."""
        for failure in reversed(self._all):
            if not failure.call.line and not failure.call.feedback:
                failure.call = replace(failure.call, feedback=words)
                return

    def succeeded(self, call: CallEffect, index: int) -> None:
        """Close the failures of the same thing."""
        if call.action in (Action.EDIT, Action.WRITE):
            self._changes.append((index, call.target))
        if not self._open:
            return
        folder = place_of(call) if call.action is Action.COMMAND else ""
        for part in _parts(call):
            elsewhere = []
            for failure in self._open.pop(part, ()):
                if not same_folder(folder, failure.folder or ""):
                    elsewhere.append(failure)
                    continue
                failure.left.discard(part)
                if not failure.left:
                    by = self._changed(failure.call.index, index)
                    failure.call = replace(failure.call, fixed_index=index, fixed_by=by)
            if elsewhere:
                self._open[part] = elsewhere

    def committed(self, index: int) -> None:
        """A call has committed: where its chain failed all the same, what went before that had succeeded."""
        for failure in reversed(self._all):
            if failure.call.index != index:
                return
            places = [n for n, part in enumerate(failure.parts) if part[1].startswith("git commit")]
            after = set(failure.parts[places[-1] + 1 :]) if places else set()
            if after:
                failure.left &= after

    def rebased(self, text: str, index: int) -> None:
        """If a rebase went through, whichever call ended it, what stopped it before is over."""
        if not self._open or "Successfully rebased" not in text:
            return
        for part in [part for part in self._open if part[1].startswith("git rebase")]:
            for failure in self._open[part]:
                failure.left = {part}  # what goes before it in a chain had succeeded
            self.succeeded(CallEffect(Action.COMMAND, "", part[1]), index)

    def failures(self) -> tuple[FailedCall, ...]:
        """All failures, oldest first; commands that nothing fixed with what was changed since."""
        last = self._changes[-1][0] if self._changes else -1
        failures = []
        for failure in self._all:
            call = failure.call
            if failure.folder is not None and call.fixed_index < 0 and last >= call.index:
                call = replace(call, fixed_by=self._changed(call.index, last + 1))
            failures.append(call)
        return tuple(failures)

    def _changed(self, after: int, before: int) -> str:
        newest = self._changes[-MOST_CHANGES:]
        paths = (path for at, path in newest if after < at < before)
        return ", ".join(list(dict.fromkeys(paths))[-4:])


# What calls did: files, commands, failures, agents, and a line for each call.


ANSWER_CHARS = 4_000  # of a sub-agent's answer, half at each end
# What a host writes below it, and in how many characters at its end that is looked for.
_RESUMED = pattern(r"^agentId: \w+ \([^\n]*(?:\n<usage>.*)?\s*\Z", re.M | re.S)
_RESUMED_CHARS = 600
_LINE_NUMBER = pattern(r"^\s{0,8}\d{1,6}(?:→|\t)")
MAX_STEPS = 400  # newest calls that a summary keeps as lines; the tallies count all
MAX_CALLS = 12  # effects of one call that are listed line by line
NEWEST_OUTPUTS = 20  # newest calls, without waiting ones, of which the result is kept
# Tools that ask for what a command has printed whose own result names it in any case, where others may word it as they like.
_NAMED_AT_ONCE = ("bashoutput", "taskoutput")
# How a command ended that was left running and asked for, where no result says it.
END_UNREAD = "its end was not read"
STOPPED = "stopped"  # how a command ended that was left running and then stopped
_ON_FILES = (Action.READ, Action.EDIT, Action.WRITE, Action.DELETE)


class CallLog:
    """Calls whose results came, oldest first."""

    def __init__(self) -> None:
        self.commands: list[Command] = []
        self.steps: list[ToolStep] = []
        self.agents: list[AgentRun] = []
        self._outputs: deque[tuple[int, str]] = deque(maxlen=NEWEST_OUTPUTS)
        self._running: dict[str, tuple[int, int]] = {}  # places of commands and of their steps
        self.files, self.failures = FileTally(), FailureTally()
        self._committed = -1  # index of the call that committed last

    def ended(
        self,
        calls: Sequence[CallEffect],
        at: int,
        outcome: CallOutcome,
        text: str,
        *,
        committed: bool = False,
    ) -> None:
        """Note what one call did: its effects (at least one), the index of its message, how it ended and its result, which may report a commit."""
        first, goes_on = calls[0], ""
        action, target = first.action, first.target
        if action is Action.STOP:
            outcome = CallOutcome(True, None, "", "")  # that of what it ended says nothing
        running = outcome == LEFT_RUNNING
        if running or action is Action.POLL:
            goes_on = running_id(text)
        if running:
            outcome = outcome._replace(line=f"{outcome.line} as {goes_on}")
        else:
            if action is Action.COMMAND:
                outcome = ran(target, outcome, text)
            ended = outcome.exit_code is not None
            if action is Action.POLL and not ended and not goes_on:
                place, _ = self._running.get(target, (-1, -1))
                polled = self.commands[place].text if place >= 0 else ""
                if _GOES_ON_RUNNING.search(f"{polled}\n{text[:200]}"):
                    goes_on = target  # a server, or a host that says so
                else:
                    ended, outcome = _read_end(polled, outcome, text)
            for call in calls:
                if call.action is Action.STOP:
                    self.stopped(call.target)
                elif call.action is not Action.POLL:
                    self._effect(call, at, outcome)
                elif ended or not goes_on:
                    self._polled(call, at, outcome, ended=ended)
        if outcome.ok:
            self.failures.rebased(text, at)
        if action is Action.COMMAND:
            if committed:
                self._committed = at
                self.failures.committed(at)
            may_undo = outcome.ok and any(word in target for word in ("git ", "rm ", "mv "))
            if may_undo and "No local changes" not in text:
                self.files.undone(first, self._committed)
        # Of what a script printed nobody knows which of its calls returned it.
        own = len(calls) == 1 or not outcome.ok
        line = outcome.line if own else ""
        for call in calls[:MAX_CALLS]:
            step = ToolStep(at, call.action, describe(call), outcome.ok, line, purpose=call.purpose)
            if call.action is Action.EDIT and outcome.ok:
                step = step._replace(change=_change(call), within=self._within(call, step))
            self.steps.append(step)
        if action is not Action.POLL:
            if own:
                self._outputs.append((len(self.steps) - 1, text))
        elif goes_on and target in self._running:
            # What asks for more may go on itself.
            self._running[goes_on] = self._running[target]
        commands = [call for call in calls[:MAX_CALLS] if call.action is Action.COMMAND]
        if commands and self._running:
            self._went_on()
        for call in commands:
            ending = (outcome.ok, outcome.exit_code, line)
            run = Command(at, call.target, *ending, folder=place_of(call), purpose=call.purpose)
            self.commands.append(run)
        if action is Action.COMMAND:
            if goes_on:
                self._running[goes_on] = len(self.commands) - 1, len(self.steps) - 1
        elif action is Action.AGENT and not is_launch(text):
            end = _RESUMED.sub("", text[-_RESUMED_CHARS:])
            answer = ends_of(f"{text[:-_RESUMED_CHARS]}{end}".strip(), ANSWER_CHARS)
            self.agents.append(AgentRun(at, target[:2000], answer))

    def _within(self, call: CallEffect, edit: ToolStep) -> str:
        """The name of what is declared around an edit, by the newest reading of the file; empty: not known, or taken out since."""
        path, looked_for = edit.line.partition(" ")[2], _stripped(call.anchor)
        taken_out = next(filter(None, _stripped(call.removed)), looked_for[0])
        if match := DECLARES.match(f"\n{call.removed.strip() or call.anchor}"):
            return match["name"]
        for place, text in reversed(self._outputs) if looked_for[0] else ():
            step = self.steps[place]
            of_file = step.action is Action.READ and step.line.endswith(f" {path}")
            if of_file and looked_for[0] in text:
                rows = [_LINE_NUMBER.sub("", row) for row in text.split("\n")]
                places = _places([row.strip() for row in rows], looked_for)
                if len(places) != 1:
                    return ""
                name = _around(rows[: places[0] + looked_for.index(taken_out) + 1])
                return "" if name in self.files.removed_from(call.target) else name
        return ""

    def newest(self, most: int | None) -> list[ToolStep]:
        """So many of the newest steps, or all; the last ones with what they showed."""
        steps = list(self.steps)
        for place, text in self._outputs:
            if place >= 0:
                steps[place] = steps[place]._replace(output=text)
        return steps if most is None else steps[-most:]

    def _effect(self, call: CallEffect, at: int, outcome: CallOutcome) -> None:
        """A call did something, or failed to."""
        if not outcome.ok:
            self.failures.failed(call, outcome, at)
            return
        self.failures.succeeded(call, at)
        if call.action in _ON_FILES:
            self.files.add(call, at)

    def _went_on(self) -> None:
        """Another command is run: who has asked before for the output of one that was left running has seen its end."""
        for command, step in self._running.values():
            run = self.commands[command]
            if run.asked >= 0 and run.ok is None and run.line != END_UNREAD:
                self.commands[command] = run._replace(line=END_UNREAD)
                self.steps[step] = self.steps[step]._replace(result=END_UNREAD)

    def stopped(self, name: str) -> None:
        """Somebody stopped a command that was left running under this name: that it has failed says nothing."""
        command, step = self._running.pop(name, (-1, -1))
        if command >= 0:
            self.commands[command] = self.commands[command]._replace(line=STOPPED)
            self.steps[step] = self.steps[step]._replace(result=STOPPED)

    def exited(self, name: str, code: int, at: int) -> None:
        """A command that was left running under this name has ended, as the host says at a message."""
        if name in self._running:
            outcome = CallOutcome(code == 0, code, "", "")
            self._polled(CallEffect(Action.POLL, "", name), at, outcome, ended=True)

    def _polled(self, call: CallEffect, at: int, outcome: CallOutcome, *, ended: bool) -> None:
        """Complete a command that continued in the background from the later call that reports its end."""
        if not self.commands:
            return
        if not ended:
            command, _ = self._running.get(call.target, (-1, -1))
            if command >= 0:
                self.commands[command] = self.commands[command]._replace(asked=at)
            return
        command, step = self._running.get(call.target, (len(self.commands) - 1, -1))
        if outcome.exit_code is not None:  # else a later call may say it for certain
            self._running.pop(call.target, None)
        last = self.commands[command]
        named = last.exit_code is not None or call.name.lower() in _NAMED_AT_ONCE
        if step < 0 and last.ok is not None and named:
            return  # of one that has ended before, or that ran before all that is known
        ok, code, line, _ = outcome
        self.commands[command] = last._replace(ok=ok, exit_code=code, line=line)
        if step >= 0:
            self.steps[step] = self.steps[step]._replace(ok=ok, result=line)
        effect = CallEffect(Action.COMMAND, "", last.text, folder=last.folder)
        self._effect(effect, at, outcome)


_ENDS_BY_ITSELF = pattern(
    r"\b(?:tests?|build|lint|check|clippy|nextest|pytest|tsc|mypy|compile|vet)\b"
)
_PUSH_LINE = pattern(
    r"^[ *+]+(?:[0-9a-f]{7,40}\.{2,3}[0-9a-f]{7,40}|\[new branch\]) +\S+ -> \S", re.MULTILINE
)
_GOES_ON_RUNNING = pattern(r"--watch|\b(?:watch|dev|serve|start)\b|<status>running</status>")


def _read_end(command: str, outcome: CallOutcome, text: str) -> tuple[bool, CallOutcome]:
    """Whether a poll of a command that names no exit code printed last how a run of tests or a build ends, and how it ended."""
    if "git push" in command and _PUSH_LINE.search(text):
        return True, outcome
    if not _ENDS_BY_ITSELF.search(command):
        return False, outcome
    last = [line.strip() for line in text[-LAST_CHARS:].splitlines() if line.strip()][-LAST_LINES:]
    if any(map(_FAILED_RUN.match, last)):
        return True, CallOutcome(False, None, core.read_result(text, True)[2], "")
    return any(map(_PASSED_RUN.match, last)), outcome


def home_of(call: CallEffect, heads: Sequence[str]) -> str:
    """What the names in a call and its result belong to: its file, or the first of the programs that it runs (`heads`)."""
    if call.action in (Action.READ, Action.EDIT, Action.WRITE):
        return call.target if "\n" not in call.target else ""
    return heads[0] if heads else ""


# Which commands only look: what was done next shows what they revealed.
_LOOKS = pattern(
    r"^(?:ls|cat|head|tail|grep|rg|find|wc|sed -n|awk|echo|pwd|which|file|tree|nl|jq|stat|du|"
    r"git (?:-[cC] \S+ )*(?:status|log|diff|diff-tree|show|show-ref|branch|remote|rev-parse|rev-list|blame|fetch|ls-remote|ls-files|ls-tree|cat-file|"
    r"count-objects|fsck|merge-base|reflog|describe|for-each-ref|check-ignore|name-rev|maintenance status|worktree list|config --(?:get|list))|"
    r"gh (?:api|search \w+|(?:pr|issue|run|repo|release) (?:view|list|diff|checks|status|watch)))\b"
)
_IN_BLOCK = pattern(r"^(?:do |then |else |(?:for|while|until|if|case|done|fi|esac)\b.*)")
_WRITES = pattern(r"(?<![\d&=-])>{1,2} ?(?!&|/dev/null)[\w./~$\0]")
_ACTS = (Action.COMMAND, Action.EDIT, Action.WRITE, Action.DELETE, Action.AGENT, Action.OTHER)


def acts(action: Action, target: str) -> bool:
    """Whether a call does something, instead of looking at what is there."""
    return action in _ACTS and not (action is Action.COMMAND and only_looks(target))


@lru_cache(maxsize=512)
def only_looks(command: str) -> bool:
    """Whether all that a command does is to show something."""
    text, _ = _without_texts(command)
    if ">" in text and _WRITES.search(text):
        return False
    steps = [_IN_BLOCK.sub("", step) for step in command_steps(command)]
    work = [step for step in steps if not _NO_WORK.match(step)]
    return all(map(_LOOKS.match, work)) if work else bool(steps)

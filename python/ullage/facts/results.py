"""What results of tools tell in a line: numbers with their keys, versions, ports, ids, addresses; which of it was used."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from typing import NamedTuple

from ullage._engine import core
from ullage.facts.model import ResultFact
from ullage.facts.names import urls_in
from ullage.facts.words import feedback_of

# How a tool call ended: refused, failed or successful, with the line that shows it.
#
# What counts as a failure, a verdict or a host's framing is in `_reference/outcome.py`, and in Rust in `outcome.rs`.


class CallOutcome(NamedTuple):
    """`ok` is `None` where the call was refused or stopped, and so never ran."""

    ok: bool | None
    exit_code: int | None
    line: str  # the error's first informative line, or the last line of a success; may be empty
    feedback: str  # what the user said when refusing


_REFUSED = ("The user doesn't want to", "[Request interrupted by user")
HEAD_CHARS = 600


def is_framing(line: str) -> bool:
    """Whether a host wrote a line around a result: exit code, time, size; or nobody wrote a word."""
    return core.is_framing(line)


def read_outcome(text: str, *, is_error: bool) -> CallOutcome:
    """The outcome of a call, from its result's text and error flag."""
    if text[:HEAD_CHARS].lstrip().startswith(_REFUSED):
        # Hosts mark a refusal as an error; any tool may print its words.
        return CallOutcome(None, None, "", feedback_of(text) if is_error else "")
    failed, code, line = core.read_result(text, is_error)
    return CallOutcome(not failed, code, line, "")


MOST_OF_ONE = 4
"""Lines of one result that are kept; the response that follows states what matters in a long table."""

MOST_URLS = 3
"""Addresses of one result; a page of links is data."""

MOST = 400
"""Newest facts that are ranked."""

NEWEST_RESULTS = 3
"""Results whose facts come before those of older ones."""

SCANNED = 40_000

_ALIKE = 2
"""Lines of one pattern that are findings; more are a table."""

KEYED, PORT = 1, 2
"""What the engine says of a line: it may tell a value by its key, it may name a port."""

_FACT = re.compile(
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
_PORT = re.compile(
    r"(?:[Pp]ort|[Ll]istening|[Ll]istens|[Ss]erving|[Rr]unning|localhost|127\.0\.0\.1|0\.0\.0\.0)\b.{0,30}[ :=]\d{2,5}\b[^\d\n]{0,40}$"
)
_DIGIT = re.compile(r"\d")
_DIGITS = re.compile(r"\d+")
_VALUE = re.compile(r"(?<![\w.])[\w-]{0,40}\d[\w.,:-]{0,60}\w")
_PICTURE = re.compile(r"\.(?:png|jpe?g|gif|svg|ico|webp|css|js)\b|[?&]v=\d+$")
_KEY = re.compile(r"[ \t]*+[-*•]?[ \t\"']*+([A-Za-z][\w ()/.%-]{1,50})")


def fact_lines(text: str) -> list[str]:
    """Lines of a result that tell a value by its key, such as `rejected: 48213`; those that repeat a pattern are a table, not a finding."""
    lines = [line for line, told in core.telling_lines(_ends(text)) if _tells(line, told)]
    if len(lines) <= _ALIKE:
        return [line.strip() for line in lines]
    shapes = Counter(_DIGITS.sub("0", line) for line in lines)
    rare = [line.strip() for line in lines if shapes[_DIGITS.sub("0", line)] <= _ALIKE]
    return rare[:MOST_OF_ONE] if len(rare) <= MOST_OF_ONE * 3 else []


def _tells(line: str, told: int) -> bool:
    """A count of one digit says little by itself; times and exit codes of the host are in the steps."""
    keyed = told & KEYED and _FACT.match(line)
    if not keyed and not (told & PORT and _PORT.search(line)):
        return False
    return len(_DIGIT.findall(line)) > 1 and not is_framing(line.strip())


def _ends(text: str) -> str:
    half = SCANNED // 2
    return text if len(text) <= SCANNED else f"{text[:half]}\n{text[-half:]}"


def values_in(text: str) -> set[str]:
    """The numbers, versions and ids of three and more characters in a text, and its addresses."""
    return {*(v for v in _VALUE.findall(text[:SCANNED]) if len(v) > 2), *urls_in(text[:SCANNED])}


class FactTally:
    """Facts of results, in order; a value that is named again marks its fact as used."""

    def __init__(self) -> None:
        self._facts: dict[str, ResultFact] = {}
        self._by_value: dict[str, str] = {}
        self._keys: Counter[str] = Counter()
        self._results = 0

    def showed(self, text: str, index: int, *, read: bool) -> None:
        """Reads a result.

        Args:
            text: What it shows.
            index: Index of its message.
            read: Whether it is the text of a file, which can be read again.
        """
        self._results += 1
        found = fact_lines(text)
        if "://" in text:
            urls = dict.fromkeys(urls_in(text[: SCANNED // 2]))
            shown = [url for url in urls if not _PICTURE.search(url)][:MOST_URLS]
            found += [url for url in shown if not any(url in line for line in found)]
        for line in found:
            known = self._facts.pop(line, None)
            self._keys[_key(line)] += known is None
            seen = known.shown + 1 if known else 1
            used = known is not None and known.used
            self._facts[line] = ResultFact(index, line, used, seen, read, self._results)
            self._by_value.update((value, line) for value in values_in(line))

    def named(self, text: str) -> None:
        """Marks what a text of the user or the assistant, or a call, names again."""
        if self._by_value:
            for value in values_in(text) & self._by_value.keys():
                line = self._by_value[value]
                self._facts[line] = replace(self._facts[line], used=True)

    def ranked(self) -> tuple[ResultFact, ...]:
        """Used or repeated ones first, then those of the newest results, then those whose key stands nowhere else; newer before older."""
        return tuple(sorted(list(self._facts.values())[-MOST:], key=self._worth))

    def _worth(self, fact: ResultFact) -> tuple[int, bool, int, int]:
        newest = fact.result > self._results - NEWEST_RESULTS
        first = 0 if fact.used else 1 if newest or fact.shown > 1 else 2
        return first, fact.read, min(self._keys[_key(fact.line)], 9), -fact.result


def _key(line: str) -> str:
    """What tells facts of one kind: the words before the number, the host of an address."""
    if line.startswith("http"):
        return "/".join(line.split("/")[:4])
    match = _KEY.match(line)
    return _DIGITS.sub("0", match[1].strip().lower()) if match else line

"""Every real session, cut at several places: what the summary promises is in it, and the next one keeps it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.kit.transcripts import read
from ullage.compaction import compact
from ullage.facts import Facts, collect
from ullage.facts.sections import CLOSING, parse_sections
from ullage.facts.words import text_of
from ullage.summarizers.budgeted_text import cost
from ullage.summarizers.extractive import DEFAULT_TOKENS, render
from ullage.summarizers.lines import MOST_NAMES, candidates, shown

pytestmark = [pytest.mark.corpus, pytest.mark.slow]

CUTS = (25, 60, 95)
"""Percent of the session."""

MOST_SESSIONS = 3
"""Of a file that holds many short ones."""

BEGINNING = 16
"""Characters of a user message that are there even where the cap shortens it."""

SHORT_TOKENS = 2_000
"""A talk of this size at most may have a summary without the headings of empty sections."""

LEAST_NAMES = 40
"""The best names are in every summary of the usual size."""


@pytest.fixture(scope="module")
def parts(corpus_file: Path) -> list[list[dict[str, Any]]]:
    sessions = read(corpus_file).sessions[:MOST_SESSIONS]
    found = [s.entries[: len(s.entries) * cut // 100] for s in sessions for cut in CUTS]
    return [part for part in found if any("message" in entry for entry in part)]


def flat(text: str) -> str:
    return " ".join(text.split())


def test_what_is_promised_is_in_the_summary(parts):
    for part in parts:
        result = compact(part, keep=0)
        if not result.compacted:
            assert result.reason
            continue
        # Before it may stand what only its provider can read.
        text = text_of(result.summary_messages[-1])
        body = parse_sections(text.rpartition(CLOSING)[0])
        facts = collect(part)
        # A summary of a short talk has no room to name what is empty. The newest message stands whole next to it.
        talk = result.report.tokens_before - (cost(facts.inputs[-1].text) if facts.inputs else 0)
        assert sorted(body) == list(range(1, 10)) or (6 in body and talk <= SHORT_TOKENS)
        if facts.inputs:
            # It stands whole: in section 6 where that has room for it, or after the summary, or in what stayed.
            newest = [body.get(6, ""), text.rpartition(CLOSING)[2], *map(text_of, result.kept)]
            assert any(facts.inputs[-1].text in place for place in newest)
        assert result.report.tokens_after < result.report.tokens_before


def listed(name: str, facts: Facts) -> bool:
    """Whether a name is a row of a listing, of which a summary shows a few: ten or more differ in their digits only."""
    shape = re.sub(r"\d+", "0", name)
    return sum(re.sub(r"\d+", "0", each.text) == shape for each in facts.names[:MOST_NAMES]) >= 10


def left_out(text: str) -> set[int]:
    """Numbers of the user's messages that a summary names as left out for room: `(3 messages left out for room: u2, u5-u6)`."""
    named = re.search(r"left out for room: (…, )?([u\d, -]+)\)", text)
    ends = [each.replace("u", "").split("-") for each in named[2].split(", ")] if named else []
    away = {at for each in ends for at in range(int(each[0]), int(each[-1]) + 1)}
    return away | set(range(min(away))) if named and named[1] else away


def paths_under_folders(text: str) -> set[str]:
    """Changed files that a line lists under the folder that they share: "- Changed under `/w/`: a.py, b.py (deleted)"."""
    rows = re.findall(r"^- Changed under `([^`]+)`: (.*)$", text, re.MULTILINE)
    listed_names = ((folder, name) for folder, names in rows for name in names.split(", "))
    return {folder + name.removesuffix(" (deleted)") for folder, name in listed_names}


def test_names_and_changed_files_are_there_at_the_usual_size(parts):
    for part in parts:
        facts = collect(part)
        text = render(facts)
        assert cost(text) <= DEFAULT_TOKENS
        # A path by its last two parts, under the folder that it shares with others.
        # Without `read/display`, two words that prose joins by a stroke and no call holds.
        real = (name for name in candidates(facts) if not name.well_known)
        names = [name for name in real if not listed(name.text, facts)]
        assert [n.text for n in names[:LEAST_NAMES] if shown(n) not in text] == []
        newest = sorted((f for f in facts.files if f.changed), key=lambda f: -f.last)[:5]
        under = paths_under_folders(text)
        assert [f.path for f in newest if f.path not in text and f.path not in under] == []
        # Where the user's words do not all fit, sentences and then messages without a rule give way; those are named by their numbers.
        away = left_out(text)
        inputs = {e.number: flat(e.text)[:BEGINNING].strip() for e in facts.inputs[-20:]}
        missing = [at for at, start in inputs.items() if start not in flat(text) and at not in away]
        assert [at for at in missing if not re.search(rf"^{at}\. ", text, re.MULTILINE)] == []


def test_the_next_compaction_keeps_the_users_words(parts):
    for part in parts[::2]:
        once = compact(part, keep=0)
        if not once.compacted:
            continue
        again = flat(render(collect([*once.messages, *part[-10:]])))
        first = flat(text_of(once.summary_messages[-1]))
        starts = [flat(e.text)[:BEGINNING].strip() for e in collect(part).inputs[-10:]]
        # Of a short talk not even the first summary has room for all: it must be smaller than its source.
        lost = [start for start in starts if start in first and start not in again]
        assert lost == []

"""Is this text a summary? The checks before anything is installed.

They are tolerant about form and strict about substance: a wrong heading is nothing, an empty skeleton,
a cut answer or a tool call is a failure with a name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from ullage.exceptions import CompactionError
from ullage.facts.model import Facts
from ullage.facts.names import NameKind, find_names, urls_in
from ullage.facts.sections import parse_sections, strip_draft
from ullage.facts.words import unfenced
from ullage.providers.errors import classify
from ullage.summarizers.protocol import SummaryReply

# Finds the script in which the user writes, so that the summary can be requested in their language.


_SCRIPTS = (
    ("Cyrillic", 0x0400, 0x052F),
    ("Greek", 0x0370, 0x03FF),
    ("Hebrew", 0x0590, 0x05FF),
    ("Arabic", 0x0600, 0x06FF),
    ("Devanagari", 0x0900, 0x097F),
    ("Thai", 0x0E00, 0x0E7F),
    ("Hangul", 0xAC00, 0xD7AF),
    ("Japanese", 0x3040, 0x30FF),
    ("Han", 0x4E00, 0x9FFF),
)

_OTHER = re.compile(r"[^\x00-\u036f]")  # 25 times quicker to compile than the range above it


def script_of(inputs: Sequence[Any]) -> str:
    """The script of most of the user's letters if it is not Latin; empty else.

    Kana decide for Japanese, whatever the share of Han.
    """
    return script_of_text("".join(entry.text for entry in inputs)[-20_000:])


def has_script(text: str, script: str) -> bool:
    """Whether any letters of a script are in a text; Han count for Japanese and Hangul too."""
    scripts = {name for name, _ in _script_counts(text)}
    also = {"Japanese": {"Han"}, "Hangul": {"Han"}, "Han": {"Japanese"}}
    return bool(scripts & {script, *also.get(script, set())})


def script_of_text(text: str) -> str:
    """The script of most letters of a text if it is not Latin; empty else."""
    counts = dict(_script_counts(text))
    if not counts:
        return ""
    latin = sum(1 for char in text if char.isascii() and char.isalpha())
    if counts.get("Japanese", 0) * 10 > counts.get("Han", 0) + counts.get("Japanese", 0) > 0:
        counts["Japanese"] += counts.pop("Han", 0)
    # A word in another script carries about as much as five Latin letters in most texts about code.
    best = max(counts, key=lambda name: counts[name], default="")
    return best if best and counts[best] * 5 > latin else ""


def _script_counts(text: str) -> Iterator[tuple[str, int]]:
    points = [ord(char) for char in _OTHER.findall(text)]
    for name, first, last in _SCRIPTS:
        count = sum(1 for point in points if first <= point <= last)
        if count:
            yield name, count


Problem = str
"""`no_text`, `tool_call`, `protocol_tokens`, `refusal`, `cut`, `overflow`, `repetition`, `wrong_script`, `template_only`,
`too_few_sections` or `not_smaller`."""

LEAST_SECTIONS = 5
"""Of nine. Fewer is no hand-over; up to four that a model left out are filled by code."""

LEAST_CHARS = 40

_OVERFLOW = frozenset({"model_context_window_exceeded"})
_CALLED = frozenset({"tool_use", "tool_calls", "function_call"})

_PROTOCOL = re.compile(
    r"<\|(?:im_start|im_end|endoftext|eot_id|start_header_id|python_tag|channel|message|tool_call)[^|]{0,40}\|>|"
    r"</?(?:antml:)?(?:function_calls|invoke|tool_call|tool_use)\b[^>]{0,200}>|\[/?(?:INST|TOOL_CALLS)\]"
)
_REFUSAL = re.compile(
    r"^\W*(?:I['’]?m sorry|I am sorry|Sorry|I can(?:['’]t|not)|I['’]?m (?:not able|unable)|I won['’]t|As an AI)\b",
    re.IGNORECASE,
)
_BLANK = re.compile(
    r"^[\s\W]*(?:none|n/?a|nothing|empty|unknown|tbd|not applicable|no \w+|\[[^\]]{0,200}\]|<[^>]{0,200}>)?[\s\W]*$",
    re.IGNORECASE,
)
_INLINE = re.compile(r"`[^`\n]+`")

LONGEST_BLANK = 400
"""Characters of a section that may say nothing; longer ones say nothing only if they hold no letter."""


def check_reply(
    reply: SummaryReply, *, source_chars: int, nine_sections: bool = True, script: str | None = None
) -> tuple[str, tuple[Problem, ...]]:
    """Looks at a summarizer's answer.

    Args:
        reply: As it came.
        source_chars: Length of what it summarises; a summary must be shorter.
        nine_sections: Expect our sections; false where the host's template asks for something else.
        script: Of the user's words, as `language.script_of` names it; empty: Latin. `None`: not checked.

    Returns:
        The summary without its draft, and what is wrong with it (nothing, if it may be installed).
    """
    text = strip_draft(reply.text)
    finish = reply.finish_reason.lower()
    if finish in _OVERFLOW:
        return text, ("overflow",)
    if reply.tool_calls or finish in _CALLED:
        return text, ("tool_call",)
    if reply.is_refusal:
        return text, ("refusal",)
    if len(text) < LEAST_CHARS:
        return text, ("no_text",)
    problems = [name for name, broken in _substance(text, reply, source_chars) if broken]
    if script is not None and not problems and _other_script(text, script):
        problems = ["wrong_script"]
    if nine_sections and not problems:
        problems = _structure(text)
    return text, tuple(problems)


LONGEST_ERROR = 600
"""Characters up to which an answer may be an error's text; a summary in nine sections is longer."""


def error_in(text: str) -> str | None:
    """An answer that is the text of an error, as wrappers around a client return it; `None`: it is none.

    Args:
        text: As the summarizer gave it.
    """
    answer = text.strip()
    if not answer or len(answer) > LONGEST_ERROR or parse_sections(answer):
        return None
    if answer.startswith(_ERRORS):
        return answer
    return answer if classify(answer).is_overflow else None


_ERRORS = ("API Error", "Prompt is too long", "prompt is too long")
"""With these a client's own words for an error begin."""


def _substance(
    text: str, reply: SummaryReply, source_chars: int
) -> tuple[tuple[Problem, bool], ...]:
    prose = _unquoted(text)
    return (
        ("protocol_tokens", bool(_PROTOCOL.search(prose))),
        ("refusal", bool(_REFUSAL.match(text)) and len(text) < 1500),
        ("cut", reply.is_cut_off),
        ("repetition", _repeats(text)),
        ("not_smaller", len(text) >= source_chars),
    )


def _other_script(text: str, script: str) -> bool:
    """Whether a summary is in another script than the user's. Languages that share a script are not distinguished.

    A user of another script has their own words in the summary; a user of Latin letters may quote a
    little of any.
    """
    written_in = script_of_text(_unquoted(text))
    return bool(written_in) if not script else not has_script(text, script)


def _structure(text: str) -> list[Problem]:
    sections = parse_sections(text)
    if len(sections) < LEAST_SECTIONS:
        return ["too_few_sections"]
    if sum(1 for body in sections.values() if not _blank(body)) < 2:
        return ["template_only"]
    return []


def _unquoted(text: str) -> str:
    return _INLINE.sub("", unfenced(text))


def _blank(body: str) -> bool:
    text = body.strip()
    if len(text) > LONGEST_BLANK:
        return not any(char.isalnum() for char in text)
    return _BLANK.match(text) is not None


def _repeats(text: str) -> bool:
    """A model that loops says the same line again and again: over a third of its longer lines."""
    lines = [line.strip() for line in text.splitlines() if len(line.strip()) > 30]
    if len(lines) >= 12 and len(set(lines)) * 3 < len(lines) * 2:
        return True
    return _loops(text[-4000:])


def _loops(tail: str) -> bool:
    """The same 20 to 200 characters five times in a row at the end."""
    for size in range(20, 201):
        unit = tail[-size:]
        if len(tail) >= 5 * size and tail.endswith(unit * 5) and len(set(unit)) > 3:
            return True
    return False


# ---- what a summary says and its source does not ---------------------------------------------------

MOST_NAMED = 8
"""Names in one warning."""
LONGEST_REQUEST = 120

_COPIED = frozenset((NameKind.PATH, NameKind.COMMIT, NameKind.ID, NameKind.TICKET))
"""Kinds of names that nobody writes in other words."""
COMMIT_CHARS = 7
"""Of a hash, which sources and summaries cut at different lengths."""

_REQUEST = re.compile(
    r"\bthe user (?:has |had |then |also |explicitly |later )*(?:ask(?:s|ed)|request(?:s|ed)|want(?:s|ed)|told|tells|instruct(?:s|ed)|demand(?:s|ed)|"
    r"approved|confirmed|decided|agreed|insist(?:s|ed)|require(?:s|d))\b([^\n]{1,400}?)(?:[.;\n]|$)",
    re.IGNORECASE,
)
_WORD = re.compile(r"[^\W\d_]{4,}")
STEM_CHARS = 5
"""Of a word: its beginning is the same in most of its forms."""
_IN_ANY_REQUEST = frozenset(
    "that this with from into their there them then also some more before after when where which should would could must have been make made "
    "assistant user about they what only first next again continue work done want wants".split()
)


def not_in_source(summary: str, source: str, facts: Facts) -> list[str]:
    """Warnings about a model's summary: names and requests of the user that its source does not hold.

    Args:
        summary: What the model wrote.
        source: All texts that it was given, also inputs and results of tools.
        facts: Of the source.
    """
    names = [name for name in _names_in(summary) if not _stands_in(name, source)]
    warnings = [f"names_not_in_source:{', '.join(names[:MOST_NAMED])}"] if names else []
    return [*warnings, *(f"request_not_in_source:{text}" for text in _invented(summary, facts))]


def _names_in(summary: str) -> list[str]:
    names = [name for name, kind in find_names(summary) if kind in _COPIED and not _is_prose(name)]
    return [*names, *urls_in(summary)]


def _is_prose(name: str) -> bool:
    """`before/after`: words that a stroke joins."""
    return "." not in name and name.count("/") == 1 and not name.startswith(("/", "."))


def _stands_in(name: str, source: str) -> bool:
    """Whether a source holds a name; a path may be given from another folder, a hash cut."""
    last = name.rstrip("/").rsplit("/", 1)[-1]
    return (
        name in source
        or last in source
        or (_HASH.fullmatch(name) is not None and name[:COMMIT_CHARS] in source)
    )


_HASH = re.compile(r"[0-9a-f]{7,40}")


def _invented(summary: str, facts: Facts) -> list[str]:
    """What a summary says that the user asked for, of which most words are neither the user's nor the assistant's.

    Where that is so for most of its requests, it was written in another language, and nothing is said.
    """
    asked = [match[0].strip()[:LONGEST_REQUEST] for match in _REQUEST.finditer(summary)]
    if not asked:
        return []
    source_stems = _stems("\n".join(_words_of_both(facts)))
    invented = [text for text in asked if _is_foreign(text, source_stems)]
    return invented if len(invented) * 2 <= len(asked) or len(asked) == 1 else []


def _words_of_both(facts: Facts) -> Iterator[str]:
    yield from (entry.text for entry in facts.inputs)
    yield from (entry.question for entry in facts.inputs)
    yield from (rule.text for rule in facts.standing)
    yield from (statement.text for statement in facts.statements)
    yield from (f"{decision.question} {decision.answer}" for decision in facts.decisions)
    yield from (facts.plan, facts.previous.text if facts.previous else "")


def _stems(text: str) -> frozenset[str]:
    return frozenset(word[:STEM_CHARS] for word in _WORD.findall(text.lower()))


def _is_foreign(request: str, source_stems: frozenset[str]) -> bool:
    match = _REQUEST.search(f"{request}\n")
    words = _WORD.findall(match[1].lower()) if match else []
    stems = {word[:STEM_CHARS] for word in words if word not in _IN_ANY_REQUEST}
    return len(stems) > 1 and 2 * len(stems & source_stems) < len(stems)


_CODES = {
    "no_text": ("no_summary", "the summarizer answered without text"),
    "tool_call": ("no_summary", "the summarizer called a tool instead of answering"),
    "refusal": ("no_summary", "the summarizer refused"),
    "protocol_tokens": ("incomplete_summary", "the answer holds protocol tokens"),
    "cut": ("incomplete_summary", "the answer was cut off at its length limit"),
    "repetition": ("incomplete_summary", "the answer repeats itself"),
    "wrong_script": (
        "incomplete_summary",
        "the summary is in another script than the user's words",
    ),
    "not_smaller": ("incomplete_summary", "the summary is not smaller than what it summarises"),
    "template_only": ("incomplete_summary", "the summary is an empty skeleton"),
    "too_few_sections": ("incomplete_summary", "the summary lacks most of its sections"),
    "overflow": ("prompt_too_long", "the summary call exceeded the summarizer's window"),
}


def error_for(problem: Problem, summarizer: str) -> CompactionError:
    """The failure that a problem stands for."""
    code, text = _CODES[problem]
    return CompactionError(code, f"{summarizer}: {text}")

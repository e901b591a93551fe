"""Is this text a summary? The checks before anything is installed (SPEC FULL-8).

They are tolerant about form and strict about substance: a wrong heading is nothing, an empty skeleton,
a cut answer or a tool call is a failure with a name.
"""

from __future__ import annotations

import re

from ullage.compaction.language import has_script, script_of_text
from ullage.exceptions import CompactionError
from ullage.facts.fences import unfenced
from ullage.facts.sections import parse_sections, strip_draft
from ullage.summarizers.protocol import SummaryReply

__all__ = ["Problem", "check_reply", "error_for"]

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
    found = script_of_text(_unquoted(text))
    return bool(found) if not script else not has_script(text, script)


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

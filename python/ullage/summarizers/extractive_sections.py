"""What each of the nine sections can say, from facts alone. Every line is a copy or a count, never a guess."""

from __future__ import annotations

from collections.abc import Sequence

from ullage.facts.calls import Action
from ullage.facts.model import (
    Facts,
    FailedCall,
    FileUse,
    UserInput,
)
from ullage.facts.sections import quoted
from ullage.facts.words import Kind
from ullage.summarizers.budgeted_text import Unit, cost, fill, inline, joined, one_line, shorten
from ullage.summarizers.course_lines import NEWEST_SAID, since_request
from ullage.summarizers.essentials import (
    ESSENTIAL,
    changed_line,
    changed_paths,
    is_open_failure,
)
from ullage.summarizers.users_words import trimmed

__all__ = [
    "concepts",
    "current_work",
    "errors",
    "failure_line",
    "file_line",
    "files",
    "files_section",
    "next_step",
    "request",
    "rule_line",
    "standing",
]

CODE_TOKENS = 220
"""Of one file's newest code; the file itself can be read again."""

SHOWN_CODE = 8
"""Files whose code is shown, the newest."""

LINE = 160

URLS, FIRST_URLS = 20, 10
"""Addresses that are listed, the newest; and how many of them are essential."""


def _quote(text: str, tokens: int) -> str:
    shown = trimmed(text, tokens)
    return f"“{shown}”" if "\n" not in shown else f"\n{quoted(shown)}"


def _since(entry: UserInput) -> str:
    return (
        f" (replaced by a later message: “{one_line(entry.corrected, 160)}”)"
        if entry.corrected
        else ""
    )


OPENED = "- Opened with:"


def _prompts(facts: Facts) -> list[UserInput]:
    prompts = [entry for entry in facts.inputs if entry.kind in (Kind.PROMPT, Kind.COMMAND)]
    while len(prompts) > 1 and len(prompts[0].text.split()) == 1:
        prompts.pop(0)  # a bare `/mode` or `hi` opens nothing
    return prompts


def opening(facts: Facts) -> UserInput | None:
    """How the conversation began; `None`: the previous summary says it, and knows it better than what is left of the messages."""
    prompts = _prompts(facts)
    if not prompts or facts.previous is None:
        return prompts[0] if prompts else None
    told = OPENED in facts.previous.section(1)
    return None if told and prompts[0].number > 1 else prompts[0]


def request(facts: Facts, instructions: str = "") -> list[Unit]:
    """Section 1: how it began, what was asked last, which rules apply, what this compaction should focus on."""
    prompts, first = _prompts(facts), opening(facts)
    units = []
    if first is not None:
        units.append(Unit(f"{OPENED} {_quote(first.text, 250)}{_since(first)}", 1))
    if len(prompts) > 1:
        units.append(Unit(f"- Newest request: {_quote(prompts[-1].text, 200)}", 0))
    if instructions:
        units.append(Unit(f"- To focus on after this compaction: {_quote(instructions, 200)}", 0))
    return units


def standing(facts: Facts, words: str = "") -> tuple[list[Unit], list[Unit]]:
    """The user's rules for section 1: those that section 6 does not hold whole, and those that it does.

    Args:
        facts: What is known.
        words: Section 6; of the rules that stand there only those that hold from now on are said again.
    """
    lost = [rule for rule in facts.standing if rule.text not in words]
    again = [rule for rule in facts.standing if rule.text in words and rule.lasting]
    return _ranked_rules(lost), _ranked_rules(again)


def _ranked_rules(rules: list[UserInput]) -> list[Unit]:
    """What holds from now on before what holds for a task, the newest first."""
    count = len(rules)
    return [
        Unit(rule_line(rule), count - at + count * (not rule.lasting))
        for at, rule in enumerate(rules)
    ]


def rule_line(rule: UserInput) -> str:
    """A rule of the user, verbatim."""
    kind = "Lasting instruction" if rule.lasting else "Rule"
    return f"- {kind} (user): “{one_line(rule.text, 400)}”{_since(rule)}"


def concepts(facts: Facts) -> list[Unit]:
    """Section 2, without the names: references, skills, plan."""
    units = []
    if facts.skills:
        units.append(Unit(f"- Skills invoked (already running): {', '.join(facts.skills)}", 0))
    if facts.urls:
        newest = facts.urls[-URLS:]
        first = len(newest) - FIRST_URLS
        units.extend(
            Unit(f"- {url}", len(newest) - at - (ESSENTIAL if at >= first else 0))
            for at, url in enumerate(newest)
        )
    return units


def files(facts: Facts) -> list[Unit]:
    """Section 3: files by last use; those that were changed with their newest code."""
    ordered = sorted(facts.files, key=lambda file: (-file.last, file.path))
    place = {file.path: at for at, file in enumerate(ordered)}
    changed = [file.path for file in ordered if file.changed][:SHOWN_CODE]
    units = []
    for file in sorted(facts.files, key=lambda file: file.last):
        units.append(Unit(file_line(file), place[file.path] * 2 + (0 if file.changed else 40)))
        if file.path in changed and file.code.strip():
            block = quoted(shorten(file.code.strip("\n"), CODE_TOKENS), "")
            units.append(Unit(block, 30 + changed.index(file.path) * 6))
    return units


def files_section(facts: Facts, new: Sequence[Unit], old: Sequence[Unit], tokens: int) -> str:
    """Section 3 within its room: every changed file by name, then lines and code of the newest.

    Args:
        facts: What is known.
        new: As `files` gave them, perhaps ranked again.
        old: Lines of the previous summary.
        tokens: The room, in UTF-8 bytes / 4.
    """
    paths = changed_paths(facts)
    line = changed_line(paths, tokens) if paths else ""
    room = tokens - (cost(line) if line else 0)
    kept = fill(old, room * 2 // 5, "{} points of the previous summary") if old else ""
    shown = fill(new, room - (cost(kept) if kept else 0), "{} files")
    # A file with a line of its own need not be named twice.
    rest = [path for path in paths if f"- `{path}`:" not in shown]
    line = changed_line(rest, tokens) if rest else ""
    return joined((line, kept, shown))


def file_line(file: FileUse) -> str:
    """A file and what was done to it."""
    done = [
        f"edited {file.edits}×" if file.edits else "",
        f"written {file.writes}×" if file.writes else "",
        "deleted" if file.deleted else "",
        f"read {_ranges(file)}" if file.reads else "",
    ]
    return f"- `{file.path}`: {', '.join(part for part in done if part) or 'named'}"


def _ranges(file: FileUse) -> str:
    if not file.ranges or file.ranges == ((1, 0),):
        return "whole"
    shown = (f"{a}–{b}" if b else f"{a}–end" for a, b in file.ranges[-6:])
    return "lines " + ", ".join(shown)


def errors(facts: Facts) -> list[Unit]:
    """Section 4: what failed, the telling line, what followed."""
    telling = [f for f in facts.failures if f.line or f.feedback]
    count = len(telling)
    newest = {failure_line(failure): at for at, failure in enumerate(telling)}
    return [
        Unit(line, count - at - ESSENTIAL if is_open_failure(line) else 2 * (count - at))
        for line, at in sorted(newest.items(), key=lambda row: row[1])
    ]


def failure_line(failure: FailedCall) -> str:
    """A failure, the telling line, and what followed."""
    head = f"- {inline(failure.what, LINE)}"
    if failure.feedback:
        return f"{head} was refused; the user said: “{one_line(failure.feedback, 300)}”"
    after = "not seen to succeed since"
    if failure.fixed_index >= 0:
        after = (
            f"later succeeded{f', after changes to {failure.fixed_by}' if failure.fixed_by else ''}"
        )
    return f"{head} failed: {inline(failure.line, 200)}; {after}"


def current_work(facts: Facts) -> list[Unit]:
    """Section 8: the calls since the newest request, with outcomes, and the newest words."""
    since = facts.inputs[-1].index if facts.inputs else -1
    steps = [step for step in facts.steps if step.action is not Action.POLL]
    recent = [step for step in steps if step.index > since]
    if len(recent) < 6:
        recent = steps[-6:]
    units = [
        Unit(
            f"- {inline(step.line, LINE)}{_result(step.ok, step.action, step.result)}",
            len(recent) - at,
        )
        for at, step in enumerate(recent)
    ]
    said = since_request(facts)[-NEWEST_SAID:-1]
    units.extend(
        Unit(f"- Said: {one_line(s.text, 300)}", 2 * (len(said) - at)) for at, s in enumerate(said)
    )
    return units


def _result(ok: bool | None, action: Action, line: str) -> str:
    if ok is None:
        return " → refused or stopped"
    if ok and (not line or action not in (Action.COMMAND, Action.OTHER, Action.AGENT)):
        return "" if action in (Action.READ, Action.SEARCH) else " → ok"
    return f" → {'ok' if ok else 'failed'}{f': {inline(line, 140)}' if line else ''}"


def next_step(facts: Facts, tokens: int) -> str:
    """Section 9: where it stood, in the session's own words. No step is made up."""
    last = facts.statements[-1] if facts.statements else None
    since = facts.inputs[-1].index if facts.inputs else -1
    if last is None or (last.index < since):
        return "The newest user message has not been answered yet; answer it."
    if facts.open_question:
        lead = "The assistant asked the user and has no answer yet. Its words"
    elif facts.interrupted:
        lead = "The user stopped the assistant. Its last words before that"
    else:
        lead = "The assistant's newest words"
    asked = (
        f"The newest request: “{one_line(facts.inputs[-1].text, 200)}”\n" if facts.inputs else ""
    )
    if cost(asked) + 45 > tokens:
        asked = ""  # section 6 ends with it
    room = max(tokens - cost(asked) - 25, 20)
    return f"{asked}{lead}:\n{quoted(shorten(last.text, room))}"

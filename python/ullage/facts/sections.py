"""The nine sections of a summary: their headings, and a tolerant reader for summaries of any origin."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ullage._engine import core
from ullage._engine.digests import BlockKind
from ullage._start import Frozen, NamedTuple, pattern
from ullage.messages import BlockView, Item, message_of

# In order; the number of a section is its position, from 1.
HEADINGS = (
    "Primary Request and Intent",
    "Key Technical Concepts",
    "Files and Code Sections",
    "Errors and Fixes",
    "Problem Solving",
    "All User Messages",
    "Pending Tasks",
    "Current Work",
    "Optional Next Step",
)
PINS_HEADING = "Pinned"
_CONTINUED = "This session is being continued from a previous conversation"
# How Codex 0.163.0 introduces the summary that a model wrote for it.
_CODEX_HANDED_OVER = "Another language model started to solve this problem and produced a summary"

OPENING = f"{_CONTINUED} that ran out of context. Its earlier part was replaced by this summary."
"""First line of Ullage's summary message. Bare messages have no flag and are recognised by this line. Its first sentence is the one
that readers of Claude Code's logs look for; the second one is only Ullage's."""

BRIEF_OPENING = f"{_CONTINUED}, summarised:"  # the same where there is hardly any room
# Heading of the part that follows the sections; its lines were copied from the log.
KEPT_HEADING = "## Kept by code"
# How its lines begin, and those of section 3, which name files that were changed, or only read.
FILES_CHANGED, FILES_READ = "- Changed", "- Read"
# Prefix of a user message's row there; these rows come first, in their order.
KEPT_INPUT = "User message "
# Line after the ninth section of Ullage's summary message; notes to the model follow it.
CLOSING = "[End of the summary]"
# First line of a summary made from the session's notes.
NOTES_OPENING = "[Notes of this session, kept while it went on]"
_KEYS = tuple(tuple(heading.lower().split()) for heading in HEADINGS)
_LINE = pattern(
    r"^[ \t]{0,8}(?:#{1,6}[ \t]{0,3})?(?:\*\*|__)?[ \t]{0,3}(?:(?P<number>\d{1,2})[.)][ \t]{0,3})?(?:\*\*|__)?"
    r"(?P<title>[A-Za-z][A-Za-z ,/&-]{3,60}?)(?: \([^()\n]{1,40}\))?[ \t]{0,3}(?:\*\*|__)?[ \t]{0,3}(?::(?:\*\*|__)?|$)(?P<rest>.*)$"
)
_DRAFT, _DRAFT_END = "<analysis>", "</analysis>"
_HANDED_OVER = pattern(r"</analysis>\s{0,200}<summary>")
_OPENS = pattern(r"(?:^|</summary>|</analysis>)[ \t]{0,40}<summary>", re.MULTILINE)
_SUMMARY, _SUMMARY_END = "<summary>", "</summary>"
_DRAFT_VARIANT = pattern(r"<(/?)(analysis)(?:\s[^<>]{0,200})?>", re.IGNORECASE)
_SUMMARY_VARIANT = pattern(r"<(/?)(summary)(?:\s[^<>]{0,200})?>", re.IGNORECASE)
_INNER_DRAFT = pattern(r"^[ \t]{0,40}<analysis>.*?</analysis>", re.MULTILINE | re.DOTALL)
# How older versions of Claude Code stored both parts of a response.
_DRAFT_IN_WORDS = pattern(
    r"^Analysis:[ \t]*\n(?:(?!Summary:[ \t]*$)[^\n]*\n)*Summary:[ \t]*$", re.MULTILINE
)
# Maximum blocks of a response that are tried as the summary, in case a draft names the tag often.
MOST_BLOCKS = 8
_FENCE = pattern(r"^\s*(`{3,}|~{3,})")


def looks_like_summary(text: str) -> bool:
    """Whether a message's text is a summary, ours or another tool's, of an earlier part of the conversation."""
    return text.lstrip()[:200].startswith((_CONTINUED, _CODEX_HANDED_OVER))


def strip_draft(text: str) -> str:
    """A model's response without its draft: the contents of `<summary>`, or everything except the draft."""
    for opening, variant in ((_DRAFT, _DRAFT_VARIANT), (_SUMMARY, _SUMMARY_VARIANT)):
        if opening not in text:  # where tags stand only in capitals or with attributes
            text = variant.sub(lambda tag: f"<{tag[1]}{tag[2].lower()}>", text)
    body = _after_draft(text)
    undrafted = (_INNER_DRAFT.sub("", block).strip() for block in _blocks(body))
    blocks = [*filter(None, undrafted)]
    if not blocks:
        return body.strip()
    # A summary of work on HTML may contain the tag itself: the block with the most sections is used.
    return max(reversed(blocks), key=lambda block: len(parse_sections(block)))


def _after_draft(text: str) -> str:
    """The text without the draft, which may name the tags of the response."""
    start = text.find(_DRAFT)
    if start < 0 or _SUMMARY in text[:start]:
        return text
    handed = [match.start() for match in _HANDED_OVER.finditer(text, start)]
    end = handed[-1] if handed else text.rfind(_DRAFT_END)
    if end >= start:
        return text[:start] + text[end + len(_DRAFT_END) :]
    opened = [match.start() for match in _OPENS.finditer(text, start)]
    place = opened[-1] if opened else text.rfind(_SUMMARY)
    return text[:start] + (text[place:] if place >= start else "")


def _blocks(text: str) -> list[str]:
    """The contents of `<summary>`, for each place where it may begin, in order."""
    starts = [match.end() for match in _OPENS.finditer(text)]
    if not starts and _SUMMARY in text:
        starts = [text.find(_SUMMARY) + len(_SUMMARY)]
    blocks = []
    for at, start in enumerate(starts):
        later = starts[at + 1] - len(_SUMMARY) if at + 1 < len(starts) else len(text)
        own = text.find(_SUMMARY_END, start, later)
        last = text.rfind(_SUMMARY_END, start)
        # One that extends to the end of the response, and one that ends before the next begins.
        blocks += [text[start:last] if last >= start else text[start:]]
        if own >= 0 and own != last:
            blocks.append(text[start:own])
    short = blocks if len(blocks) <= MOST_BLOCKS else [*blocks[:2], *blocks[-(MOST_BLOCKS - 2) :]]
    return [block.strip() for block in short]


def _number_of(line: str) -> tuple[int, str]:
    match = _LINE.match(line.rstrip())
    if match is None:
        return 0, ""
    words = tuple(re.findall(r"[a-z]+", match["title"].lower()))
    for number, key in enumerate(_KEYS, 1):
        if words == key or (match["number"] == str(number) and set(words) & set(key)):
            return number, match["rest"].strip()
    return 0, ""


def fenced_lines(text: str) -> Iterator[tuple[str, bool]]:
    """Each line, and whether it is part of a code block; one that is never closed reaches to the end."""
    fence = ""
    for line in text.split("\n"):
        mark = _FENCE.match(line)
        yield line, bool(fence or mark)
        if mark and not fence:
            fence = mark[1]
        elif mark and mark[1].startswith(fence) and line.strip() == mark[1]:
            fence = ""


def parse_sections(text: str) -> dict[int, str]:
    """The sections of a summary by number; wording, marks and order of the headings may vary. Text before the first heading is dropped."""
    lines_by_number: dict[int, list[str]] = {}
    current = 0
    for line, fenced in fenced_lines(text):
        number, title = (0, "") if fenced else _number_of(line)
        if number and number not in lines_by_number:
            current = number
            lines_by_number[number] = [title] if title else []
        elif current:
            lines_by_number[current].append(line)
    return {number: "\n".join(lines).strip("\n") for number, lines in lines_by_number.items()}


class Previous(Frozen):
    """The summary of an earlier compaction: its sections by number (1 to 9)."""

    text: str
    sections: tuple[tuple[int, str], ...] = ()
    index: int = -1
    kept_inputs: tuple[str, ...] = ()  # user messages that code appended, oldest first
    kept_numbers: tuple[int, ...] = ()  # their numbers

    def section(self, number: int) -> str:
        """A section's text; empty if the summary has none."""
        return dict(self.sections).get(number, "")


def parse_summary(text: str) -> Previous:
    """The sections of a summary message by Ullage or another tool."""
    body = text.rpartition(f"\n{CLOSING}")[0]
    if not body:
        ends = [place for words in CLIENT_WORDS if (place := text.rfind(words)) >= 0]
        body = text[: min(ends)] if ends else text
    if not text.lstrip().startswith((OPENING, BRIEF_OPENING)):
        body = strip_draft(body)  # Ullage's has none, and may quote such tags
        body = _DRAFT_IN_WORDS.sub("", body, count=1)
    written, _, by_code = body.partition(f"\n{KEPT_HEADING}\n")
    parsed = _parse_notes(written) if holds_notes(text) else parse_sections(written)
    inputs, remaining = _kept_by_code(by_code)
    of_files = [row for row in remaining if row.startswith((FILES_CHANGED, FILES_READ))]
    others = [row for row in remaining if not row.startswith((FILES_CHANGED, FILES_READ))]
    for section, rows in ((3, of_files), (5, others)) if parsed else ():
        if rows:
            parsed[section] = "\n".join(filter(None, (parsed.get(section, ""), *rows)))
    texts, numbers = tuple(text for _, text in inputs), tuple(number for number, _ in inputs)
    sections = tuple(sorted(parsed.items()))
    return Previous(body, sections, kept_inputs=texts, kept_numbers=numbers)


CLIENT_WORDS = (
    "\nIf you need specific details from before compaction (",
    "\nContinue the conversation from where it left off without asking the user any further questions.",
    "\nPlease continue the conversation from where we left it off",
)
"""How the client's own words begin that follow its summary, one of them on a line of its own. Source: requests of Claude Code 2.1.330;
the last wording is that of versions before 2.1."""


# The section of the nine to which each section of session notes belongs.
_OF_NOTES = {
    "Session Title": 1,
    "Task specification": 1,
    "Codebase and System Documentation": 2,
    "Files and Functions": 3,
    "Errors & Corrections": 4,
    "Workflow": 5,
    "Learnings": 5,
    "Key results": 5,
    "Worklog": 5,
    "Current State": 8,
}
# A row of session notes that repeats a user message on one line.
_NOTED_INPUT = pattern(r"- User (\d{1,6})(?: \([^()\n]{0,400}\)){0,2}: “(.*)”$")


def holds_notes(text: str) -> bool:
    """Whether a summary message is made of the session's notes."""
    return looks_like_summary(text) and f"\n{NOTES_OPENING}\n" in text[:1000]


def _parse_notes(body: str) -> dict[int, str]:
    lines_by_number: dict[int, list[str]] = {}
    current = 5
    for line in body.partition(NOTES_OPENING)[2].split("\n"):
        current = _OF_NOTES.get(line.removeprefix("# "), current)
        if match := _NOTED_INPUT.match(line):
            lines_by_number.setdefault(6, []).append(user_message(int(match[1]), match[2]))
        elif not line.startswith("# ") and not (line.startswith("_") and line.endswith("_")):
            lines_by_number.setdefault(current, []).append(line)
    return {number: "\n".join(lines).strip("\n") for number, lines in lines_by_number.items()}


def _kept_by_code(text: str) -> tuple[list[tuple[int, str]], list[str]]:
    """The user messages that code appended to a summary with their numbers, oldest first, and its other lines."""
    rows: list[str] = []
    remaining: list[str] = []
    fence = ""
    for line in text.split("\n"):
        opened = _OPENS_TEXT.match(line)
        if fence:
            rows[-1] += f"\n{line}"
            fence = "" if line.strip() == fence else fence
        elif opened and rows and not remaining:
            rows[-1] += f"\n{line}"
            fence = opened[1]
        elif line.startswith(KEPT_INPUT) and not remaining:
            rows.append(line.removeprefix(KEPT_INPUT))
        elif line.strip():
            remaining.append(line)
    rows.sort(key=lambda row: int(re.match(r"\d*", row)[0] or 0))  # type: ignore[index]
    messages = [message for row in rows for message in read_numbered_messages(row)]
    return messages, remaining


_OPENS_TEXT = pattern(r"^(`{3,})text\s*$")
_RUN = pattern(r"`{3,}|~{3,}")
_ITEM = pattern(
    r"^(\d{1,6})\. ?(?:\((?:(?:asked|proposed): “[^”\n]*”|(?:“[^”\n]{1,60}” )?replaced by (?:message \d{1,6}|a later message)(?:: “[^”\n]*”)?|refusing a tool call|\d{1,6} times)\) ?){0,3}(.*)$"
)


def quoted(text: str, info: str = "text") -> str:
    """The text, unchanged, in a fence that nothing inside it can close."""
    fenced = "```" in text or "~~~" in text
    longest = max((len(run) for run in _RUN.findall(text)), default=2) if fenced else 2
    fence = "`" * max(3, longest + 1)
    return f"{fence}{info}\n{text}\n{fence}"


def holds_message(summary: str, text: str) -> bool:
    """Whether a summary holds a user message whole, in a row as `user_message` writes it."""
    if "\n" in text or text != text.strip():
        return quoted(text) in summary
    rows = (line for line in summary.split("\n") if line.endswith(text))
    return any(row.removeprefix(KEPT_INPUT)[:1].isdigit() for row in rows)


def user_message(number: int, text: str, about: str = "") -> str:
    """One row of section 6; several lines are fenced, so that they stay verbatim.

    `about`: the question that the words answer, as `(asked: “…”)`, or what was proposed, as `(proposed: “…”)`; empty if none.
    """
    lead = f"{number}. {about} " if about else f"{number}. "
    # A bare line would lose leading or trailing white space.
    return lead + (text if "\n" not in text and text == text.strip() else "\n" + quoted(text))


def read_user_messages(section: str) -> list[str]:
    """The texts of a section 6 that `user_message` wrote; `[]` if it has another form."""
    return [text for _, text in read_numbered_messages(section)]


# What stands above the user's newest message after a summary that has no room for it.
NEWEST = "The user's newest message, verbatim:"
_NEWEST = pattern(rf"^{re.escape(NEWEST)}\n(`{{3,}})text\n(.*?)\n\1$", re.DOTALL | re.MULTILINE)
_SAME = 40  # characters by which a message that was cut is known again at its beginning or its end


def with_newest(summary: str, listed: Sequence[tuple[int, str]]) -> list[tuple[int, str]]:
    """The user's messages that a summary lists, the newest whole where it stands whole after the end mark."""
    match = _NEWEST.search(summary.rpartition(f"\n{CLOSING}")[2])
    if match is None:
        return list(listed)
    newest, last = match[2], listed[-1] if listed else (0, "")
    if last[1] == newest:
        return list(listed)
    ends = (newest[:_SAME], newest[-_SAME:])
    if last[1].startswith(ends[0]) or last[1].endswith(ends[1]):
        return [*listed[:-1], (last[0], newest)]
    return [*listed, (last[0] + 1, newest)]


def read_numbered_messages(section: str) -> list[tuple[int, str]]:
    """As `read_user_messages`, each with its number."""
    rows: list[tuple[int, str]] = []
    block: list[str] = []
    fence = ""
    for line in section.split("\n"):
        if fence:
            if line.strip() == fence:
                rows[-1], fence = (rows[-1][0], "\n".join(block)), ""
            else:
                block.append(line)
            continue
        item = _ITEM.match(line)
        opened = _OPENS_TEXT.match(line)
        if item:
            rows.append((int(item[1]), item[2]))
        elif opened and rows and not rows[-1][1]:
            fence, block = opened[1], []
        elif line.strip() and not ((line.startswith("(") and not rows) or _OUTCOME.match(line)):
            return []
    return rows


LEFT_OUT = "characters left out …]"
"""How a mark ends that stands in place of a part of a text."""
OUTCOME = "   → "
"""How a line under a message of section 6 begins that says what came of it: no words of the user."""
_OUTCOME = pattern(rf"{OUTCOME}(?:Reported|Done|Committed|Decided)\b")


def with_outcomes(section: str, outcomes: Mapping[int, Sequence[str]]) -> str:
    """A section 6 that `user_message` wrote, with lines that begin with `OUTCOME` under messages, by their numbers."""
    rows: list[str] = []
    under: Sequence[str] = ()
    for line, fenced in fenced_lines(section):
        if item := None if fenced else _ITEM.match(line):
            rows += under
            under = outcomes.get(int(item[1]), ())
        rows.append(line)
    return "\n".join([*rows, *under])


class MessageOutcome(NamedTuple):
    """A line that says what came of a message, and the message."""

    number: int
    asked: str
    words: str


def outcomes_in(section: str) -> tuple[list[MessageOutcome], str]:
    """The lines that `with_outcomes` put there, without `OUTCOME`, and the section without them."""
    outcomes: list[MessageOutcome] = []
    rows: list[str] = []
    begin = -1  # of the rows of the message above
    for line, fenced in fenced_lines(section):
        if not fenced and _ITEM.match(line):
            begin = len(rows)
        if begin >= 0 and not fenced and _OUTCOME.match(line):
            above = read_numbered_messages("\n".join(rows[begin:]))
            outcomes += [
                MessageOutcome(*message, line.removeprefix(OUTCOME)) for message in above[-1:]
            ]
        else:
            rows.append(line)
    return outcomes, "\n".join(rows)


_NOT_LISTED = pattern(r"\((\d{1,9}) (?:messages? )?left out")


def number_listed(section: str) -> int:
    """The number of the last message that a section 6 lists or says to have left out."""
    match = _NOT_LISTED.match(section)
    return int(match[1]) + len(read_numbered_messages(section)) if match else 0


_RULE = pattern(
    r"(?m)^- (Lasting instruction|Rule) \(user\): “([^\n]{1,500})”"
    r"(?: \(replaced by a later message: “([^\n]{1,200})”\))?$"
)


def read_rules(summary: str) -> list[tuple[str, bool, str]]:
    """The user's rules that lines of a summary hold: the text, whether it applies from now on, and what replaced a value in it."""
    lines = dict.fromkeys(_RULE.findall(summary))
    return [(text, kind.startswith("Lasting"), by) for kind, text, by in lines]


# The provider's own compaction items: opaque or signed replacements for everything said before them.
#
# Anthropic generates a `compaction` block, OpenAI an encrypted item, which the internal view holds as a `foreign` block.
# Only the provider can write them, so they are carried unchanged, at the front; the newest one replaces the older ones too.


# What an item is to a ledger, among others.
_KINDS = (int(BlockKind.COMPACTION), int(BlockKind.UNKNOWN))
# The types that OpenAI and the Codex CLI have used.
ITEM_TYPES = ("compaction", "compaction_summary", "context_compaction")


class CompactionItem(NamedTuple):
    """A provider's item: the block, and which message holds it."""

    at: int
    block: BlockView


def family_of(block: object) -> str:
    """The provider of a compaction item: `anthropic`, `openai_responses`; empty if the block is not one."""
    if type(block) is not dict and not isinstance(block, Mapping):  # dicts are recognised at once
        return ""
    kind = block.get("type")
    if kind != "compaction" and kind != "foreign":
        return ""
    if kind == "compaction":
        # Null content and nothing sealed: a failed compaction, which replaces nothing.
        states = block.get("content"), block.get("encrypted_content"), block.get("signature")
        return "anthropic" if any(states) else ""
    return "openai_responses" if _foreign_item(block).get("type") in ITEM_TYPES else ""


def _foreign_item(block: BlockView) -> Mapping[str, Any]:
    carried = block.get("foreign") if block.get("type") == "foreign" else None
    data = carried.get("openai_responses") if isinstance(carried, Mapping) else None
    item = data.get("item") if isinstance(data, Mapping) else None
    return item if isinstance(item, Mapping) else {}


def _compaction_items_blocks(item: Item) -> Sequence[Any]:
    content = (message_of(item) or {}).get("content")
    return content if isinstance(content, list) else ()


def newest_item(
    messages: Sequence[Item], ledger: core.Ledger | None = None
) -> CompactionItem | None:
    """The newest provider's item of a conversation; `None`: there is none. `ledger`: of exactly these messages; `None`: each is looked into."""
    places = range(len(messages)) if ledger is None else ledger.with_kinds(*_KINDS)
    for at in reversed(places):
        item = messages[at]
        # A view is asked several times by a level that acts: bare messages are looked into here.
        bare = type(item) is dict and "role" in item
        content = item.get("content") if bare else _compaction_items_blocks(item)
        for block in reversed(content) if isinstance(content, list) else ():
            kind = block.get("type") if type(block) is dict else "compaction"
            if (kind == "compaction" or kind == "foreign") and family_of(block):
                return CompactionItem(at, block)
    return None


def holds(item: Item, block: BlockView) -> bool:
    """Whether a message or entry holds this item, or an equal one."""
    return any(
        inner is block or inner == block
        for inner in _compaction_items_blocks(item)
        if family_of(inner)
    )


def alone(block: BlockView) -> dict[str, Any]:
    """An assistant message with only the item."""
    return {"role": "assistant", "content": [block]}


def without(item: Item) -> Item | None:
    """The message or entry less such items; the same object if it has none, `None` if nothing else is in it."""
    blocks = _compaction_items_blocks(item)
    others = [inner for inner in blocks if not family_of(inner)]
    if len(others) == len(blocks):
        return item
    if not others:
        return None
    message = message_of(item) or {}
    changed = {**message, "content": others}
    return changed if message is item else {**item, "message": changed}


def readable(block: BlockView) -> str:
    """The readable text of an item; empty if all of it is sealed."""
    if block.get("type") == "compaction":
        return "\n".join(_texts(block.get("content")))
    item = _foreign_item(block)
    parts = (item.get(key) for key in ("content", "summary", "message"))
    return "\n".join(text for part in parts for text in _texts(part))


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield from [value] if value.strip() else []
    elif isinstance(value, list):
        for part in value:
            yield from _texts(part.get("text") if isinstance(part, Mapping) else part)

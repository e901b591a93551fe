"""Assembles the new context and its report: order, entries or messages, sizes, warnings."""

from __future__ import annotations

import posixpath
import re
import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import accumulate
from operator import attrgetter
from typing import Any, NamedTuple

from ullage._engine import core
from ullage._start import pattern
from ullage.compaction.cut import (
    LEAST_SUMMARY_TOKENS,
    SMALL_ROOM,
    State,
    choose_cut,
    frame_tokens,
    least_of,
    recut,
    room_after,
    scaled_keep,
    shorter_results,
    with_item,
)
from ullage.compaction.effects_runner import Attachment
from ullage.compaction.job import CompactionReport, CompactionResult, Outcome
from ullage.compaction.summary_call import Accepted, least_tokens
from ullage.exceptions import ContextTooLarge
from ullage.facts import is_user_input
from ullage.facts.model import Facts, UserInput
from ullage.facts.rules import rules_of
from ullage.facts.sections import (
    BRIEF_OPENING,
    CLOSING,
    FILES_CHANGED,
    FILES_READ,
    KEPT_HEADING,
    KEPT_INPUT,
    NEWEST,
    OPENING,
    PINS_HEADING,
    holds_message,
    newest_item,
    parse_summary,
    quoted,
    read_rules,
    read_user_messages,
    user_message,
)
from ullage.facts.words import (
    CARRIED_MEDIA,
    is_host_only,
    is_standing,
    summary_text as text_of_summary,
    text_of,
)
from ullage.facts.work import read_tasks, read_work
from ullage.legality.thinking import turn_end, unbound
from ullage.levels.pins import missing_pins, write_pins
from ullage.messages import BlockView, Item, StoredEntry, message_of, role_of, uuid_of
from ullage.providers.anthropic import is_manual, is_torn
from ullage.summarizers.budgeted_text import cost, one_line, shorten
from ullage.summarizers.extractive import (
    ExtractiveSummarizer,
    checks,
    open_failures,
    render as extractive_render,
    repository,
    running,
)
from ullage.summarizers.lines import (
    DELETED,
    changed_paths,
    files_line,
    holds_rule,
    rule_line,
    shown,
    task_line,
    words_by_line,
    work_line,
)
from ullage.transcript import records
from ullage.transcript.render import render
from ullage.transcript.write import KeptEntries, boundary_links, boundary_metadata

# Boundary, summary and attachments as entries of a transcript, made before anything is written.
#
# Ids and times come from the input, so that the same conversation yields the same entries in every
# process; a log that writes them keeps the ids.


_NAMESPACE = uuid.UUID("5b0e5f5c-9f0e-5d0a-8f7a-6f0f6c1b7a11")
_COPIED = ("userType", "cwd", "sessionId", "version", "gitBranch", "slug", "entrypoint")


def stable_uuid(*parts: str) -> str:
    """The same id for the same parts, in every process."""
    return str(uuid.uuid5(_NAMESPACE, "\x1f".join(parts)))


def _boundary(
    state: State, shared: StoredEntry, anchor: str, follow: Sequence[Item], stays: KeptEntries
) -> StoredEntry:
    """The boundary: what was done, and what belongs to it. `anchor`: uuid of the summary; `follow`: the other new entries, in order."""
    metadata = boundary_metadata(
        trigger=state.job.trigger,
        pre_tokens=state.size,
        messages_summarized=state.cut.stop - state.cut.start,
        discovered_tools=state.facts.whole.found_tools,
    )
    last = _last_uuid(state)
    mark = stable_uuid("boundary", last, anchor)
    entry = records.compact_boundary(metadata)
    uuids = [anchor, *(str(item["uuid"]) for item in follow)]
    entry["compactMetadata"].update(boundary_links(mark, anchor, uuids, stays))
    head = {"parentUuid": None, "logicalParentUuid": last or None, "uuid": mark}
    return {**shared, **head, **entry}


def _last_uuid(state: State) -> str:
    """Of the last message before the boundary; empty: it has none."""
    last = state.source.ids[-1]
    return last if isinstance(last, str) else ""


def _shared(context: Sequence[Item]) -> StoredEntry:
    """What the entries of the context share (session, folder, branch, newest time), which is carried over."""
    shared: StoredEntry = {"isSidechain": False}
    for item in reversed(context):
        if item.get("sessionId") and isinstance(item.get("message"), Mapping):
            shared.update({key: item[key] for key in _COPIED if item.get(key) is not None})
            break
    stamps = [item["timestamp"] for item in context if isinstance(item.get("timestamp"), str)]
    if stamps:
        shared["timestamp"] = newest = max(stamps)
        # One millisecond later, so that usage of what is kept is known to be of the context before.
        with suppress(ValueError, OverflowError):
            moment = datetime.fromisoformat(newest) + timedelta(milliseconds=1)
            later = moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
            shared["timestamp"] = later
    return shared


# Images and documents of the newest user message, where the message itself becomes part of a summary.


# Of all media that are carried: some ten screenshots. A longer document is named, not carried.
MAX_TOKENS = 20_000
MOST = 20  # above 20 images in one request Anthropic takes smaller ones only
# Not a set: a type that is not a string may have no hash.
_KINDS = ("image", "image_url", "input_image", "document", "file", "input_file")


def with_media(state: State, text: str) -> str | list[dict[str, Any]]:
    """The content of the summary message: its text, and the media of the newest user input, unless that input is kept itself.

    Media of an earlier summary message are carried on while there is no newer user input.
    """
    items, (first, last) = state.source.context, state.kept_range()
    place = state.source.newest_input
    if place is None:  # else the summary message that carries its media
        newest = reversed(state.source.spoken)
        place = next((at for at, one in newest if text_of_summary(one) and _media(one)), None)
    if place is None or first <= place < last:
        return text
    media = _media(items[place])
    room, carried = MAX_TOKENS, list[dict[str, Any]]()
    for block in media[:MOST]:
        size = int(core.Ledger(state.job.weights, [{"role": "user", "content": [block]}]).tokens())
        if size <= room:
            # The mark was for the message that held the block: a request may have four at most.
            carried.append({key: value for key, value in block.items() if key != "cache_control"})
            room -= size
    parts = [{"type": "text", "text": text}]
    if carried:
        heading = f"{CARRIED_MEDIA}, as they were sent:"
        parts += [{"type": "text", "text": heading}, *carried]
    if left_out := len(media) - len(carried):
        holder = uuid_of(items[place]) or f"message {state.source.ids[place]}"
        file = f" in {state.job.transcript_path}" if state.job.transcript_path else ""
        note = f"{CARRIED_MEDIA} that are too large to repeat: {left_out}; ask for them, or look up {holder}{file}."
        parts.append({"type": "text", "text": note})
    return parts if len(parts) > 1 else text


def _media(item: Any) -> list[BlockView]:
    content = (message_of(item) or {}).get("content")
    blocks: Sequence[Any] = content if isinstance(content, list) else ()
    return [b for b in blocks if isinstance(b, Mapping) and b.get("type") in _KINDS]


# Appends what a summary lost and code knows: user messages, files, commands, names. No model, no guessing.


LONGEST_INPUT = 600  # tokens of one user message in the repair; longer ones lose their middle
MOST_NAMES = 40  # graders found no use for longer lists (benches/TABLES.md, eleventh reading)
MOST_OPEN = 40
FILES_TOKENS = 400  # of the files that were changed, and of those that were read and are not named

# The most important first. Failures are those that were not seen to be resolved.
_REPAIRED = (
    "user_messages", "decisions", "state", "changed_files", "rules", "tasks", "closed_tasks",
    "still_open", "failures", "commits", "urls", "read_files", "names",
)  # fmt: skip
_FILES = {"changed_files": FILES_CHANGED, "read_files": FILES_READ}
_SAYS_DONE = pattern(
    r"\[x\]|✅|✓|✔|\b(?:done|complete\w*|finished|cancel\w*|closed|fixed|withdrawn)\b", re.I
)


class SummaryRepair(NamedTuple):
    """Text to append (empty if nothing is missing) and how many facts of each kind are in it."""

    text: str
    appended: Mapping[str, int]
    left_out: int  # facts that were missing and did not fit


def repair(
    facts: Facts, summary: str, *, tokens: int, user_tokens: int | None = None, newest: str = ""
) -> SummaryRepair:
    """What the summary lost of the facts, within a cap; over it, the least important kinds are left out.

    Args:
        facts: Of what was summarised.
        summary: As the summarizer wrote it.
        tokens: The cap, in UTF-8 bytes / 4; 0: nothing is appended.
        user_tokens: Of that, most for the user's messages; `None`: no limit but the cap.
        newest: The user's newest message, of which the repair has only a little where it is too long: it stands whole after the
            summary then. Empty: it does not.
    """
    flat = " ".join(summary.split())
    lost = _not_in_text(facts, flat, newest) | _not_in_rows(facts, summary, flat)
    room, user_room = tokens - cost(KEPT_HEADING), tokens if user_tokens is None else user_tokens
    rows: list[str] = []
    appended: dict[str, int] = {}
    left_out = 0
    for kind in _REPAIRED:
        if kind == "rules":
            rules = _lost_rules(facts, "\n".join([summary, KEPT_HEADING, *rows]), by_code=False)
            lost[kind] = [rule_line(rule) for rule in rules]
        if kind in _FILES and lost[kind]:  # as many as there is room for, on a line or two
            line, named = files_line(_FILES[kind], lost[kind], min(FILES_TOKENS, room))
            left_out += len(lost[kind]) - named
            if line:
                rows.append(line)
                room -= cost(line)
                appended[kind] = named
            continue
        for row in lost[kind]:
            price, words = cost(row), kind == "user_messages"
            if price > (min(room, user_room) if words else room):
                left_out += 1
                continue
            rows.append(row)
            room -= price
            user_room -= price * words
            appended[kind] = appended.get(kind, 0) + 1
        if kind == "user_messages":  # the first kind: chosen from the newest, read in their order
            rows.reverse()
    return SummaryRepair("\n".join([KEPT_HEADING, *rows]) if rows else "", appended, left_out)


def with_rules(
    facts: Facts,
    summary: str,
    fixed: SummaryRepair,
    tokens: int | None = None,
    *,
    by_code: bool = True,
    newest: str = "",
) -> SummaryRepair:
    """The repair with every rule of the user that neither the summary nor the repair holds: none gives way to a target.

    `tokens`: most of these rules, in UTF-8 bytes / 4, the newest first, `None`: all. `by_code`: code wrote the summary, and reads all of it
    the next time. `newest`: the user's message that stands after it; empty: none does.
    """
    lost = _lost_rules(facts, f"{summary}\n{fixed.text}", by_code=by_code, newest=newest)
    rows = [rule_line(rule) for rule in lost]
    if tokens is not None:
        sums = accumulate(map(cost, reversed(rows)))
        rows = rows[len(rows) - sum(total <= tokens for total in sums) :]
    if not rows:
        return fixed
    counts = {**fixed.appended, "rules": fixed.appended.get("rules", 0) + len(rows)}
    # What the repair had no room for.
    left_out = max(fixed.left_out - len(rows), 0)
    return SummaryRepair("\n".join([fixed.text or KEPT_HEADING, *rows]), counts, left_out)


def _lost_rules(facts: Facts, summary: str, *, by_code: bool, newest: str = "") -> list[UserInput]:
    """Rules that are lost: those that the summary does not hold, and lasting ones that a model wrote where the next compaction does not read them."""
    if by_code and all(" ".join(rule.text.split()) in summary for rule in facts.standing):
        return []
    flat = in_rows = " ".join(f"{summary} {newest}".split())
    if not by_code:
        previous = parse_summary(summary)
        messages = [*read_user_messages(previous.section(6)), *previous.kept_inputs, newest]
        rules = (text for text, _, _ in read_rules(summary))
        in_rows = " ".join(" ".join([*messages, *rules]).split())
    return [
        rule for rule in facts.standing if not holds_rule(in_rows if rule.lasting else flat, rule)
    ]


def _not_in_text(facts: Facts, flat: str, newest: str) -> dict[str, list[str]]:
    """By kind: rows for what the text of a summary, on one line, does not hold, the newest first where room is short; of files the paths, the newest last."""
    limits = [LONGEST_INPUT] * len(facts.inputs)
    if limits and facts.inputs[-1].text == newest and cost(newest) > LONGEST_INPUT:
        limits[-1] = SAID_AGAIN
    inputs = [
        KEPT_INPUT + user_message(number, shorten(entry.text, limit))
        for number, (entry, limit) in enumerate(zip(facts.inputs, limits, strict=True), 1)
        if " ".join(entry.text.split()) not in flat
    ]
    decisions = [
        f"- Decided: “{one_line(d.question, 200)}” → “{one_line(d.answer, 300)}”"
        for d in facts.decisions
        if one_line(d.answer, 300) not in flat
    ]
    changed_here = {file.path for file in facts.files if file.changed}
    changed = [
        path
        for path in changed_paths(facts)
        # A model's own summary may say in such words what else was changed.
        if (bare := path.removesuffix(DELETED)) in changed_here or ("/" in bare and " " not in bare)
        if bare not in flat
    ]
    read = [
        file.path
        for file in sorted(facts.files, key=attrgetter("last"))
        if not file.changed and posixpath.basename(file.path) not in flat
    ]
    failures = [line for failure, line in open_failures(facts).items() if failure.line not in flat]
    commits = [commit for commit in facts.commits if commit.digest not in flat]
    names = [name.text for name in facts.names[:MOST_NAMES] if shown(name) not in flat]
    return {
        "user_messages": inputs[::-1],
        "decisions": decisions,
        "changed_files": changed,
        "failures": failures[::-1],
        "commits": [f"- Committed {c.digest} on {c.branch}: {c.subject}" for c in commits[::-1]],
        "urls": [f"- {url}" for url in facts.urls[::-1] if url not in flat],
        "read_files": read,
        "names": [f"- Names: {', '.join(names[at : at + 20])}" for at in range(0, len(names), 20)],
    }


def _not_in_rows(facts: Facts, summary: str, flat: str) -> dict[str, list[str]]:
    """By kind: rows for work that no row of a summary says, since only that is still known after the next compaction.

    Of what is closed: where the summary names it without saying so, or the user's words do.
    """
    recorded = {(task.subject, task.open) for task in read_tasks(summary, 0)}
    recorded_work = {work.text for work in read_work(summary, 0)}
    titled = [(task, one_line(task.subject, 300)) for task in facts.tasks if task.subject]
    words = words_by_line(facts)
    closed = [task for task, title in titled if not task.open and _as_open(flat, title)]
    closed_work = [
        work
        for work in facts.closed_work
        if work.text not in recorded_work and (work.text in words or _as_open(flat, work.text))
    ]
    still_open = [work for work in facts.still_open if work.text not in recorded_work]
    # Models seldom say which commit is the newest, and which checks ran before the last edits.
    states = (state(facts.state) for state in (running, checks, repository))
    return {
        "state": [f"- {row}" for row in states if row],
        "tasks": [
            task_line(task) for task, title in titled if task.open and (title, True) not in recorded
        ],
        "closed_tasks": [*map(task_line, closed), *map(work_line, closed_work)],
        "still_open": [work_line(work) for work in still_open[-MOST_OPEN:]],
    }


def _as_open(flat: str, text: str) -> bool:
    for match in re.finditer(re.escape(text), flat):
        # A box stands right before it, a verdict within a few words after it.
        before, after = flat[max(match.start() - 12, 0) : match.start()], flat[match.end() :][:40]
        if not _SAYS_DONE.search(f"{before}|{after}"):
            return True
    return False


# Tokens of the newest message up to which it is repeated after a summary that has room, where the model looks for it.
SAID_AGAIN = 100
_NOT_THE_USER = "This message was generated automatically. It is not user input and does not grant or confirm anything."
# Of the room after a compaction without a target: no more of it is for rules that the summary had no room for.
RULES_PART = 3


def summary_message(state: State, summary: str) -> str:
    """The text of the message that replaces what was compacted: the nine sections, and what the model must know about them."""
    room = state.summary_room
    small = room is not None and room - state.measure(state.newest_input) < SMALL_ROOM
    opening = BRIEF_OPENING if small else OPENING
    parts = [f"{opening}\n\n{summary.strip()}\n\n{CLOSING}"]
    if state.pins:
        parts.append(f"## {PINS_HEADING}\n{write_pins(state.pins)}")
    if small:
        return _in_short(state, "\n\n".join(parts), summary)
    path, (first, last) = state.job.transcript_path, state.kept_range()
    lines = []
    if path:
        lines.append(
            f"The full transcript of the earlier part is at {path}: look there for details such as exact code or output."
        )
    if last > first:
        where = "before this summary" if state.cut.start > 0 else "after this message"
        counted = "1 message was" if last == first + 1 else f"{last - first} messages were"
        lines.append(f"{counted} kept verbatim {where}.")
    parts += ["\n".join(lines), _newest(state, summary), f"{_NOT_THE_USER} {_instruction(state)}"]
    return "\n\n".join(part for part in parts if part)


def _in_short(state: State, text: str, summary: str) -> str:
    """The same where there is hardly any room."""
    path, newest, room = state.job.transcript_path, state.newest_input, state.summary_room or 0
    lines = []
    if newest and not holds_message(summary, newest):
        lines.append(_newest(state, summary))
    waits = state.facts.whole.open_question or state.facts.whole.interrupted
    then = "Wait for the user." if waits else "Go on." if state.job.trigger == "auto" else ""
    lines.append(f"Not user input; grants nothing. {then}".strip())
    # A path may be as long as a small summary: at most a tenth of the room, and never the reason that a target is missed.
    if path and cost(path) * 10 < room - state.measure(newest):
        with_path = "\n".join((text, f"Full transcript: {path}", *lines))
        if state.measure(with_path) <= room:
            return with_path
    return "\n".join((text, *lines))


def _newest(state: State, summary: str) -> str:
    """The newest message, once whole: here, or in the summary, where the next compaction reads it."""
    newest = state.newest_input
    if not newest:
        return ""
    if cost(newest) > SAID_AGAIN and holds_message(summary, newest):
        return "The user's newest message is the last one in the list of user messages above."
    return f"{NEWEST}\n{quoted(newest)}"


def _instruction(state: State) -> str:
    """What the model is to do now: never more than the user asked for (an open question stays open)."""
    context, (first, last) = state.source.context, state.kept_range()
    if state.facts.whole.open_question:
        return (
            "After the user's newest message you asked a question that has not been answered:\n"
            f"{quoted(state.facts.whole.open_question)}\n"
            "Do not answer it yourself and do not act as if it were answered. Wait for the user."
        )
    if state.facts.whole.interrupted:
        return "The user stopped you and has said nothing since. Wait for the user."
    if context and is_user_input(context[-1]):
        return "Answer the user's newest message; do not comment on the summary."
    if (
        last > first
        and role_of(context[last - 1]) in ("user", "tool")
        and not is_user_input(context[last - 1])
    ):
        return "Continue with the tool results as if nothing had happened; do not comment on the summary."
    if state.job.trigger != "auto":
        return "The user requested this compaction. Continue when the user says what to do next."
    return (
        "Continue the work from where it left off, without commenting on the summary, without repeating what is "
        "done, and without asking whether to continue."
    )


def summary_text(state: State, accepted: Accepted) -> tuple[str, SummaryRepair]:
    """The summary, what code restores, and the text around it."""
    cap = state.job.policy.summary.facts_max_tokens
    cap = 0 if accepted.by_code or accepted.carried else min(cap, state.removed_tokens // 3)
    if accepted.facts_tokens is not None:
        cap = min(cap, accepted.facts_tokens)
    room = state.summary_room
    if room is not None:
        cap = min(cap, max(room - frame_tokens(room) - cost(accepted.text), 0))
    words = state.job.policy.summary.user_messages_max_tokens
    fixed = SummaryRepair("", {}, 0)
    if cap:
        fixed = repair(
            state.facts.removed,
            accepted.text,
            tokens=cap,
            user_tokens=words,
            newest=state.newest_input,
        )
    # For a target no rule gives way, and the newest message stands whole in any case.
    most, newest = None, state.newest_input
    if room is None:
        most, newest = room_after(state.job, state.overhead) // RULES_PART, ""
    if room is not None or not accepted.carried:
        facts, by_code = state.facts.removed, accepted.by_code
        fixed = with_rules(facts, accepted.text, fixed, most, by_code=by_code, newest=newest)
    body = f"{accepted.text}\n\n{fixed.text}" if fixed.text else accepted.text
    text = summary_message(state, body)
    return (state.job.redact(text) if state.job.redact else text), fixed


def answer_room(state: State) -> int:
    """Tokens that a model's answer may have for a target: what kept messages and the text around a summary leave, with all rules and pins."""
    around, _ = summary_text(state, Accepted("", "", 0, by_code=False, facts_tokens=0))
    return (state.summary_room or 0) - state.measure(around) - ROUNDING_TOKENS


def weighed(
    state: State,
    text: str,
    attached: Sequence[Attachment],
    hook_context: Sequence[tuple[str, str]],
    accepted: Accepted,
    fixed: SummaryRepair,
    warnings: Sequence[str],
) -> CompactionResult:
    """The new context with its report.

    `hook_context`: name and text of each SessionStart hook that had something to say; `fixed`: what code added to the accepted summary.
    """
    result = _assemble(state, text, attached, hook_context, accepted.carried)
    # A redaction can take a pin out.
    texts = [text_of(message) for message in result.summary_messages]
    lost = [f"pin_lost:{pin.name}" for pin in missing_pins(state.pins, texts)]
    # What later requests need for the provider's compaction item.
    beta = getattr(state.job.summarizer, "beta", "")
    header = [f"needs_beta:{beta}"] if beta and accepted.carried else []
    return _reported(state, result, accepted, fixed, [*warnings, *lost, *header])


def _assemble(
    state: State,
    text: str,
    attached: Sequence[Attachment],
    hook_context: Sequence[tuple[str, str]],
    carried: tuple[Item, ...],
) -> CompactionResult:
    """The new context, in the form of the input.

    `carried`: messages that the provider made just now, in front of the summary; for bare messages only.

    Raises:
        CompactionError: `provider_compaction`: an older item of the provider's cannot be kept in its place.
    """
    context = [
        {
            "type": "hook_additional_context",
            "hookName": name,
            "hookEvent": "SessionStart",
            "content": [hook_text],
        }
        for name, hook_text in hook_context
    ]
    front, kept_items = with_item(state, _kept_after(state), carried)
    # The host's standing texts stand there too; those in the system's role have another place.
    texts = [item for _, item in state.facts.standing]
    system = tuple(item for item in texts if role_of(item) == "system")
    front = (*front, *(item for item in texts if role_of(item) != "system"))
    content, shared = with_media(state, text), _shared(state.source.context)
    if state.source.entries:
        front, system = (*front, *system), ()
        new = _as_entries(state, shared, content, front, (*attached, *context))
        summary: tuple[Item, ...] = tuple(new[: len(front) + 1])
        files: tuple[Item, ...] = tuple(new[len(front) + 1 :])
        files, hooked = files[: len(attached)], files[len(attached) :]
        names = [state.source.ids[at] for at in range(*state.kept_range())]
        uuids = tuple(name for name in names if isinstance(name, str))
        stays = KeptEntries(uuids, before_summary=state.cut.start > 0)
        follow = [*summary[:-1], *files, *hooked]
        boundary = _boundary(state, shared, summary[-1]["uuid"], follow, stays)
    else:
        summary = (*front, {"role": "user", "content": content})
        files, hooked = _as_messages(attached), _as_messages(context)
        boundary = _boundary(state, shared, stable_uuid("summary", text), (), KeptEntries())
    ordered = _ordered(state, summary, kept_items, files, hooked)
    # Messages of the system's role where providers take them: after the summary and the user messages that follow it (A12).
    first = next(at for at, item in enumerate(ordered) if item is summary[-1])
    later = range(first, len(ordered))
    place = next((at for at in later if role_of(ordered[at]) == "assistant"), len(ordered))
    head = (boundary,) if state.source.entries else state.source.head
    return CompactionResult(
        outcome=Outcome.COMPACTED,
        messages=(*head, *ordered[:place], *system, *ordered[place:]),
        boundary=boundary,
        summary_messages=summary,
        kept=kept_items,
        attachments=files,
        hook_results=hooked,
        head=state.source.head,
    )


def _kept_after(state: State) -> tuple[Item, ...]:
    """The kept messages as they may follow a summary; a kept beginning has nothing new before it.

    A model whose thinking is bound to what came before it gets it back without. An open turn that lost its first thinking, which may
    not be missing, is ended by two lines (A14); not where results are still to come, nor in a log: the request is repaired instead.
    """
    items, bare = state.kept_items(), not state.source.entries
    if state.cut.start > 0:
        return items
    if state.job.bound_thinking:
        items = tuple(unbound(items, close=bare))
    if not items or not bare or not is_manual(state.job.thinking):
        return items
    ledger = core.Ledger(None, items)
    return items if ledger.open_calls() or not is_torn(ledger) else (*items, *turn_end())


def _as_messages(attachments: Sequence[Attachment]) -> tuple[Item, ...]:
    contents = (render(attachment) for attachment in attachments)
    return tuple({"role": "user", "content": content} for content in contents if content)


def _as_entries(
    state: State,
    shared: StoredEntry,
    content: str | list[Any],
    front: Sequence[Item],
    attachments: Sequence[Attachment],
) -> list[StoredEntry]:
    """The entries after the boundary, each the child of the one before.

    `content`: of the summary. `front`: ahead of it: an item that only its provider can write, and standing texts of the host.
    """
    last, entries = _last_uuid(state), list[StoredEntry]()
    name = stable_uuid("summary", last, content if isinstance(content, str) else content[0]["text"])
    parent = stable_uuid("boundary", last, name)

    def add(own: str, body: Mapping[str, Any]) -> None:
        nonlocal parent
        entries.append({**shared, "parentUuid": parent, "uuid": own, **body})
        parent = own

    for at, item in enumerate(front):
        message = dict(message_of(item) or {})
        kind = "assistant" if message.get("role") == "assistant" else "user"
        own = stable_uuid("carried", name, *([str(at)] if at else []))
        add(own, {"type": kind, "message": message})
    add(name, records.compact_summary(content))
    for at, attachment in enumerate(attachments):
        own = stable_uuid("attachment", parent, str(at))
        add(own, {"type": "attachment", "attachment": dict(attachment)})
    return entries


def _ordered(
    state: State,
    summary: tuple[Item, ...],
    kept_items: tuple[Item, ...],
    files: tuple[Item, ...],
    hooked: tuple[Item, ...],
) -> tuple[Item, ...]:
    """Summary, kept messages, attachments, hook results (POST-1).

    A kept beginning stands before its summary. Where the kept end has calls whose results are still
    to come, nothing may stand between: attachments go in front of it.
    """
    if state.cut.start > 0:
        return (*kept_items, *summary, *files, *hooked)
    if core.Ledger(None, kept_items).open_calls():
        return (*summary, *files, *hooked, *kept_items)
    return (*summary, *kept_items, *files, *hooked)


# ---- the account -----------------------------------------------------------------------------


def _reported(
    state: State,
    result: CompactionResult,
    accepted: Accepted,
    fixed: SummaryRepair,
    warnings: list[str],
) -> CompactionResult:
    """The result with its account: ids, sizes before and after, what was appended, warnings."""
    weights, (first, last) = state.job.weights, state.kept_range()
    context, ids = state.source.context, state.source.ids
    # The new context as the model will see it: attachments rendered, no boundary, no head.
    new: Sequence[Item] = result.messages[len(result.head) :]
    if state.source.entries:
        added = [item["attachment"] for item in (*result.attachments, *result.hook_results)]
        new = [*result.summary_messages, *context[first:last], *_as_messages(added)]
    estimated = int(core.Ledger(weights, new).tokens())
    after, messages = state.counted(estimated + state.overhead), state.counted(estimated)
    written = [item for item in result.summary_messages if not is_standing(item)]
    summary = state.counted(int(core.Ledger(weights, written).tokens()))
    if fixed.left_out:
        warnings.append(f"facts_left_out:{fixed.left_out}")
    # In a log what stands is a copy, ahead of the summary.
    whole = {at for at, item in state.facts.standing if item is context[at]} - (
        set(range(len(ids))) if state.source.entries else set()
    )
    report = CompactionReport(
        removed=tuple(ids[at] for at in range(state.cut.start, state.cut.stop) if at not in whole),
        kept=tuple(ids[at] for at in sorted({*whole, *range(first, last)})),
        tokens_before=state.size,
        tokens_after=after,
        overhead_tokens=after - messages,
        summary_tokens=summary,
        summarizer=accepted.summarizer,
        attempts=state.tally.attempts,
        usage=state.tally.usage,
        summarizer_failure=state.tally.failure,
        dropped_messages=accepted.dropped,
        facts_appended=dict(fixed.appended),
        warnings=(*warnings, *_size_warnings(state, after, messages, summary)),
    )
    if result.boundary is not None:
        metadata = {**result.boundary["compactMetadata"], "postTokens": after}
        boundary = {**result.boundary, "compactMetadata": metadata}
        ordered = tuple(boundary if item is result.boundary else item for item in result.messages)
        result = replace(result, boundary=boundary, messages=ordered)
    return replace(result, report=report)


def over_target(state: State, messages: int, *, summary: int = 0) -> list[str]:
    """The excess over the target, and what takes the room and cannot be smaller; empty: it is met, or there is none.

    `messages`: tokens of the new context's messages; `summary`: of those, the summary's.
    """
    target = state.job.target_tokens
    if target is None or messages <= target:
        return []
    host = state.counted(state.facts.standing_tokens)
    kept_tokens = messages - summary - host
    sizes = {"host_text": host, "kept_messages": kept_tokens, "summary": summary}
    whole = ",".join(f"{name}={size}" for name, size in sizes.items() if size > 0)
    return [f"over_target:{messages - target}", f"cannot_shrink:{whole}"]


def _size_warnings(state: State, after: int, messages: int, summary: int) -> list[str]:
    target = state.job.target_tokens
    if target is not None and messages > target:
        warnings = over_target(state, messages, summary=summary)
        if state.source.entries:
            # What cutting results would have freed if their messages were not lines of a transcript.
            first, last = state.kept_range()
            kept_messages = [message_of(item) or {} for item in state.source.context[first:last]]
            _, freed = shorter_results(kept_messages, messages - target, state.measure)
            warnings += [f"results_kept_whole:{freed}"] if freed else []
        return warnings
    limit = state.job.trigger_tokens
    if limit is None:
        return []
    if after >= limit:
        return ["would_trigger_again"]
    low = limit * state.job.policy.auto.max_after_percent // 100
    return ["above_low_mark"] if after > low else []


# What a compaction must leave, and the minimum gain of one on demand: below it nothing is changed, and the notice says what goes further.


LEAST_REMOVED_TOKENS = 400  # below it nine headings cost more than they save
ROUNDING_TOKENS = 4  # parts that are counted one by one can be less than the whole


def check_target(state: State) -> None:
    """Refuse a target that what must stay exceeds, before anything is removed.

    Raises:
        ContextTooLarge: Names the smallest target that can be met, and what takes it.
    """
    parts, target = parts_of_target(state), state.job.target_tokens or 0
    least = sum(parts.values())
    if least > target:
        raise target_too_small(least, target, parts)


def parts_of_target(state: State) -> dict[str, int]:
    """What takes the smallest target that can be met; empty: there is none, or it is met in any case."""
    target, whole = state.job.target_tokens, state.counted(state.tokens)
    if target is None or whole <= target:
        return {}
    # The job with as little kept as can be, and what stays next to its summary.
    if state.job.direction == "full":
        least = recut(state, least_of(state))
    else:
        least = replace(state, shortened=None, freed_tokens=0)
    waiting = int(least.ledger.tokens(*least.kept_range()))
    if not least.source.entries:
        waiting -= shorter_results(least.kept_items(), waiting, least.measure)[1]
    newest = newest_item(least.source.context, least.ledger)
    item = 0
    if newest is not None and newest.at < least.cut.stop:
        item = int(least.ledger.message(newest.at).tokens)
    others = {
        "messages that wait for an answer": waiting,
        "the provider's own compaction": item,
        "standing host text": least.facts.standing_tokens,
    }
    if _fits_by_far(least, state, sum(others.values())):
        return {}
    parts = least_messages(least, others)
    is_longer = sum(parts.values()) > whole
    return {"the messages, which a summary would only lengthen": whole} if is_longer else parts


def target_too_small(least: int, target: int, parts: dict[str, int]) -> ContextTooLarge:
    """The error for a target: it counts messages only."""
    shown = {name: tokens for name, tokens in parts.items() if tokens}
    hint = f"nothing was changed; the smallest target is {least:,} tokens of messages (target_tokens, --target)"
    return ContextTooLarge(least, target, parts=shown, limit="the target of messages is", hint=hint)


def _fits_by_far(least: State, state: State, others: int) -> bool:
    """Whether a target is met in any case, by facts that are needed for the summary itself: to write the shortest one takes as long."""
    if state.job.redact or with_media(least, ""):
        return False
    whole, rules = state.facts.whole, set[str]()
    for facts in (state.facts.removed, whole):
        rules.update(rule.text for entry in facts.inputs for rule in rules_of(entry.text))
        rules.update(rule.text for rule in facts.standing)
    texts = [*rules, whole.open_question, write_pins(state.pins), state.job.transcript_path or ""]
    texts += [entry.text for entry in whole.inputs[-1:]] * 2
    most = LONGEST_LEAST + RULE_FRAME_TOKENS * len(rules) + sum(map(state.measure, texts))
    return others + most <= (state.target or 0)


LONGEST_LEAST = 2_000  # tokens of the shortest summary without what the user's words and pins add, and of its frame
RULE_FRAME_TOKENS = 100  # around a rule in its row, with the sentence that corrects it


def least_messages(least: State, others: Mapping[str, int]) -> dict[str, int]:
    """What must stay of the messages whatever the target, in the provider's tokens: the sum is the smallest that can be met (FULL-17).

    The unfinished end (a message without an answer, open calls), the provider's own item, what hosts put there to stand (`others`), and the
    summary message in its shortest form, which holds the user's newest message, every rule and the pins.
    """
    waiting, _, host = others.values()
    summary = _least_summary(least, waiting + host)
    newest = min(least.measure(least.newest_input), summary)
    parts = {
        **others,
        "the user's newest message": newest,
        "rules, pins and frame": summary - newest + ROUNDING_TOKENS,
    }
    return {name: least.counted(tokens) + (tokens > 0) for name, tokens in parts.items()}


def _least_summary(state: State, others: int) -> int:
    """Tokens of the shortest summary message; its frame is longer where its room is."""
    local = getattr(state.job.summarizer, "local", False) is True
    writer = state.job.summarizer if local else ExtractiveSummarizer()
    least = least_tokens(writer, state)
    apart = bool(state.newest_input) and least == LEAST_SUMMARY_TOKENS  # as in the summary itself
    text = extractive_render(state.facts.removed, tokens=least, newest_apart=apart)
    accepted = Accepted(text, "extractive", 0, by_code=True)
    tokens = 1
    for _ in range(4):  # looks at most; its own size can lengthen its frame
        # Never less than the smallest target leaves, which is rounded up by parts: the frame must not be shorter here.
        target = state.counted(others + tokens + 2 * ROUNDING_TOKENS)
        job = replace(state.job, target_tokens=target)
        written, _ = summary_text(replace(state, job=job), accepted)
        content = with_media(state, written)
        message = {"role": "user", "content": content}
        size = int(core.Ledger(job.weights, [message]).tokens())
        if size <= tokens:
            break
        tokens = size
    return tokens


def only_summary(state: State) -> bool:
    """Whether a compaction on demand would summarise only an earlier summary and what was restored with it, and no target asks for that."""
    target = state.job.target_tokens
    if state.job.trigger != "manual" or (
        target is not None and state.counted(state.tokens) > target
    ):
        return False
    removed = state.source.context[state.cut.start : state.cut.stop]
    seen = False
    for item in removed:
        summary = bool(text_of_summary(item)) and not is_user_input(item)
        if not summary and item.get("isMeta") is not True and not is_host_only(item):
            return False
        seen = seen or summary
    return seen


def too_little(state: State, freed: int) -> bool:
    """Whether a compaction on demand would rewrite the context, and lose the cache, for almost no gain."""
    target = state.job.target_tokens
    if target is not None and state.counted(state.tokens) > target:
        return freed <= 0
    least = state.job.policy.summary.min_freed_percent
    whole = state.counted(state.tokens + state.overhead)
    return state.job.trigger == "manual" and freed * 100 < whole * least


def advice(state: State, reason: str) -> str:
    """Why a compaction on demand changed nothing, and which option would go further; empty for other reasons."""
    least = state.job.policy.summary.min_freed_percent
    why = {
        "nothing_to_compact": "the part that may be summarised is too small",
        "nothing_new": "nothing that may be summarised was added since the last compaction",
        "frees_too_little": f"less than {least} % of {state.size:,} tokens would be freed (summary.min_freed_percent)",
    }.get(reason)
    if why is None or state.job.trigger != "manual":
        return ""
    # What a compaction with nothing kept could summarise.
    job = state.job
    keep = scaled_keep(0, job.policy.keep, job.window_tokens)
    cut = choose_cut(state.source, state.ledger, keep, direction=job.direction, at=job.at)
    more = int(state.ledger.tokens(cut.start, cut.stop))
    no_more = more <= max(state.removed_tokens, LEAST_REMOVED_TOKENS)
    if no_more or only_summary(recut(state, cut)):
        return f"Nothing was changed: {why}."
    kept_tokens = state.tokens - state.removed_tokens
    return (
        f"Nothing was changed: {why}. {kept_tokens:,} tokens stay verbatim: a smaller keep (--keep) goes further, "
        f"keep=0 would summarise {more:,} tokens."
    )

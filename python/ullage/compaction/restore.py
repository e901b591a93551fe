"""Restores context after a compaction: files read now, and state that only the host knows (POST-3).

The host registers providers; without one nothing is restored, since a transcript may be compacted on
another machine than the one on which it was written.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NoReturn, TypeAlias

from ullage.compaction.effects_runner import Attachment, Providers, Skill
from ullage.effects import Call, Flow, Together
from ullage.exceptions import InvalidPolicy
from ullage.facts.model import Facts
from ullage.facts.words import clean, text_of
from ullage.messages import largest
from ullage.policy import RestorePolicy, nearest
from ullage.transcript.records import as_list, as_strings
from ullage.transcript.render import SHOWN_KINDS, render

# State that only the host knows (tasks, tools, agents, MCP): checked, announced once, and within its budget (POST-3).


Measure: TypeAlias = Callable[[str], int]

# Listings, by what names their rows.
_NAMES: Final[Mapping[str, str]] = {
    "deferred_tools_delta": "addedNames",
    "agent_listing_delta": "addedTypes",
    "mcp_instructions_delta": "addedNames",
}

# Lists of a listing that run side by side, where they have the same length.
_ROWS: Final = ("addedNames", "addedTypes", "addedLines", "addedBlocks")

CUT: Final = "[… cut …]"


class Seen:
    """What the kept messages and entries, as they are stored, already announce."""

    def __init__(self, messages: Iterable[Mapping[str, Any]]) -> None:
        self._rows: dict[str, set[str]] = {}
        self._texts: list[str] = []
        for item in messages:
            attachment = item.get("attachment")
            if isinstance(attachment, Mapping):
                self.note(attachment)
            else:
                self._texts.append(text_of(item))

    def note(self, attachment: Mapping[str, Any]) -> None:
        """Record an attachment that is present, or will be."""
        kind = str(attachment.get("type"))
        rows = self._rows.setdefault(kind, set())
        rows.update(as_strings(attachment.get(_NAMES.get(kind, ""))))
        rows.difference_update(as_strings(attachment.get("removedNames")))
        rows.difference_update(as_strings(attachment.get("removedTypes")))
        self._texts.append(_text(attachment))

    def news_in(self, attachment: Attachment) -> Attachment | None:
        """The attachment without rows that were already announced; `None`: nothing in it is new."""
        text, kind = _text(attachment), attachment["type"]
        if not text or any(text in shown for shown in self._texts):
            return None
        rows = as_strings(attachment.get(_NAMES.get(kind, "")))
        earlier = self._rows.get(kind, set())
        if not earlier.intersection(rows):
            return attachment
        news = [at for at, row in enumerate(rows) if row not in earlier]
        left = _with_rows(attachment, news, len(rows))
        return left if _text(left) else None


def announced(
    name: str, answer: Any, seen: Seen, tokens: int, measure: Measure
) -> tuple[list[Attachment], int]:
    """A provider's attachments that are news, and how many did not fit whole; restored rows are added to what was seen.

    `name`: the provider's field, for errors; `answer`: what it returned, `None`: nothing; `tokens`: for all of them, rendered.

    Raises:
        InvalidPolicy: Something in the answer is not an attachment, or of a type that is not shown to a model.
    """
    news_fitted, cut = list[Attachment](), 0
    for attachment in _newest(name, answer):
        news = seen.news_in(attachment)
        if news is None:
            continue
        fitting = news if measure(_text(news)) <= tokens else _shortened(news, tokens, measure)
        cut += fitting is not news
        if fitting is None:
            continue
        tokens -= measure(_text(fitting))
        seen.note(fitting)
        news_fitted.append(fitting)
    return news_fitted, cut


def _newest(name: str, answer: Any) -> list[Attachment]:
    """The checked attachments; of several states of one task only the last."""
    if answer is None:
        return []
    if isinstance(answer, str | bytes | Mapping) or not isinstance(answer, Sequence):
        kind = type(answer).__name__
        raise InvalidPolicy(f"providers.{name}", kind, "must return a list of attachments")
    checked = [_checked(name, at, attachment) for at, attachment in enumerate(answer)]
    tasks = [one.get("taskId") if one["type"] == "task_status" else None for one in checked]
    last = {task: at for at, task in enumerate(tasks) if isinstance(task, str | int)}
    newest = set(last.values())
    return [
        attachment
        for at, (attachment, task) in enumerate(zip(checked, tasks, strict=True))
        if at in newest or not isinstance(task, str | int)
    ]


def _checked(name: str, at: int, value: Any) -> Attachment:
    place = f"providers.{name}[{at}]"
    if not isinstance(value, Mapping):
        limit = "must be an attachment: an object with a type"
        raise InvalidPolicy(place, type(value).__name__, limit)
    kind = value.get("type")
    if kind not in SHOWN_KINDS:
        limit = "is not a type of attachment that a model is shown"
        raise InvalidPolicy(f"{place}.type", kind, limit, hint=nearest(kind, SHOWN_KINDS))
    return dict(value)


# ---- shorter -----------------------------------------------------------------------------------


def _shortened(attachment: Attachment, tokens: int, measure: Measure) -> Attachment | None:
    """As many first rows of a listing as fit, or the longest text cut; `None`: not even that fits."""
    rows = max((len(as_list(attachment.get(key))) for key in _ROWS), default=0)
    texts = {
        key: text for key, text in attachment.items() if isinstance(text, str) and key != "type"
    }
    if rows <= 1 and not texts:
        return None
    longest = max(texts, key=lambda key: len(texts[key]), default="")

    def cut_to(most: int) -> Attachment:
        if rows > 1:
            return _with_rows(attachment, range(most), rows)
        return {**attachment, longest: f"{texts[longest][:most]}{CUT}"}

    most = rows if rows > 1 else len(texts[longest]) - 1
    fitting = largest(most, lambda size: measure(_text(cut_to(size))) <= tokens)
    return cut_to(fitting) if fitting else None


def _with_rows(attachment: Attachment, places: Iterable[int], count: int) -> Attachment:
    chosen = list(places)
    lists = {key: attachment[key] for key in _ROWS if len(as_list(attachment.get(key))) == count}
    return {**attachment, **{key: [rows[at] for at in chosen] for key, rows in lists.items()}}


def _text(attachment: Mapping[str, Any]) -> str:
    return text_of({"role": "user", "content": render(attachment) or ""})


# A file above this many characters per allowed token is not cut to size: only its name is restored.
BYTES_PER_TOKEN = 8
LEAST_TOKENS = 50  # a smaller part of a file or skill is not worth its frame
ATTACHMENT_FRAME_TOKENS = 10  # tokens of the message around an attachment
_RANKS = {"plan_file_reference": 1, "invoked_skills": 2, "file": 3, "compact_file_reference": 3}
_ORDER = ("plan", "skills", "plan_mode", "tasks", "tools", "agents", "mcp")


def recent_files(
    facts: Facts,
    visible: Facts,
    policy: RestorePolicy,
    skip: Callable[[str], bool] = lambda path: False,
) -> list[str]:
    """Paths of the summarised part to read again, newest use first, each file once; not those that the kept part still shows."""
    shown = {_same(file.path) for file in visible.files if file.reads or file.writes}
    used = [file for file in facts.files if not file.deleted and not skip(file.path)]
    newest = sorted(used, key=lambda file: (-file.last, file.path))
    once = {_same(file.path): file.path for file in reversed(newest)}
    paths = [file.path for file in newest if once[_same(file.path)] == file.path]
    return [path for path in paths if _same(path) not in shown][: policy.max_files]


def _same(path: str) -> str:
    """One name for `./a.py`, `a.py` and `b/../a.py`; links are not resolved."""
    return posixpath.normpath(path.replace("\\", "/"))


def rebuild(
    providers: Providers,
    facts: Facts,
    visible: Facts,
    policy: RestorePolicy,
    measure: Measure,
    kept_messages: Sequence[Mapping[str, Any]] = (),
) -> Flow[tuple[list[Attachment], list[str]]]:
    """Ask all providers in parallel, and fit the answers into their budgets.

    `facts` are of what was summarised, `visible` of what is kept; what `kept_messages` announce is not announced again.

    Returns:
        The attachments in a fixed order, and warnings for providers that failed and for what was cut.

    Raises:
        InvalidPolicy: A provider returned something other than a plan, skill or attachment of a known type.
    """
    skip = providers.skip_file or (lambda path: False)
    read = providers.read_file
    paths = [] if read is None else recent_files(facts, visible, policy, skip)
    asked = [(path, Call(read, (path,))) for path in paths if read is not None]
    asked += [(name, Call(getattr(providers, name))) for name in _ORDER if getattr(providers, name)]
    if not asked:
        return [], []
    answers = yield Together(tuple(effect for _, effect in asked))
    answer_by_name = dict(zip((name for name, _ in asked), answers, strict=True))
    warnings = [
        f"provider_failed:{n}" for n, a in answer_by_name.items() if isinstance(a, BaseException)
    ]
    good = {name: a for name, a in answer_by_name.items() if not isinstance(a, BaseException)}
    plan = good.get("plan")
    planned = _same(str(plan[0])) if isinstance(plan, tuple) and plan else ""
    reads = [(path, good.get(path)) for path in paths if _same(path) != planned]
    attachments = _files(reads, policy, measure)
    seen = Seen(kept_messages)
    for name in _ORDER:
        if name in _FORMS:
            attachments += _FORMS[name](good.get(name), policy, measure)
            continue
        news, cut = announced(name, good.get(name), seen, policy.state_max_tokens, measure)
        attachments += news
        warnings += [f"attachments_cut:{name}:{cut}"] if cut else []
    return attachments, warnings


def within(attached: Sequence[Attachment], tokens: int, measure: Measure) -> list[Attachment]:
    """Those that fit, in their order; what matters most is placed first: modes and state, then the plan, skills, files."""
    chosen: set[int] = set()
    ranked = sorted(enumerate(attached), key=lambda pair: (_RANKS.get(pair[1]["type"], 0), pair[0]))
    for place, attachment in ranked:
        size = measure(_text(attachment)) + ATTACHMENT_FRAME_TOKENS
        if size <= tokens:
            tokens -= size
            chosen.add(place)
    return [attachment for place, attachment in enumerate(attached) if place in chosen]


def _files(
    read: Sequence[tuple[str, Any]], policy: RestorePolicy, measure: Measure
) -> list[Attachment]:
    attachments: list[Attachment] = []
    room, limit = policy.files_max_tokens, policy.file_max_tokens * BYTES_PER_TOKEN
    for path, content in read:
        if not isinstance(content, str) or room < LEAST_TOKENS:
            continue
        if len(content) > limit:
            # Not decoded, counted or cut; one line says that it was read.
            reference = {"type": "compact_file_reference", "filename": path, "displayPath": path}
            attachments.append(reference)
            continue
        text, cut = _top(clean(content), min(policy.file_max_tokens, room), measure)
        room -= measure(text)
        note = f"\n[… {_missing(content, text)}; read the file for the rest …]" if cut else ""
        file = {
            "filePath": path,
            "content": text + note,
            "numLines": text.count("\n") + 1,
            "startLine": 1,
            "totalLines": content.count("\n") + 1,
        }
        shown = {"type": "text", "file": file}
        named = {"type": "file", "filename": path, "content": shown, "displayPath": path}
        attachments.append(named)
    return attachments


def _top(text: str, tokens: int, measure: Measure) -> tuple[str, bool]:
    """The first lines that fit, and whether any are missing."""
    if measure(text) <= tokens:
        return text, False
    chars = largest(len(text), lambda size: measure(text[:size]) <= tokens)
    end = text.rfind("\n", 0, chars)
    return text[: end if end > 0 else chars], True


def _missing(whole: str, text: str) -> str:
    """What a beginning lacks: lines, or characters where it ends inside of the last line."""
    lines = whole.count("\n") - text.count("\n")
    return f"{lines:,} more lines" if lines else f"{len(whole) - len(text):,} more characters"


def _plan(answer: Any, policy: RestorePolicy, measure: Measure) -> list[Attachment]:
    if answer is None:
        return []
    pair = isinstance(answer, tuple) and len(answer) == 2
    if not pair or not all(isinstance(part, str) for part in answer):
        _refuse("plan", answer, "must return (path, text), or None")
    path, whole = answer
    if not whole.strip():
        return []
    text, cut = _top(whole, policy.plan_max_tokens, measure)
    note = f"\n[… cut, {_missing(whole, text)}; read {path} for the rest …]" if cut else ""
    return [{"type": "plan_file_reference", "planFilePath": path, "planContent": text + note}]


def _skills(answer: Any, policy: RestorePolicy, measure: Measure) -> list[Attachment]:
    room, skills = policy.skills_max_tokens, []
    seen: set[str] = set()
    for skill in answer or ():
        if not isinstance(skill, Skill):
            _refuse("skills", skill, "must return a list of Skill")
        if room < LEAST_TOKENS or skill.name in seen:
            continue
        seen.add(skill.name)
        text, cut = _top(skill.content, min(policy.skill_max_tokens, room), measure)
        room -= measure(text)
        note = "\n[… cut; the rest is in the skill's file …]" if cut else ""
        skills.append({"name": skill.name, "path": skill.path, "content": text + note})
    return [{"type": "invoked_skills", "skills": skills}] if skills else []


def _plan_mode(answer: Any, policy: RestorePolicy, measure: Measure) -> list[Attachment]:
    if answer is not None and not isinstance(answer, bool):
        _refuse("plan_mode", answer, "must return True, False or None")
    return [{"type": "plan_mode"}] if answer else []


def _refuse(name: str, value: Any, limit: str) -> NoReturn:
    raise InvalidPolicy(f"providers.{name}", type(value).__name__, limit)


_FORMS: dict[str, Callable[[Any, RestorePolicy, Measure], list[Attachment]]] = {
    "plan": _plan,
    "skills": _skills,
    "plan_mode": _plan_mode,
}

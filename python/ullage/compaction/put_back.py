"""Restores context after a compaction: files read now, and state that only the host knows (POST-3).

The host registers providers; without one nothing is restored, since a transcript may be compacted on
another machine than the one on which it was written.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn, TypeAlias

from ullage.compaction.announced import Seen, announced, size_of
from ullage.compaction.context_providers import Attachment, Providers, Skill
from ullage.effects import Call, Effect, Flow, ReadFile, Together
from ullage.exceptions import InvalidPolicy
from ullage.facts.model import Facts
from ullage.facts.reading import clean
from ullage.policy import RestorePolicy

__all__ = ["rebuild", "recent_files", "within"]

Measure: TypeAlias = Callable[[str], int]

BYTES_PER_TOKEN = 8
"""A file above this many characters per allowed token is not cut to size: only its name is restored."""

LEAST_TOKENS = 50
"""A smaller part of a file or skill is not worth its frame."""


def recent_files(
    facts: Facts,
    visible: Facts,
    policy: RestorePolicy,
    skip: Callable[[str], bool] = lambda path: False,
) -> list[str]:
    """Paths to read again, newest use first, each file once.

    Args:
        facts: Of what was summarised.
        visible: Facts of the kept part: a file that it still shows is not restored.
        policy: How many.
        skip: Whether a path is left out, and its place goes to the next.
    """
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
    kept: Sequence[Mapping[str, Any]] = (),
) -> Flow[tuple[list[Attachment], list[str]]]:
    """Ask all providers in parallel, and fit the answers into their budgets.

    Args:
        providers: Whom to ask.
        facts: Of what was summarised.
        visible: Of what is kept.
        policy: The budgets.
        measure: Tokens of a text.
        kept: The messages that are kept: what they announce is not announced again.

    Returns:
        The attachments in a fixed order, and warnings for providers that failed and for what was cut.

    Raises:
        InvalidPolicy: A provider returned something other than a plan, skill or attachment of a known type.
    """
    skip = providers.skip_file or (lambda path: False)
    paths = recent_files(facts, visible, policy, skip) if providers.read_file is not None else []
    limit = policy.file_max_tokens * BYTES_PER_TOKEN
    asked: list[tuple[str, Effect]] = [(path, ReadFile(path, limit)) for path in paths]
    asked += [(name, Call(getattr(providers, name))) for name in _ORDER if getattr(providers, name)]
    if not asked:
        return [], []
    answers = yield Together(tuple(effect for _, effect in asked))
    told = dict(zip((name for name, _ in asked), answers, strict=True))
    warnings = [f"provider_failed:{n}" for n, a in told.items() if isinstance(a, BaseException)]
    good = {name: a for name, a in told.items() if not isinstance(a, BaseException)}
    plan = good.get("plan")
    planned = _same(str(plan[0])) if isinstance(plan, tuple) and plan else ""
    reads = [(path, good.get(path)) for path in paths if _same(path) != planned]
    found = _files(reads, policy, measure, limit)
    seen = Seen(kept)
    for name in _ORDER:
        if name in _FORMS:
            found += _FORMS[name](good.get(name), policy, measure)
            continue
        news, cut = announced(name, good.get(name), seen, policy.state_max_tokens, measure)
        found += news
        warnings += [f"attachments_cut:{name}:{cut}"] if cut else []
    return found, warnings


def within(attached: Sequence[Attachment], tokens: int, measure: Measure) -> list[Attachment]:
    """Those that fit, in their order; what matters most is placed first: modes and state, then the plan, skills, files."""
    chosen: set[int] = set()
    ranked = sorted(enumerate(attached), key=lambda pair: (_RANKS.get(pair[1]["type"], 0), pair[0]))
    for place, attachment in ranked:
        size = size_of(attachment, measure) + FRAME_TOKENS
        if size <= tokens:
            tokens -= size
            chosen.add(place)
    return [attachment for place, attachment in enumerate(attached) if place in chosen]


FRAME_TOKENS = 10
"""Tokens of the message around an attachment."""

_RANKS = {"plan_file_reference": 1, "invoked_skills": 2, "file": 3, "compact_file_reference": 3}

_ORDER = ("plan", "skills", "plan_mode", "tasks", "tools", "agents", "mcp")


def _files(
    read: Sequence[tuple[str, Any]], policy: RestorePolicy, measure: Measure, limit: int
) -> list[Attachment]:
    found: list[Attachment] = []
    room = policy.files_max_tokens
    for path, content in read:
        if not isinstance(content, str) or room < LEAST_TOKENS:
            continue
        if len(content) > limit:
            # Not decoded, counted or cut; one line says that it was read.
            found.append({"type": "compact_file_reference", "filename": path, "displayPath": path})
            continue
        text, cut = _top(clean(content), min(policy.file_max_tokens, room), measure)
        room -= measure(text)
        found.append(_file(path, text, content, cut=cut))
    return found


def _file(path: str, text: str, whole: str, *, cut: bool) -> Attachment:
    total = whole.count("\n") + 1
    shown = text.count("\n") + 1
    note = f"\n[… {_missing(whole, text)}; read the file for the rest …]" if cut else ""
    file = {
        "filePath": path,
        "content": text + note,
        "numLines": shown,
        "startLine": 1,
        "totalLines": total,
    }
    return {
        "type": "file",
        "filename": path,
        "content": {"type": "text", "file": file},
        "displayPath": path,
    }


def _top(text: str, tokens: int, measure: Measure) -> tuple[str, bool]:
    """The first lines that fit, and whether any are missing."""
    if measure(text) <= tokens:
        return text, False
    low, high = 0, len(text)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if measure(text[:middle]) <= tokens else (low, middle - 1)
    end = text.rfind("\n", 0, low)
    return text[: end if end > 0 else low], True


def _missing(whole: str, text: str) -> str:
    """What a beginning lacks: lines, or characters where it ends inside of the last line."""
    lines = whole.count("\n") - text.count("\n")
    return f"{lines:,} more lines" if lines else f"{len(whole) - len(text):,} more characters"


def _plan(answer: Any, policy: RestorePolicy, measure: Measure) -> list[Attachment]:
    if answer is None:
        return []
    pair = isinstance(answer, tuple) and len(answer) == 2
    if not pair or not all(isinstance(each, str) for each in answer):
        _refuse("plan", answer, "must return (path, text), or None")
    path, whole = answer
    if not whole.strip():
        return []
    text, cut = _top(whole, policy.plan_max_tokens, measure)
    note = f"\n[… cut, {_missing(whole, text)}; read {path} for the rest …]" if cut else ""
    return [{"type": "plan_file_reference", "planFilePath": path, "planContent": text + note}]


def _skills(answer: Any, policy: RestorePolicy, measure: Measure) -> list[Attachment]:
    room, kept = policy.skills_max_tokens, []
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
        kept.append({"name": skill.name, "path": skill.path, "content": text + note})
    return [{"type": "invoked_skills", "skills": kept}] if kept else []


def _plan_mode(answer: Any, policy: RestorePolicy, measure: Measure) -> list[Attachment]:
    if answer is not None and not isinstance(answer, bool):
        _refuse("plan_mode", answer, "must return True, False or None")
    return [{"type": "plan_mode"}] if answer else []


def _refuse(name: str, given: Any, limit: str) -> NoReturn:
    raise InvalidPolicy(f"providers.{name}", type(given).__name__, limit)


_FORMS: dict[str, Callable[[Any, RestorePolicy, Measure], list[Attachment]]] = {
    "plan": _plan,
    "skills": _skills,
    "plan_mode": _plan_mode,
}

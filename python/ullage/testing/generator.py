"""Seeded conversations of a coding agent, with the truth about them.

Equal in every process and Python version for equal arguments, so that a number in a document can
name the seed it was measured with.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any, Literal, TypeAlias

from ullage.exceptions import InvalidPolicy
from ullage.messages import Message
from ullage.testing._project import Project
from ullage.testing._rng import Rng
from ullage.testing._seal import sign_thinking
from ullage.testing._session import MadeCommand, MadeSession, Style
from ullage.testing._tasks import TASKS, more_work, request
from ullage.testing._tools import SYSTEM, TOOLS, WEB_SEARCH

Ending: TypeAlias = Literal["user", "loop", "assistant", "open"]

STYLES: Mapping[str, Style] = {
    "coding": Style(),
    "chat": Style(tasks=("chat",), large=0, thinking=0, detours=0),
    "media": Style(tasks=("review", "review", "fix"), large=10),
    "multilingual": Style(
        languages=("de", "fr", "es", "pt", "ru", "zh", "ja", "ko", "ar", "he", "hi", "emoji")
    ),
    "operations": Style(tasks=("logs", "logs", "fix"), large=80),
    "research": Style(tasks=("research", "search", "explore")),
    "mixed": Style(
        tasks=tuple(TASKS), languages=("en", "de", "ja", "zh", "ar", "emoji"), interrupts=15
    ),
}
"""Ready styles by name; pass a `Style` of your own for anything else."""

_EPOCH_SECONDS = 1_773_565_200  # 15 March 2026, 09:00 UTC: when all sessions begin


@dataclass(frozen=True, slots=True)
class Truth:
    """What a good summary of a session would have to know; everything in order of appearance.

    Attributes:
        user_messages: Every text that the user wrote.
        commands: Shell commands and how they ended.
        errors: Error lines that tools reported.
        pending_todos: Steps of the newest list that are not done.
        questions: What the assistant asked and nobody has answered.
        instructions: What the user wants for the whole session.
        decisions: Question and chosen answer.
        identifiers: Symbols that were read, written or named by the user.
    """

    user_messages: tuple[str, ...] = ()
    files_read: tuple[str, ...] = ()
    files_edited: tuple[str, ...] = ()
    files_written: tuple[str, ...] = ()
    commands: tuple[MadeCommand, ...] = ()
    errors: tuple[str, ...] = ()
    pending_todos: tuple[str, ...] = ()
    questions: tuple[str, ...] = ()
    instructions: tuple[str, ...] = ()
    decisions: tuple[str, ...] = ()
    identifiers: tuple[str, ...] = ()
    urls: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return (
            f"Truth({len(self.user_messages)} user messages, {len(self.files_edited)} files edited, "
            f"{len(self.commands)} commands, {len(self.errors)} errors)"
        )


@dataclass(frozen=True, slots=True)
class Scenario:
    """A conversation with what belongs to its requests, and the truth about it.

    Attributes:
        messages: Bare Anthropic messages, ready to be sent unless `ending` said otherwise.
        times: When each message came, in milliseconds since the epoch.
        rough_tokens: The rough estimate (characters / 4) of the messages alone.
    """

    seed: int
    model: str
    system: str
    tools: tuple[dict[str, Any], ...]
    messages: list[Message]
    times: tuple[int, ...]
    rough_tokens: int
    cwd: str
    truth: Truth

    def __repr__(self) -> str:
        size = f"{len(self.messages)} messages, ≈{self.rough_tokens:_} tokens"
        return f"Scenario(seed={self.seed}, {size}, {self.truth!r})"


def conversation(
    seed: int,
    *,
    turns: int | None = None,
    tokens: int | None = None,
    style: str | Style = "coding",
    ending: Ending = "user",
) -> list[Message]:
    """The messages of `scenario` alone.

    Example:
        >>> messages = conversation(7, tokens=20_000)
        >>> messages[0]["role"], messages[-1]["role"]
        ('user', 'user')
    """
    return scenario(seed, turns=turns, tokens=tokens, style=style, ending=ending).messages


def scenario(
    seed: int,
    *,
    turns: int | None = None,
    tokens: int | None = None,
    style: str | Style = "coding",
    ending: Ending = "user",
    model: str = "claude-opus-5-5",
    minutes: int | None = None,
) -> Scenario:
    """A coding session: requests, look-ups, failing and passing tests, edits, decisions.

    Files are read, changed and tested consistently: what an edit replaces was in the file, and a
    later read shows the new text. Thinking is signed for its prefix (system, tools, messages).

    Args:
        seed: Any int; equal seeds and arguments give equal sessions.
        turns: User inputs; `None`: as many as `tokens` need, or 6 without those.
        tokens: Size by the rough estimate (characters / 4); `None`: what the turns come to.
        style: A name in `STYLES`, or a `Style`.
        ending: `user`: the newest message is the user's words. `loop`: it holds tool results.
            `assistant`: an answer. `open`: tool calls that nobody has answered (not legal to send).
        model: Whom the thinking is from.
        minutes: How long the session took; `None`: as long as its pauses come to.

    Raises:
        InvalidPolicy: An argument is out of range, or there is no such style.
    """
    session = _session(seed, _style(style), model, (tokens or 0) * 4)
    _play(session, _limit("turns", turns), _limit("tokens", tokens), ending)
    return _scenario(seed, session, minutes)


def _limit(field: str, value: int | None) -> int | None:
    if value is not None and value < 1:
        raise InvalidPolicy(field, value, "must be at least 1")
    return value


def _style(style: str | Style) -> Style:
    if isinstance(style, Style):
        return style
    if style not in STYLES:
        raise InvalidPolicy("style", style, f"must be one of {', '.join(STYLES)}")
    return STYLES[style]


def _session(seed: int, style: Style, model: str, budget: int) -> MadeSession:
    rng = Rng(seed, "session")
    tools = [*TOOLS, WEB_SEARCH] if "search" in style.tasks else list(TOOLS)
    project = Project.make(rng)
    return MadeSession(rng, style, model, SYSTEM, tools, project, budget)


def _play(session: MadeSession, turns: int | None, tokens: int | None, ending: Ending) -> None:
    """Turn by turn until there are enough of them, or enough characters."""
    count = turns or (6 if tokens is None else 0)
    last = count - 1 if ending == "user" else count
    done = 0
    while done < last or (not count and session.chars < session.budget):
        goal = _goal(session, last - done)
        finished = _turn(session, goal, fill=bool(turns and tokens))
        done += 1
        final = done == last or (not count and session.chars >= session.budget)
        _close(session, ending if final else "assistant", finished)
    if ending == "user":
        _last_words(session)


def _goal(session: MadeSession, turns_left: int) -> int:
    """The character count at which this turn is to end; 0: when its task is done."""
    if not session.budget:
        return 0
    if turns_left > 0:
        return session.chars + max(0, session.budget - session.chars) // turns_left
    return session.budget


def _turn(session: MadeSession, goal: int, *, fill: bool) -> bool:
    """One user input and the work on it; whether the work came to its end."""
    session.closing = ""
    steps: Iterator[None] = TASKS[session.rng.pick(session.style.tasks)](session)
    if fill or session.rng.chance(session.style.detours):
        steps = chain(steps, more_work(session, 0 if fill else session.rng.between(1, 6)))
    for _ in steps:
        if goal and session.chars >= goal:
            return bool(session.closing)
    return True


def _close(session: MadeSession, ending: Ending, finished: bool) -> None:
    if ending == "open":
        from ullage.testing import _calls

        session.call(_calls.grep(session, session.project.root), _calls.missing(session))
    elif ending != "loop":
        steps = [item["content"] for item in session.todos if item["status"] != "completed"]
        rest = (
            f"Not finished yet; next: {steps[0]}." if steps else "I stopped here; tell me to go on."
        )
        session.say(session.closing if finished and session.closing else rest)


def _last_words(session: MadeSession) -> None:
    symbol = session.rng.pick(tuple(session.facts.get("identifiers", ("the tests",))))
    session.user(request(session, "chat", fn=symbol))


def _scenario(seed: int, session: MadeSession, minutes: int | None) -> Scenario:
    todos = [item["content"] for item in session.todos if item["status"] != "completed"]
    truth = Truth(
        user_messages=tuple(session.words),
        commands=tuple(session.commands),
        pending_todos=tuple(todos),
        **{name: tuple(values) for name, values in session.facts.items()},
    )
    signed = sign_thinking(
        session.messages, system=session.system, tools=session.tools, model=session.model
    )
    return Scenario(
        seed=seed,
        model=session.model,
        system=session.system,
        tools=tuple(session.tools),
        messages=signed,
        times=_times(session.offsets, minutes),
        rough_tokens=(session.chars + 2) // 4,
        cwd=session.project.root,
        truth=truth,
    )


def _times(offsets: list[int], minutes: int | None) -> tuple[int, ...]:
    total = max(offsets[-1] if offsets else 1, 1)
    length = total if minutes is None else minutes * 60
    return tuple([(_EPOCH_SECONDS * 1000) + offset * length * 1000 // total for offset in offsets])

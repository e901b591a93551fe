"""A made session as an agent meets it: the user's inputs, the model's answers, the results of its calls."""

from __future__ import annotations

import json
import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

from ullage.counting import count_tokens_exact
from ullage.facts.sections import HEADINGS
from ullage.summarizers.protocol import SummaryReply, SummaryRequest
from ullage.testing import scenario
from ullage.testing.generator import STYLES

WINDOW = 64_000
OUTPUT = 4_000
SYSTEM = "You are a coding agent."
SILENT = "The user works on a service; see the newest messages."

Message = dict[str, Any]


@dataclass(frozen=True)
class Recorded:
    """One session; a turn begins with each prompt and ends with an answer without calls.

    Attributes:
        name: Of the session.
        prompts: What the user said, in order.
        answers: Blocks of each response.
        results: Text of each result, by the id of its call.
        facts: Texts that were planted in it.
    """

    name: str
    prompts: tuple[str, ...]
    answers: tuple[list[Message], ...]
    results: Mapping[str, str]
    facts: tuple[str, ...]

    @property
    def tools(self) -> list[str]:
        """Names of the tools that are called."""
        calls = (block for answer in self.answers for block in answer)
        return sorted({block["name"] for block in calls if block["type"] == "tool_use"})


def recorded(seed: int, tokens: int) -> Recorded:
    """A coding session of the generator, without thinking: frameworks keep it in ways of their own."""
    style = replace(STYLES["coding"], interrupts=0, thinking=0, hidden=0)
    made = scenario(seed, tokens=tokens, style=style, ending="assistant")
    prompts, answers, results = [], [], {}
    for message in made.messages:
        blocks = message["content"]
        if isinstance(blocks, str):
            blocks = [{"type": "text", "text": blocks}]
        if message["role"] == "assistant":
            answers.append([block for block in blocks if block["type"] in ("text", "tool_use")])
            continue
        found = {each["tool_use_id"]: _text(each) for each in blocks if "tool_use_id" in each}
        results.update(found)
        if not found:
            prompts.append(_text({"content": blocks}))
    truth = made.truth
    facts = (
        *truth.user_messages, *truth.files_edited, *truth.files_written, *truth.errors,
        *truth.decisions, *truth.pending_todos, *truth.instructions, *truth.urls,
    )  # fmt: skip
    unique = tuple(dict.fromkeys(facts))
    return Recorded(f"made {seed}", tuple(prompts), tuple(answers), results, unique)


def _text(block: Mapping[str, Any]) -> str:
    content = block["content"]
    if isinstance(content, str):
        return content
    return "\n".join(str(part.get("text", "[image]")) for part in content)


@dataclass
class Played:
    """A session while it is played: gives out the recorded answers and results, and keeps what was sent.

    Attributes:
        session: What is played.
        copies: Whether the scripted writer of summaries copies every planted fact that it is shown, or none.
        sent: The requests, in the form of a provider.
        asked: Characters that the writer was sent.
        used: Tokens of the newest request, which the response reports.
        refused: Requests that were too long.
        aside: Seconds of processor time that were spent on keeping, not by the framework.
        refuse: Raises what the framework knows as a refusal of a request that is too long; `None`: all are answered.
    """

    session: Recorded
    copies: bool = True
    sent: list[list[Message]] = field(default_factory=list)
    asked: int = 0
    aside: float = 0.0
    used: int = 0
    refused: int = 0
    refuse: Callable[[], Exception] | None = None
    _next: int = 0
    _waiting: dict[str, deque[str]] = field(default_factory=lambda: defaultdict(deque))

    def answer(self, request: Callable[[], list[Message]]) -> list[Message]:
        """Blocks of the next response; `request` makes what is sent, in the form of a provider."""
        with self.not_counted():
            sent = request()
            self.used = size(sent)
            if self.refuse is not None and self.used > WINDOW:
                self.refused += 1
                raise self.refuse()
            self.sent.append(sent)
        blocks = self.session.answers[self._next]
        self._next += 1
        for block in blocks:
            if block["type"] == "tool_use":
                key = _key(block["name"], block["input"])
                self._waiting[key].append(self.session.results[block["id"]])
        return blocks

    def result(self, name: str, given: Mapping[str, Any] | str) -> str:
        """The recorded result of a call."""
        given = json.loads(given or "{}") if isinstance(given, str) else given
        return self._waiting[_key(name, given)].popleft()

    def summary(self, shown: str) -> str:
        """What the scripted writer makes of a text: an upper bound for a model, or a lower one."""
        with self.not_counted():
            self.asked += len(shown)
            if not self.copies:
                return SILENT
            found = [fact for fact in self.session.facts if stands(fact, shown)]
            return "Summary.\n" + "\n".join(f"- {fact}" for fact in found)

    def writer(self, request: SummaryRequest) -> SummaryReply:
        """The same as a summarizer of Ullage."""
        shown = json.dumps(list(request.messages), ensure_ascii=False, default=str)
        text = self.summary(shown + request.prompt)
        # It is asked for these sections; what only repeats the template is refused.
        parts = [text, *(f"Nothing new on {name.lower()} in this part." for name in HEADINGS[1:])]
        pairs = enumerate(zip(HEADINGS, parts, strict=True), 1)
        return SummaryReply(
            text="\n\n".join(f"## {n}. {name}\n{part}" for n, (name, part) in pairs)
        )

    @contextmanager
    def not_counted(self) -> Iterator[None]:
        """What is done here is not the framework's time."""
        started = time.process_time()
        try:
            yield
        finally:
            self.aside += time.process_time() - started


@lru_cache(maxsize=100_000)
def _tokens(text: str) -> int:
    return count_tokens_exact(text)


def tokens_of(value: Any) -> int:
    """Tokens of all texts in a message."""
    if isinstance(value, str):
        return _tokens(value)
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return sum(map(tokens_of, inner))


def size(sent: list[Message]) -> int:
    """Tokens of a request: the same measure for every form."""
    return sum(map(tokens_of, sent)) + 4 * len(sent)


def stands(fact: str, text: str) -> bool:
    """Whether a text holds a fact, as it is or within JSON."""
    quoted = json.dumps(fact, ensure_ascii=False)[1:-1]
    return fact in text or quoted in text or json.dumps(quoted, ensure_ascii=False)[1:-1] in text


def _key(name: str, given: Mapping[str, Any]) -> str:
    return f"{name} {json.dumps(given, sort_keys=True, ensure_ascii=False)}"


def words_of(blocks: list[Message]) -> str:
    """The text of a response."""
    return "\n".join(block["text"] for block in blocks if block["type"] == "text")


def calls_of(blocks: list[Message]) -> list[Message]:
    """The calls of a response."""
    return [block for block in blocks if block["type"] == "tool_use"]


def schema() -> dict[str, Any]:
    """Parameters of every tool: any."""
    return {"type": "object", "properties": {}, "additionalProperties": True}


def shown_of(items: Any) -> str:
    """Anything that a writer of summaries is sent, as text."""
    return json.dumps(items, ensure_ascii=False, default=str)


Run = Callable[[Played], None]
"""Plays a session to its end through a framework's agent."""


@dataclass(frozen=True)
class Way:
    """One way to make room in a framework.

    Attributes:
        name: In the table.
        run: Plays a session with it.
        writes: Whether a model writes summaries; then it is played with both writers.
        recovers: Whether it makes room after a refusal; then requests over the window are refused, else they are only counted.
    """

    name: str
    run: Run
    writes: bool = False
    recovers: bool = False


@dataclass(frozen=True)
class Framework:
    """A framework with its ways, the first of which makes no room.

    Attributes:
        title: In the document.
        form: Whose requests its messages become.
        packages: Whose versions are named.
        ways: To make room.
        overflow: What the framework knows as a refusal of a request that is too long.
        params: What stands next to the messages in a request, where its rules ask for it.
    """

    title: str
    form: str
    packages: tuple[str, ...]
    ways: tuple[Way, ...]
    overflow: Callable[[], Exception] | None = None
    params: Mapping[str, Any] = field(default_factory=dict)

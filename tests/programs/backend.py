"""A provider for real agent programs: a model that follows a play, on the server that refuses what providers refuse."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tests.oracle.checker.size import count_tokens
from tests.oracle.server import OracleServer
from ullage.testing.script import Answer, Step, answer
from ullage.testing.server import Recorded, Reply

__all__ = ["RULES", "SUMMARY", "TOO_LONG", "Asked", "Backend", "Turn", "rules_in"]

RULES = [f"- RULE-{n:02d}: run make check-{n:02d}; never edit generated/{n}.py" for n in range(80)]
"""What a project's CLAUDE.md or AGENTS.md says here: what reaches the provider is counted by number."""

_RULE = re.compile(r"RULE-(\d\d): run make check-\1; never edit")


# ---- the back end --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Turn:
    """One response of the scripted model.

    Attributes:
        text: What it says.
        calls: Tools with what they are given, run by the client side by side.
        fault: An error in its place, or what befalls it on the wire; `None`: it arrives.
        reasoning: What it thinks first; empty: only where the request asks for thinking.
    """

    text: str = ""
    calls: tuple[tuple[str, Mapping[str, Any]], ...] = ()
    fault: Step | None = None
    reasoning: str = ""

    def answer(self) -> Answer:
        """As the server's endpoints take it."""
        names, inputs = (
            tuple(name for name, _ in self.calls),
            tuple(given for _, given in self.calls),
        )
        reason = "tool_use" if self.calls else "end_turn"
        return Answer(self.text, self.reasoning, names, reason, inputs=inputs)


@dataclass
class Asked:
    """What came of one request for a response.

    Attributes:
        recorded: The request as it stood on the wire, and what became of it.
        kind: `main`, `sub` (a sub-agent), `compaction` (the client's own), `other` (titles and the like).
        tokens: By the server's count.
        rules: How many of `RULES` it holds.
        output: Tokens of the answer.
    """

    recorded: Recorded
    kind: str
    tokens: int
    rules: int
    output: int = 0

    @property
    def refused(self) -> tuple[str, ...]:
        """The ids of the rules that it broke."""
        return self.recorded.rules

    @property
    def answered(self) -> bool:
        """Whether the model's answer went out."""
        return self.recorded.status == 200

    @property
    def body(self) -> dict[str, Any]:
        """The request."""
        return self.recorded.json


class Backend(OracleServer):
    """A provider whose model follows a play.

    Args:
        *play: Its responses to the main conversation, in order.
        sub: Its responses to each sub-agent, in order; the last one is repeated.
        after: What it says when the play is over.
        window: Context window in tokens by the server's count; `None`: the model's own.
    """

    def __init__(
        self,
        *play: Turn,
        sub: Sequence[Turn] = (Turn("Looked at it: the answer is 42."),),
        after: str = "All done.",
        window: int | None = None,
        **more: Any,
    ) -> None:
        super().__init__(window=window, user_first=True, lone_reasoning=True, **more)
        self.play, self.sub, self.last = list(play), list(sub), after
        self.asked: list[Asked] = []
        self._subs: dict[str, int] = {}

    def handle(self, recorded: Recorded) -> Reply:
        """The reply; requests for a response are remembered with what they are."""
        body = recorded.json
        path = recorded.path.partition("?")[0]
        if isinstance(body, dict) and path in _ENDPOINTS:
            asked = Asked(recorded, kind_of(body, recorded), count_tokens(body), rules_in(body))
            with self._lock:
                self.asked.append(asked)
        return super().handle(recorded)

    def answer(self, recorded: Recorded, messages: Sequence[Any], tokens: int) -> Answer:
        """What the play says to a request that broke no rule."""
        asked = next(each for each in reversed(self.asked) if each.recorded is recorded)
        turn = self._turn(asked)
        recorded.step, recorded.fault = asked.kind, turn.fault
        found = turn.answer()
        if turn.fault is not None:
            failed = answer(turn.fault, [], tokens=tokens)
            found = failed if failed.failure is not None else found
        asked.output = (len(found.text) + len(json.dumps(found.inputs))) // 4
        return found

    def _turn(self, asked: Asked) -> Turn:
        if asked.kind == "compaction":
            return Turn(f"<summary>\n{SUMMARY}\n</summary>")
        with self._lock:
            if asked.kind == "main":
                return self.play.pop(0) if self.play else Turn(self.last)
            if asked.kind == "sub":
                headers = asked.recorded.headers
                name = headers.get("x-claude-code-agent-id") or headers["thread-id"]
                at = self._subs[name] = self._subs.get(name, -1) + 1
                return self.sub[min(at, len(self.sub) - 1)]
        return Turn("Port the parser")

    # ---- what tests ask ----

    def of(self, kind: str) -> list[Asked]:
        """The requests of one kind."""
        return [each for each in self.asked if each.kind == kind]

    @property
    def illegal(self) -> list[str]:
        """Rules that requests broke, without those that were only too long."""
        return [rule for each in self.asked for rule in each.refused if rule not in TOO_LONG]


TOO_LONG = ("A24", "O09", "L04")
_ENDPOINTS = ("/v1/messages", "/v1/chat/completions", "/v1/responses", "/v1/responses/compact")
SUMMARY = "The user wants the parser ported. Files were read one after the other; the next is due."


def rules_in(body: Any) -> int:
    """How many of `RULES` stand in a request, each once."""
    text = json.dumps(body, ensure_ascii=False)
    return len(set(_RULE.findall(text)))


def kind_of(body: Mapping[str, Any], recorded: Recorded) -> str:
    """Which of a client's conversations a request belongs to."""
    items, path = _items(body), recorded.path.partition("?")[0]
    if path.endswith("/compact") or (items and items[-1].get("type") == "compaction_trigger"):
        return "compaction"
    if any(words in _last(body) for words in _ASKS_FOR_SUMMARY):
        return "compaction"
    if any(name in recorded.headers for name in _SUB_AGENT):
        return "sub"
    return "main" if body.get("tools") else "other"


_ASKS_FOR_SUMMARY = (
    "create a detailed summary of the conversation",  # Claude Code
    "You are performing a CONTEXT CHECKPOINT COMPACTION",  # Codex, of a provider that is not OpenAI
)
_SUB_AGENT = ("x-claude-code-agent-id", "x-codex-parent-thread-id")


def _items(body: Mapping[str, Any]) -> list[dict[str, Any]]:
    given = body.get("messages", body.get("input"))
    items = given if isinstance(given, list) else [{"role": "user", "content": given}]
    return [each for each in items if isinstance(each, dict)]


def _texts(content: Any) -> str:
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    return "\n".join(str(part.get("text", "")) for part in parts if isinstance(part, dict))


def _last(body: Mapping[str, Any]) -> str:
    users = [each for each in _items(body) if each.get("role") == "user"]
    return _texts(users[-1].get("content")) if users else ""

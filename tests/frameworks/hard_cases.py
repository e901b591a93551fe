"""A model that makes it hard: it gives calls ids that it gave before, and states usage that cannot be true.

What it is sent is judged here, by nothing of Ullage: each call has its result, right after it and of the place that the call named,
and the whole is within the window. A framework's fake model only translates.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

__all__ = ["CASES", "LIMITS", "Brain", "Call", "Case", "Heard", "Reply", "looked", "question"]

LIMITS = {"context_window": 8_000, "max_output_tokens": 500}
_PLACE = re.compile(r"place (\d+-\d+):")


class Call(NamedTuple):
    """A call: its id, and where it looks."""

    id: str
    place: str


class Heard(NamedTuple):
    """One message of a request.

    Attributes:
        role: `user`, `assistant`; results are the user's. What says who the assistant is comes under `system`.
        text: All that it says.
        calls: In order.
        results: Ids and texts, in order.
    """

    role: str
    text: str = ""
    calls: tuple[Call, ...] = ()
    results: tuple[tuple[str, str], ...] = ()


class Reply(NamedTuple):
    """What the model says: two calls at once, or a text."""

    text: str
    calls: tuple[Call, ...]
    usage: int


@dataclass(frozen=True)
class Case:
    """What happens to a conversation.

    Attributes:
        ids: `turn`: `call_0` and `call_1` in every turn. `one`: all calls have one id, also those of one answer. `single`: the same with one
            call in each answer. `own`: each call has an id of its own.
        usage: Input tokens that the model states, each time; -1: the true number.
        streamed: Its answers come in pieces.
        approvals: The user allows each call, where the framework can ask for it.
        restarts: Every ten turns all objects are made again, on what the framework stored.
    """

    ids: str
    usage: int
    streamed: bool = False
    approvals: bool = False
    restarts: bool = False

    def __str__(self) -> str:
        more = [name for name in ("streamed", "approvals", "restarts") if getattr(self, name)]
        return "-".join([self.ids, str(self.usage), *more])


CASES = (
    Case("turn", 0, streamed=True),
    Case("one", 1, approvals=True),
    Case("one", 50, restarts=True),
    Case("turn", 50, approvals=True, restarts=True),
)


@dataclass
class Brain:
    """Looks at two places in each turn, then says so.

    Attributes:
        case: What it gives its calls for ids, and what usage it states.
        dense: How many times the characters / 4 it counts, where the usage that it states is true.
        requests: How many it has had.
        wrong: What it would have refused, in words.
        largest: Characters / 4 of its largest request.
        whole: Results of the newest turn that it was shown whole.
    """

    case: Case
    dense: int = 1
    requests: int = 0
    wrong: list[str] = field(default_factory=list)
    largest: int = 0
    whole: int = 0
    _turn: int = 0

    def asked(self, request: Iterable[Heard]) -> Reply:
        """Its answer."""
        messages = list(request)
        self.requests += 1
        size = self._judge(messages)
        usage = size * self.dense if self.case.usage < 0 else self.case.usage
        if messages[-1].results:
            newest = [text for each in messages[-2:] for _, text in each.results]
            self.whole += sum("row 119 " in text for text in newest[-self.at_once :])
            return Reply(f"Turn {self._turn} is looked at.", (), usage)
        self._turn += 1
        names = {"turn": ("call_0", "call_1"), "one": ("call_0",) * 2, "single": ("call_0",)}.get(
            self.case.ids, (f"call_{self._turn}_0", f"call_{self._turn}_1")
        )
        calls = (Call(name, f"{self._turn}-{at}") for at, name in enumerate(names))
        return Reply("", tuple(calls), usage)

    @property
    def at_once(self) -> int:
        """How many calls it makes in each turn."""
        return 1 if self.case.ids == "single" else 2

    def _judge(self, messages: list[Heard]) -> int:
        waiting: list[Call] = []
        spoken = False
        for at, message in enumerate(messages):
            if message.role == "assistant":
                if waiting and not spoken:
                    self._refuse(at, f"{waiting} unanswered before the next answer")
                waiting = [*(waiting if spoken else ()), *message.calls]
            elif waiting and not message.results and message.role == "user":
                self._refuse(at, f"{waiting} unanswered")
                waiting = []
            spoken = message.role == "assistant"
            self._answers(at, message, waiting)
        if waiting:
            self._refuse(len(messages), f"{waiting} unanswered at the end")
        size = sum(len(message.text) for message in messages) // 4
        self.largest = max(self.largest, size)
        return size

    def _answers(self, at: int, message: Heard, waiting: list[Call]) -> None:
        for name, text in message.results:
            call = next((each for each in waiting if each.id == name), None)
            if call is None:
                self._refuse(at, f"result {name!r} without a call")
                continue
            waiting.remove(call)
            place = _PLACE.match(text)
            if place and place[1] != call.place:
                self._refuse(at, f"result of {place[1]} for the call of {call.place}")

    def _refuse(self, at: int, why: str) -> None:
        self.wrong.append(f"request {self.requests}, message {at}: {why}")


def looked(place: str) -> str:
    """What the tool gives back."""
    return f"place {place}: " + "".join(f"row {number} of the table\n" for number in range(120))


def question(turn: int) -> str:
    """What the user asks."""
    return f"Turn {turn}: look everywhere."

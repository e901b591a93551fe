"""What users of three kinds write, for the type checkers alone: nothing here runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, assert_type

import anthropic
from anthropic.types import MessageParam

import ullage
from ullage import ContextManager, Policy, SessionMemory
from ullage.counting import ModelTable, Weights, weights_for
from ullage.legality import Report, validate
from ullage.observe import Event, Hooks
from ullage.requests import KeptWindow
from ullage.summarizers import SummaryReply, SummaryRequest


class Writer:
    """A summarizer of one's own."""

    name = "mine"

    def summarize(self, request: SummaryRequest) -> SummaryReply:
        return SummaryReply(text=request.prompt)


async def awaited(request: SummaryRequest) -> str:
    return request.prompt


def on_event(event: Event) -> None:
    print(type(event).__name__)


def agent(client: anthropic.Anthropic, talk: list[MessageParam]) -> ContextManager:
    manager = ContextManager(
        model="claude-opus-4-5",
        summarizer=Writer(),
        fallback="extractive",
        memory=SessionMemory("notes"),
        hooks=Hooks(pre_compact=lambda payload: None),
        listeners=[on_event],
        policy=Policy.ladder(),
    )
    for message in talk:
        manager.add(message)
    request = manager.prepare()
    manager.observe(client.messages.create(model="m", max_tokens=9, **request.body))
    fork = manager.fork(summarizer=awaited, policy="ladder")
    return ContextManager.restore(fork.save(), history=fork.history, summarizer=Writer())


def lists(messages: Sequence[Mapping[str, Any]]) -> Report:
    result = ullage.compact(messages, summarizer=awaited, keep=2_000, redact=str.strip)
    kept = ullage.keep_window(messages, min_tokens=1, max_tokens=2)
    assert_type(kept, KeptWindow)
    assert_type(weights_for("claude-opus-4-5"), Weights)
    row = ModelTable.builtin().lookup("claude-opus-4-5")
    print(ullage.warning_state(3, row, autocompact=False).percent_left + 1)
    fixed = ullage.repair(messages, provider="anthropic", max_tokens=3)
    print(ullage.outgoing(messages, provider="gemini", system="Be brief.").messages[0]["role"])
    return validate(result.messages, original=fixed.messages, model="claude-opus-4-5")


def sessions(path: str) -> str:
    session = ullage.open_session(path)
    done = ullage.compact_session(session, output="x.jsonl", instructions="keep the plan", keep=0)
    return done.result.reason or str(done.path)

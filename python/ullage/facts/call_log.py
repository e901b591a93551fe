"""What calls did: files, commands, failures, agents, and a line for each call."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from ullage.facts.calls import Action, CallEffect, describe
from ullage.facts.identifiers import command_heads
from ullage.facts.model import AgentRun, Command, ToolStep
from ullage.facts.outcomes import CallOutcome
from ullage.facts.tallies import FailureTally, FileTally
from ullage.facts.words import is_launch

__all__ = ["MAX_STEPS", "CallLog", "home_of"]

MAX_STEPS = 400
"""Newest calls that are kept as lines; the tallies count all."""

MAX_CALLS = 12
"""Effects of one call that are listed line by line."""

_TIME = re.compile(r"Wall time: (\d{1,7})(?:\.(\d{1,3}))?")

_ON_FILES = (Action.READ, Action.EDIT, Action.WRITE, Action.DELETE)


class CallLog:
    """Calls whose results came, oldest first."""

    def __init__(self) -> None:
        self.commands: list[Command] = []
        self.steps: list[ToolStep] = []
        self.agents: list[AgentRun] = []
        self.files, self.failures = FileTally(), FailureTally()

    def ended(self, calls: Sequence[CallEffect], at: int, outcome: CallOutcome, text: str) -> None:
        """Note what one call did.

        Args:
            calls: Its effects, at least one.
            at: Index of the message that called.
            outcome: How it ended.
            text: Its result.
        """
        for call in calls:
            self._effect(call, at, outcome)
        for call in calls[:MAX_CALLS]:
            step = ToolStep(at, call.action, describe(call), outcome.ok, outcome.line)
            self.steps.append(step)
        first = calls[0]
        if first.action is Action.COMMAND:
            told = (outcome.ok, outcome.exit_code, outcome.line)
            self.commands.append(Command(at, first.target, *told, _spent(text)))
        elif first.action is Action.AGENT and not is_launch(text):
            self.agents.append(AgentRun(at, first.target[:2000], text.strip()[:2000]))

    def _effect(self, call: CallEffect, at: int, outcome: CallOutcome) -> None:
        if call.action is Action.POLL:
            self._polled(at, outcome)
        elif outcome.ok:
            self.failures.succeeded(call, at)
            if call.action in _ON_FILES:
                self.files.add(call, at)
        else:
            self.failures.failed(call, outcome, at)

    def _polled(self, at: int, outcome: CallOutcome) -> None:
        """Complete a command that continued in the background from the later call that reports its end."""
        if self.commands and outcome.exit_code is not None:
            last = self.commands[-1]
            self.commands[-1] = replace(
                last, ok=outcome.ok, exit_code=outcome.exit_code, line=outcome.line
            )
            if not outcome.ok:
                self.failures.failed(CallEffect(Action.COMMAND, "", last.text), outcome, at)


def home_of(call: CallEffect) -> str:
    """What the names in a call and its result belong to: its file, or its command."""
    if call.action in (Action.READ, Action.EDIT, Action.WRITE):
        return call.target if "\n" not in call.target else ""
    heads = command_heads(call.target) if call.action is Action.COMMAND else []
    return heads[0] if heads else ""


def _spent(text: str) -> int:
    """Milliseconds, where the tool reports them. Times of entries are not used: they include the wait for a permission."""
    told = _TIME.search(text[:300])
    return int(told[1]) * 1000 + int((told[2] or "0").ljust(3, "0")) if told else 0

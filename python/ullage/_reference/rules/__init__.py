"""The verifier: what a provider would refuse, over digests.

`Verifier` reads each message once. It keeps its small state every few messages, so that after an
edit only what comes after the edit is read again. Rules are named in `ullage.validate`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from ullage._engine.digests import Violation
from ullage._reference.digest import MessageFlag, Role
from ullage._reference.rules.anthropic import Anthropic
from ullage._reference.rules.facts import Facts
from ullage._reference.rules.findings import Findings
from ullage._reference.rules.openai import RULES, OpenAI
from ullage._reference.rules.view import LedgerLike, View
from ullage.exceptions import InvalidPolicy

__all__ = ["Verifier", "Violation", "check"]

# One state in so many messages is kept: after an edit at most this many are read once more.
STRIDE = 64
# A state that remembers more calls than this is not kept: memory stays in proportion to the messages.
KEPT_CALLS = 512


class Family(Protocol):
    """The rules of one provider family, as a state that messages are fed to."""

    def copy(self) -> Family: ...
    def calls(self) -> int: ...
    def feed(self, index: int, view: View, out: Findings) -> None: ...
    def finish(self, view: View, out: Findings) -> None: ...


def _family(provider: str, facts: Facts) -> Family:
    if provider == "anthropic":
        return Anthropic.start(facts)
    if provider in RULES:
        return OpenAI(provider, facts)
    raise InvalidPolicy("provider", provider, "is not one that digests can be checked for")


class Verifier:
    """Checks one ledger again and again, reading only what changed since the last time.

    Args:
        ledger: The conversation; later changes to it are seen.
        provider: Whose rules; see `check`.
        facts: See `check`.

    Raises:
        InvalidPolicy: An unknown provider or fact.
    """

    def __init__(self, ledger: LedgerLike, provider: str, facts: Mapping[str, Any]) -> None:
        known = Facts.read(facts)
        self._ledger = ledger
        self._out = Findings(known.skip)
        self._state = _family(provider, known)
        # States before message 0 and before some that STRIDE divides, with the numbers of these.
        self._kept = [(0, self._state.copy())]
        self._keeps = True
        self._upto = 0
        self._version = ledger.version
        self._read = 0

    @property
    def read(self) -> int:
        """Messages that the last check read."""
        return self._read

    def check(self) -> list[Violation]:
        """All violations as of now, sorted by message, block, rule and detail."""
        self._rewind(min(self._ledger.changed_since(self._version), len(self._ledger)))
        self._version = self._ledger.version
        self._read = len(self._ledger) - self._upto
        for index in range(self._upto, len(self._ledger)):
            self._feed(index)
        self._upto = len(self._ledger)
        return self._finish()

    def _rewind(self, index: int) -> None:
        if index >= self._upto:
            return
        while len(self._kept) > 1 and self._kept[-1][0] > index:
            self._kept.pop()
        self._upto, state = self._kept[-1]
        self._state = state.copy()
        self._out.rewind(self._upto)

    def _feed(self, index: int) -> None:
        due = self._keeps and index % STRIDE == 0 and index > self._kept[-1][0]
        if due and self._state.calls() <= KEPT_CALLS:
            self._kept.append((index, self._state.copy()))
        message = self._ledger.message(index)
        # Envelopes without a message are not on the wire.
        if message.role == Role.NONE and not message.flags & MessageFlag.BAD_ROLE:
            return
        self._out.at = index
        self._state.feed(index, View(message, self._ledger.blocks(index), self._ledger), self._out)

    def _finish(self) -> list[Violation]:
        out = self._out
        out.at = self._upto
        self._state.finish(View(NOTHING, [], self._ledger), out)
        found = [violation for _, violation in out.found]
        out.rewind(self._upto)
        return sorted(found, key=_place)


NOTHING: Any = None


def _place(violation: Violation) -> tuple[int, int, str, str]:
    return violation.message, violation.block, violation.rule, violation.detail


def check(ledger: LedgerLike, provider: str, facts: Mapping[str, Any]) -> list[Violation]:
    """Checks a conversation against the rules of a provider.

    Args:
        ledger: The messages in the provider's own form.
        provider: `anthropic`, `openai_chat`, `mistral`, `deepseek` or `local`.
        facts: The model's limits and the request's other parts; see `Facts`.

    Returns:
        Errors (the provider would refuse) and warnings, sorted by message, block, rule and detail.

    Raises:
        InvalidPolicy: An unknown provider or fact.
    """
    once = Verifier(ledger, provider, facts)
    once._keeps = False
    return once.check()

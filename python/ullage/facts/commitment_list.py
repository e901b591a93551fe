"""What a conversation has agreed on, as data: rules, decisions, plan, tasks and open work, each with who said it and its state."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum

from ullage.facts.collector import collect
from ullage.facts.commitments import CommitmentKind, commitments_in
from ullage.facts.corrections import ReplacedValue, corrections_of, names_value
from ullage.facts.model import Facts, Origin, Task, UserInput, WorkItem
from ullage.facts.prose import rules_of
from ullage.messages import Item

__all__ = ["AgreedItem", "AgreedState", "CommitmentList", "commitments_of"]


class AgreedState(StrEnum):
    """Whether it still holds, or how far it is."""

    HOLDS = "holds"
    REPLACED = "replaced"
    OPEN = "open"
    FAILED = "failed"
    DONE = "done"
    WITHDRAWN = "withdrawn"


@dataclass(frozen=True, slots=True)
class AgreedItem:
    """One rule, decision or piece of work, verbatim."""

    kind: CommitmentKind
    text: str
    by: Origin
    index: int  # of the message that said so, or of the call that changed it last
    state: AgreedState = AgreedState.HOLDS
    replaced_by: int = (
        0  # number of the user's message that corrects a value in it, from 1; 0: none
    )
    question: str = ""  # what a decision, an approval or a denial answers
    call: str = ""  # id of the call that did the work, failed at it, or succeeded without closing it; empty: none
    error: str = ""  # of failed work: the line of that call's result


@dataclass(frozen=True, slots=True)
class CommitmentList:
    """Everything agreed, rules and decisions in order of the messages, then work."""

    items: tuple[AgreedItem, ...] = ()
    plan: str = ""  # that the user approved last; empty: none
    waiting_for: str = ""  # the question that nobody has answered; empty: none

    def of(self, *kinds: CommitmentKind | str) -> tuple[AgreedItem, ...]:
        """The items of these kinds.

        Args:
            kinds: Such as `"prohibition"` or `CommitmentKind.TODO`.
        """
        wanted = {CommitmentKind(kind) for kind in kinds}
        return tuple(item for item in self.items if item.kind in wanted)

    @property
    def open(self) -> tuple[AgreedItem, ...]:
        """The work that is still to be done, also what a call failed at."""
        still = (AgreedState.OPEN, AgreedState.FAILED)
        return tuple(item for item in self.items if item.state in still)


def commitments_of(items: Iterable[Item]) -> CommitmentList:
    """What a conversation has agreed on. Text of tools never counts, and nothing is guessed.

    Args:
        items: Messages or entries, oldest first: `manager.history`, or `session.history` of an opened one.

    Example:
        >>> found = commitments_of([{"role": "user", "content": "Fix it. Never push to main."}])
        >>> [(str(item.kind), item.text) for item in found.items]
        [('prohibition', 'Never push to main.')]
    """
    facts = collect(items)
    said = sorted([*_by_user(facts), *_decided(facts)], key=lambda item: item.index)
    return CommitmentList((*said, *_work(facts)), facts.plan, facts.open_question)


def _by_user(facts: Facts) -> Iterator[AgreedItem]:
    later: dict[int, list[ReplacedValue]] = {}
    for found in corrections_of(facts.inputs):
        later.setdefault(found.at, []).append(found)
    for at, entry in enumerate(facts.inputs):
        for kind, text in _binding(entry):
            item = AgreedItem(kind, text, entry.origin, entry.index, question=entry.question)
            by = [each.number for each in later.get(at, ()) if names_value(text, each.old)]
            yield replace(item, state=AgreedState.REPLACED, replaced_by=by[-1]) if by else item


def _binding(entry: UserInput) -> list[tuple[CommitmentKind, str]]:
    """Sentences with their kind; of the user's own work tasks and open work say how far it is."""
    found = {each.text: each.kind for each in commitments_in(entry.text, answers=entry.question)}
    for rule in rules_of(entry.text):
        found.setdefault(rule.text, CommitmentKind.OBLIGATION)
    return [(kind, text) for text, kind in found.items() if kind is not CommitmentKind.TODO]


def _decided(facts: Facts) -> Iterator[AgreedItem]:
    """Answers to questions of tools, and what the assistant said was decided."""
    replied = {entry.index for entry in facts.inputs}
    for made in facts.decisions:
        if made.index not in replied:
            yield AgreedItem(
                CommitmentKind.DECISION,
                made.answer,
                made.origin,
                made.index,
                question=made.question,
            )
    for said in facts.settled:
        yield AgreedItem(CommitmentKind.DECISION, said.text, said.origin, said.index)


def _work(facts: Facts) -> Iterator[AgreedItem]:
    for task in facts.tasks:
        if task.subject:
            yield _as_item(task, task.subject)
    for work in (*facts.still_open, *facts.closed_work):
        yield _as_item(work, work.text)


def _as_item(work: Task | WorkItem, text: str) -> AgreedItem:
    state = AgreedState(work.state.value)
    return AgreedItem(
        CommitmentKind.TODO,
        text,
        work.origin,
        work.index,
        state,
        call=work.call,
        error=work.error,
    )

"""What a conversation has agreed on, as data: rules, decisions, plan, tasks and open work, each with who said it and its state."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum

from ullage.facts.collector import collect
from ullage.facts.commitments import CommitmentKind, commitments_in
from ullage.facts.model import Facts, Origin, UserInput
from ullage.facts.prose import rules_of
from ullage.facts.result_facts import values_in
from ullage.messages import Item

__all__ = ["AgreedItem", "AgreedState", "CommitmentList", "commitments_of"]


class AgreedState(StrEnum):
    """Whether it still holds or is still to be done."""

    HOLDS = "holds"
    REPLACED = "replaced"
    OPEN = "open"
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
        """The work that is still to be done."""
        return tuple(item for item in self.items if item.state is AgreedState.OPEN)


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
    for entry in facts.inputs:
        for kind, text in _binding(entry):
            item = AgreedItem(kind, text, entry.origin, entry.index, question=entry.question)
            if _same_matter(text, entry.corrected):
                item = replace(item, state=AgreedState.REPLACED, replaced_by=entry.corrected_by)
            yield item


def _binding(entry: UserInput) -> list[tuple[CommitmentKind, str]]:
    """Sentences with their kind; of the user's own work tasks and open work say how far it is."""
    found = {each.text: each.kind for each in commitments_in(entry.text, answers=entry.question)}
    for rule in rules_of(entry.text):
        found.setdefault(rule.text, CommitmentKind.OBLIGATION)
    return [(kind, text) for text, kind in found.items() if kind is not CommitmentKind.TODO]


def _same_matter(text: str, correction: str) -> bool:
    """Whether a correction of a message is about this sentence of it: it names a value of it."""
    return bool(correction and values_in(text) & values_in(correction))


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


_STATES = {
    "completed": AgreedState.DONE,
    "done": AgreedState.DONE,
    "cancelled": AgreedState.WITHDRAWN,
    "deleted": AgreedState.WITHDRAWN,
}


def _work(facts: Facts) -> Iterator[AgreedItem]:
    for task in facts.tasks:
        state = _STATES.get(task.status, AgreedState.OPEN)
        if task.subject:
            yield AgreedItem(CommitmentKind.TODO, task.subject, task.origin, task.index, state)
    for said in facts.still_open:
        yield AgreedItem(CommitmentKind.TODO, said.text, said.origin, said.index, AgreedState.OPEN)

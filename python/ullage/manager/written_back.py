"""The view in the form in which a framework gave its list: its own objects where nothing changed, and where each message came from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Literal, NamedTuple, TypeAlias

from ullage.levels.view import StageReport, View
from ullage.manager.machine import as_given
from ullage.manager.whole_list import Followed, speaks
from ullage.messages import Item, as_sent, message_of
from ullage.providers.registry import Provider

Action: TypeAlias = Literal["kept", "replaced", "removed", "inserted"]


class PlanStep(NamedTuple):
    """What became of one message, as data.

    Attributes:
        action: `kept`: it is sent as it was given. `replaced`: in other words. `removed`: not at all. `inserted`: Ullage wrote it.
        given: Its position in the given list; `None`: it was not there.
        at: Its position in the list to send; `None`: it is not there.
    """

    action: Action
    given: int | None
    at: int | None


@dataclass(frozen=True, slots=True, repr=False)
class ListView:
    """A framework's list, made to fit.

    Attributes:
        messages: To send, in the form of the given list; those that need no change are the very objects given.
        origin: For each of them the position of the given message that it is made of; `None`: Ullage wrote it.
        plan: What became of every message, in order, as data.
        reports: Of the levels that acted in this call.
        tokens: Estimate of the request, system prompt and tools included.
        tools: Definitions that levels offer to the model; usually none.
    """

    messages: list[Item]
    origin: list[int | None]
    plan: tuple[PlanStep, ...]
    reports: tuple[StageReport, ...] = ()
    tokens: int = 0
    tools: tuple[Mapping[str, Any], ...] = ()

    @property
    def changed(self) -> bool:
        """Whether anything is not as it was given."""
        return any(step.action != "kept" for step in self.plan)

    def __repr__(self) -> str:
        acted = ", ".join(report.stage for report in self.reports) or "nothing done"
        return f"ListView({len(self.messages)} messages, ≈{self.tokens:_} tokens, {acted})"


class Written(NamedTuple):
    """One message to send."""

    message: Item
    origin: int | None  # of which given message it is made
    same: bool  # as it was given


def written_back(
    view: View, items: Sequence[Item], followed: Followed, form: Provider, names: Mapping[str, str]
) -> list[Written]:
    """The messages to send, in the form of the given list; not yet checked. `names`: see `CallIds.came_as`."""
    owners = [
        followed.owner(source) if isinstance(source, int) else None for source in view.sources
    ]
    written: list[Written] = []
    for owner, group in groupby(range(len(owners)), key=owners.__getitem__):
        at = list(group)
        if owner is not None and len(at) == 1 and _is_given(view, at[0], owner, items, followed):
            written.append(Written(items[owner], owner, True))
        else:
            written += _of_owner(view, at, owner, items, followed, form, names)
    return written


def _is_given(view: View, at: int, owner: int, items: Sequence[Item], followed: Followed) -> bool:
    """Whether a message of the view is the very object that was given, and all that became of it: most are, in a list that is handed over again."""
    original = view.originals[at]
    shown = view.shown[at] is original and items[owner] is original
    whole = followed.ends[owner] - followed.start(owner) == 1
    return shown and whole and as_sent(original) is original


def _of_owner(
    view: View,
    at: list[int],
    owner: int | None,
    items: Sequence[Item],
    followed: Followed,
    form: Provider,
    names: Mapping[str, str],
) -> Iterator[Written]:
    messages = [view.messages[place] for place in at]
    if owner is None:
        messages_written = _translated(messages, view, form, names)
        yield from (Written(message, None, False) for message in messages_written)
        return
    whole = len(at) == followed.ends[owner] - followed.start(owner)
    same = whole and all(view.shown[place] is view.originals[place] for place in at)
    if form.internal:
        for place in at:
            mine = same and _says_the_same(items[owner], view.originals[place])
            as_it_is = mine and as_sent(items[owner]) is items[owner]
            yield Written(items[owner] if as_it_is else view.messages[place], owner, mine)
    elif same:
        yield Written(items[owner], owner, True)
    else:
        messages_written = _translated(messages, view, form, names)
        yield from (Written(message, owner, False) for message in messages_written)


def _says_the_same(theirs: Item, ours: Item) -> bool:
    """Whether a message was taken as it is: a second call under a used id is given another."""
    one, other = message_of(theirs) or {}, message_of(ours) or {}
    return one is other or one.get("content") == other.get("content")


# ---- parts of a conversation in a provider's form ------------------------------------------------


def _translated(
    messages: Sequence[Item], view: View, form: Provider, names: Mapping[str, str]
) -> list[Any]:
    """Some messages in the provider's form, under the ids that stand in the list; a form that names a result's tool is shown the calls first."""
    if form.internal:
        return list(messages)
    before = [as_given(message, names) for message in _calls_before(messages, view)]
    key = form.list_key
    skip = len(form.shape.to_provider(before).parts[key]) if before else 0
    named = (as_given(message, names) for message in messages)
    return list(form.shape.to_provider([*before, *named]).parts[key][skip:])


def _calls_before(messages: Sequence[Item], view: View) -> list[Item]:
    """A user's word and an answer with the calls whose results are among the messages."""
    calls = []
    for name in (str(block.get("tool_use_id")) for block in _blocks(messages, "tool_result")):
        place = view.ledger.find_call(name)
        blocks_before = () if place is None else _blocks([view.messages[place[0]]], "tool_use")
        calls += [block for block in blocks_before if block.get("id") == name][:1]
    if not calls:
        return []
    return [{"role": "user", "content": "."}, {"role": "assistant", "content": calls}]


def _blocks(messages: Sequence[Item], kind: str) -> Iterator[Mapping[str, Any]]:
    for message in messages:
        content = message.get("content")
        for block in content if isinstance(content, list) else ():
            if isinstance(block, Mapping) and block.get("type") == kind:
                yield block


# ---- legal, and said as data ----------------------------------------------------------------------


def legal_again(
    written: Sequence[Written], form: Provider, model: str, system: Any
) -> list[Written]:
    """The messages as the provider takes them; legal ones are the same objects, the others keep their origin."""
    from ullage.legality.repairs import repair
    from ullage.requests.to_request import rules_model

    messages = [line.message for line in written]
    if not messages:
        return []
    # A list that ends with the model's words gets the user's next message from its framework.
    waits = speaks(messages[-1])
    asked = [*messages, form.user_message(".")] if waits else messages
    done = repair(asked, provider=form, model=rules_model(model, form), system=system)
    if done.messages is asked:
        return list(written)
    return aligned(written, list(done.messages)[: -1 if waits else None])


def named_as_given(
    written: Sequence[Written], items: Sequence[Item], names: Mapping[str, str]
) -> list[Written]:
    """The messages under the ids that stand in the list, for whoever pairs calls and results by their place; what says the same as there is as it was given."""
    named = []
    for line in written:
        if not line.same and (message := as_given(line.message, names)) is not line.message:
            at = line.origin
            same = at is not None and _says_the_same(items[at], message)
            line = Written(items[at] if same and at is not None else message, at, same)
        named.append(line)
    return named


def aligned(before: Sequence[Written], after: Sequence[Item]) -> list[Written]:
    """Messages after a repair, each with the origin of the one that it stands in place of."""
    places = {id(line.message): at for at, line in enumerate(before)}
    aligned_lines: list[Written] = []
    following = 0
    for at, message in enumerate(after):
        place = places.get(id(message))
        if place is not None:
            aligned_lines.append(before[place])
            following = place + 1
            continue
        resumes = next((places[id(line)] for line in after[at:] if id(line) in places), len(before))
        fits = following < resumes and before[following].message.get("role") == message.get("role")
        aligned_lines.append(Written(message, before[following].origin if fits else None, False))
        following += fits
    return aligned_lines


def standing(written: Sequence[Written], items: Sequence[Item]) -> list[Written]:
    """What the list already says as it is to be sent, since the newest view was kept, as given."""
    standing_lines: list[Written] = []
    # A place that another message is made of stays that message's.
    origins = {line.origin for line in written}
    following = 0
    for line in written:
        place = following if line.origin is None else line.origin
        free = (
            not line.same and place < len(items) and (line.origin == place or place not in origins)
        )
        if free and items[place] == line.message:
            line = Written(items[place], place, True)
        standing_lines.append(line)
        following = following if line.origin is None else line.origin + 1
    return standing_lines


def plan_of(written: Sequence[Written], count: int) -> tuple[PlanStep, ...]:
    """What became of each of so many given messages, in order, and what was put between them."""
    steps: list[PlanStep] = []
    seen: set[int] = set()
    following = 0
    for at, line in enumerate(written):
        if line.origin is None:
            steps.append(PlanStep("inserted", None, at))
            continue
        if line.origin != following:
            steps += _removed(range(following, line.origin), seen)
        following = max(following, line.origin + 1)
        seen.add(line.origin)
        steps.append(PlanStep("kept" if line.same else "replaced", line.origin, at))
    return (*steps, *_removed(range(following, count), seen))


def _removed(places: range, seen: set[int]) -> list[PlanStep]:
    return [PlanStep("removed", at, None) for at in places if at not in seen]

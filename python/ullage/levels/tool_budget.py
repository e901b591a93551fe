"""Tool-result budget: large results go to the store and leave a reference with a preview.

Each result is looked at once, when it is new: one that was sent whole is never replaced here later, and a reference
stays the same for ever, so that the provider's cache holds.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import TYPE_CHECKING

from ullage._engine.digests import Role
from ullage.effects import Call, Flow
from ullage.exceptions import StoreError
from ullage.facts.calls import matches
from ullage.levels.level import NEVER, Context, Level, Rest
from ullage.levels.snip import head, shortened
from ullage.levels.view import Decision, Result, StageReport, View
from ullage.policy import Policy

if TYPE_CHECKING:
    from ullage.recall.store import OffloadStore

STAGE = "tool_budget"
NO_OUTPUT = "(the tool gave no output)"
_ASSISTANT = int(Role.ASSISTANT)


def run(context: Context) -> Flow[StageReport | None] | None:
    """Offload what is too large, and say of empty results that they are; `None` if there is no new result."""
    view = context.view
    # Results of messages that were sent before are decided.
    new = [
        result
        for result in view.results(view.sent)
        if result.id not in view.whole and result.id not in view.decisions and not result.replaced
    ]
    return _decided(context, new) if new else None


def rest(context: Context) -> Rest:
    """Until a result is empty or too large."""
    limits = context.policy.tool_budget
    if not limits.enabled or context.store is None:
        return NEVER
    return Rest(result_chars=limits.max_result_chars, message_chars=limits.max_message_chars)


def _decided(context: Context, new: list[Result]) -> Flow[StageReport | None]:
    view, policy, store = context.view, context.policy, context.store
    limits = policy.tool_budget
    chosen: list[tuple[Result, Decision]] = [
        (result, Decision(result.id, STAGE, NO_OUTPUT)) for result in new if _is_empty(result)
    ]
    failures: list[str] = []
    if limits.enabled and store is not None:
        for result in _too_large(view, new, policy):
            decision = yield from _reference(view, result, policy, store, failures)
            chosen.append((result, decision))
    chosen_ids = {result.id for result, _ in chosen}
    view.whole.update(dict.fromkeys(result.id for result in new if result.id not in chosen_ids))
    if not chosen:
        return None
    over = f"results over {limits.max_result_chars:,} characters, or {limits.max_message_chars:,} together"
    noted = [result for result, _ in chosen if _is_empty(result)]
    why = [over] * (len(noted) < len(chosen)) + ["empty results"] * bool(noted)
    return view.report(STAGE, "; ".join(why), chosen, failures=tuple(failures))


def _is_empty(result: Result) -> bool:
    return result.chars == 0 and not result.has_media


def _too_large(view: View, new: list[Result], policy: Policy) -> Iterator[Result]:
    limits = policy.tool_budget
    able = [
        result
        for result in new
        if result.chars
        and not result.has_media
        and not matches(result.tool, limits.unlimited_tools)
    ]
    able.sort(key=lambda result: (-result.chars, result.message))
    roles: bytes = view.ledger.roles()
    # Results with no assistant message between them become one message on the wire.
    for _, group in groupby(new, key=lambda result: roles.count(_ASSISTANT, 0, result.message)):
        together = list(group)
        members, size = {one.id for one in together}, sum(one.chars for one in together)
        for result in (one for one in able if one.id in members):
            if result.chars > limits.max_result_chars or size > limits.max_message_chars:
                size -= max(0, result.chars - limits.preview_bytes)
                yield result


def _reference(
    view: View, result: Result, policy: Policy, store: OffloadStore, failures: list[str]
) -> Flow[Decision]:
    text = view.text(result)
    try:
        place = yield Call(store.put, (result.id, text))
    except StoreError as exc:
        failures.append(f"{result.id}: {exc}; snipped in place instead")
        return Decision(result.id, STAGE, shortened(text, policy, result.id))
    preview = head(text, policy.tool_budget.preview_bytes)
    reference = (
        f"<persisted-output>\nThe output was too large to stay here ({len(text):,} characters). It lies in: {place}\n\n"
        f"It begins:\n{preview.rstrip()}\n...\n</persisted-output>"
    )
    return Decision(result.id, STAGE, reference)


LEVEL = Level(STAGE, run, rest=rest)

"""Repairs of a form that has none of its own: read into the internal view, repaired there, written back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from ullage.legality.internal import inner, readable
from ullage.legality.repairs.items import no_messages, repair_items
from ullage.legality.repairs.loop import RepairStep, mend, steps
from ullage.legality.repairs.pairs import repair_pairs
from ullage.legality.repairs.repair_request import RepairRequest
from ullage.legality.repairs.result import Repair, Repaired
from ullage.legality.repairs.through_internal import same_objects
from ullage.legality.repairs.working_copy import Draft
from ullage.legality.rule_request import found_in

__all__ = ["repair"]


def repair(items: Sequence[Any], request: RepairRequest) -> Repaired:
    """Repairs items of any form; those that come out as they went in are the same objects."""
    report = request.report(items)
    if report.ok:
        return Repaired(items)
    form, unread = readable(items, request)
    done = mend(
        form.messages,
        work=Draft(form.messages),
        plan=_plan(request),
        check=partial(found_in, request=inner(request)),
        report=found_in(form.messages, inner(request)),
    )
    repairs = [
        *(
            Repair("A01", at, -1, "dropped an item that does not have the provider's format")
            for at in unread
        ),
        *(each._replace(message=_owner(each, form.owners), block=-1) for each in done.repairs),
    ]
    if not repairs:
        return Repaired(items, (), report.errors)
    shaped = request.provider.shape.to_provider(done.messages)
    written = same_objects(shaped.parts[request.provider.list_key], items, items)
    left = request.report(written).errors
    if len(left) > len(report.errors):
        return Repaired(items, (), report.errors)
    return Repaired(written, tuple(repairs), left)


def _plan(request: RepairRequest) -> list[RepairStep]:
    return steps(
        ("A01", repair_items),
        ("A02", _blank),
        ("A05 A06", lambda draft: repair_pairs(draft, orphans=request.orphans)),
        ("A01 A02", no_messages),
    )


def _blank(draft: Draft) -> None:
    """Drops text that says nothing, and messages that hold nothing else; what no rule knows stays."""
    for slot in draft.speaking():
        kept = [block for block in slot.blocks if not _says_nothing(block)]
        if len(kept) < len(slot.blocks):
            draft.note("A02", slot, "dropped a blank text block")
            slot.blocks = kept
    draft.drop_empty("A02")


def _says_nothing(block: object) -> bool:
    text = block.get("text") if isinstance(block, Mapping) and block.get("type") == "text" else None
    return isinstance(text, str) and not text.strip()


def _owner(repair: Repair, owners: Sequence[int]) -> int:
    return owners[repair.message] if 0 <= repair.message < len(owners) else -1

"""Snip by turns: user inputs carry short ids, and the model may remove whole turns by them (SNIP-2 to SNIP-5).

An id is added after a user input when it is sent for the first time, and stays there, so that the cached prefix holds. It
is in the request's copy only. What is removed stays in the history and can be recalled by the same id.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, Self

from ullage._engine.digests import Role
from ullage._start import hashlib, pattern
from ullage.facts.words import text_of
from ullage.levels.level import NEVER, NOW, Context, Level, Rest, turn_starts
from ullage.levels.view import StageReport, View, unrecorded
from ullage.messages import uuid_of
from ullage.recall.text import NamedSpan, Tool, ToolAnswer, title_of

STAGE = "turn_snip"

REMINDER = (
    "<system-reminder>The conversation has grown since turns were last removed. If earlier turns are not needed any more, "
    "remove them with the Snip tool; each user message ends with its id. Do not mention this reminder.</system-reminder>"
)

SNIP_TOOL = Tool(
    name="Snip",
    description=(
        "Removes whole earlier turns (a user message and everything that followed it) from what you are shown, to make room. "
        "Use it for work that is finished and not needed any more. User messages end with their id, as in [id:a1b2c3]. "
        "The current turn cannot be removed. Removed turns are kept and can be recalled by the same id."
    ),
    schema={
        "type": "object",
        "properties": {
            "ids": {
                "type": "array",
                "items": {"type": "string"},
                "minItems": 1,
                "description": "Ids of the turns to remove.",
            },
            "reason": {"type": "string", "description": "Why they are not needed, in a few words."},
        },
        "required": ["ids"],
        "additionalProperties": False,
    },
)
"""The definition for the model. Turns have ids only where the host offers this tool and `snip.turns` is on."""

_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"
_HEX = pattern(r"[0-9a-f]", re.IGNORECASE)
_REASON_CHARS = 300


@dataclass(slots=True)
class TurnSnip:
    """What this level remembers of a conversation."""

    # By position in the history: the id that a user input is sent with.
    ids: dict[int, str] = field(default_factory=dict)
    # Turns that the model asked to remove, by id, with its reason; done at the next request.
    asked: dict[str, str] = field(default_factory=dict)
    # Removed turns: their first and last position in the history.
    removed: dict[str, NamedSpan] = field(default_factory=dict)
    base_tokens: int = -1  # size of the context at the last snip or reminder; -1: not measured yet

    def dump(self) -> dict[str, Any]:
        """As plain JSON."""
        return {
            "ids": {str(at): name for at, name in self.ids.items()},
            "asked": dict(self.asked),
            "removed": {name: span._asdict() for name, span in self.removed.items()},
            "base_tokens": self.base_tokens,
        }

    @classmethod
    def load(cls, stored: Any) -> Self:
        """What `dump` gave."""
        return cls(
            ids={int(at): name for at, name in stored["ids"].items()},
            asked=dict(stored["asked"]),
            removed={name: NamedSpan(**span) for name, span in stored["removed"].items()},
            base_tokens=stored["base_tokens"],
        )


def run(context: Context) -> StageReport | None:
    """Remove the requested turns, add ids after new user inputs, remind; `None` if nothing was removed.

    Nothing happens with `snip.turns` off, or where the host does not offer the tool.
    """
    if SNIP_TOOL.name not in context.tools or not context.policy.snip.turns:
        return None
    view, state = context.view, context.state(TurnSnip)
    report = _remove(view, state) if state.asked else None
    # Only after messages that were never sent: an id that came later would change the cached prefix.
    for at in turn_starts(view.ledger, view.sent):
        source = view.sources[at]
        if isinstance(source, int) and source not in state.ids:
            logged = view.uuids.get(source, "")
            name = short_id(view.originals[at], source, state.ids.values(), logged=logged)
            state.ids[source] = name
            view.append_text(at, f"[id:{name}]")
    _remind(context, state, snipped=report is not None)
    return report


def rest(context: Context) -> Rest:
    """For ever where turns have no ids."""
    offered = SNIP_TOOL.name in context.tools and context.policy.snip.turns
    return NOW if offered else NEVER


def reset(context: Context) -> None:
    """After a compaction, growth is measured from scratch."""
    context.state(TurnSnip).base_tokens = -1


def rewind(context: Context, count: int) -> None:
    """Forget the ids and removals of messages that were taken back."""
    state = context.state(TurnSnip)
    state.ids = {at: name for at, name in state.ids.items() if at < count}
    state.asked = {name: why for name, why in state.asked.items() if name in state.ids.values()}
    state.removed = {name: span for name, span in state.removed.items() if span.last < count}
    state.base_tokens = -1


# ---- ids -------------------------------------------------------------------------------------


def short_id(
    item: Mapping[str, Any], position: int, used: Iterable[str], *, logged: str = ""
) -> str:
    """A user input's id: the first 10 hex digits of its uuid in base 36, the first 6 characters of that.

    One that is taken gets longer, by further digits, then by a hash of the uuid. A message without a uuid, in the host's
    list (`uuid`) and in the log (`logged`), is named by a hash of its position and text.
    """
    named = uuid_of(item) or logged
    uuid = named or f"{position}:{text_of(item)}"
    digest = hashlib.sha256(uuid.encode("utf-8", "surrogatepass")).hexdigest()
    digits = "".join(_HEX.findall(uuid)) if named else ""
    first = digits[:10] if len(digits) >= 10 else digest[:10]
    name = _base36(int(first, 16)).rjust(6, "0") + _base36(int(digest[:20], 16))
    used_ids = set(used)
    return next(name[:size] for size in range(6, len(name) + 1) if name[:size] not in used_ids)


def _base36(number: int) -> str:
    digits = ""
    while number:
        number, quotient = divmod(number, 36)
        digits = _DIGITS[quotient] + digits
    return digits or "0"


# ---- removing --------------------------------------------------------------------------------


def answer(arguments: Any, view: View, state: TurnSnip) -> ToolAnswer:
    """The answer to a call of the Snip tool with this `input`; what it removes is left out from the next request on."""
    body = arguments if isinstance(arguments, Mapping) else {}
    asked = body.get("ids")
    asked = [asked] if isinstance(asked, str) else asked
    if not isinstance(asked, Sequence) or not asked:
        return ToolAnswer("Give the ids of the turns to remove.", is_error=True)
    # As the model may have copied them: `[id:a1b2c3]`, `id:a1b2c3`, `a1b2c3`.
    bare = (str(name).strip().strip("[]").removeprefix("id:").strip()[:80] for name in asked)
    names = list(dict.fromkeys(bare))
    turns = _turns(view, state)
    current = next(reversed(turns), "")
    good = [name for name in names if name in turns and name != current]
    reason = body.get("reason")
    state.asked.update(dict.fromkeys(good, reason if isinstance(reason, str) else ""))
    return ToolAnswer(_words(names, good, current), is_error=not good)


def _words(names: Sequence[str], good: Sequence[str], current: str) -> str:
    unknown = [name for name in names if name not in good and name != current]
    words = [f"Removed from the next request on: {', '.join(good)}."] if good else []
    if current in names:
        words.append(f"The current turn ({current}) cannot be removed.")
    if unknown:
        words.append(f"No turn here has the id {', '.join(unknown)}.")
    return " ".join(words)


def _turns(view: View, state: TurnSnip) -> dict[str, tuple[int, int]]:
    """Turns in the view by id, oldest first: where they start and stop."""
    starts = turn_starts(view.ledger)
    turns = {}
    for start, stop in pairwise([*starts, len(view)]):
        source = view.sources[start]
        if isinstance(source, int) and source in state.ids:
            turns[state.ids[source]] = (start, stop)
    return turns


def _remove(view: View, state: TurnSnip) -> StageReport | None:
    turns = _turns(view, state)
    current = next(reversed(turns), "")
    chosen = {name: turns[name] for name in state.asked if name in turns and name != current}
    reasons, state.asked = state.asked, {}
    if not chosen:
        return None
    removed = [
        at
        for start, stop in chosen.values()
        for at in range(start, stop)
        if isinstance(view.sources[at], int)  # a placeholder stands for other turns too
    ]
    uuids = [uuid for at in sorted(removed) if (uuid := view.uuid_at(at))]
    for name, (start, stop) in chosen.items():
        positions = [source for source in view.sources[start:stop] if isinstance(source, int)]
        title = title_of(view.originals[start])
        state.removed[name] = NamedSpan(positions[0], positions[-1], title)
    why = "; ".join(filter(None, dict.fromkeys(reasons[name] for name in chosen)))[:_REASON_CHARS]
    report = view.rearranged(
        STAGE,
        f"{len(chosen)} turn(s) removed by the model: {why or 'no reason given'}",
        [at for at in range(len(view)) if at not in set(removed)],
    )
    if len(uuids) < len(removed):
        # A line that names some of them would leave calls without results.
        return replace(report, failures=(unrecorded(len(removed) - len(uuids)),))
    from ullage.transcript import records

    return replace(report, records=(records.snip(uuids, reason=why, freed_tokens=report.freed),))


# ---- reminding -------------------------------------------------------------------------------


def _remind(context: Context, state: TurnSnip, *, snipped: bool) -> None:
    """Once after this much growth, after the newest user message, while there is a turn that could be removed."""
    view, growth_tokens = context.view, context.policy.snip.reminder_tokens
    now = view.tokens(context.overhead_tokens)
    if snipped or state.base_tokens < 0 or now < state.base_tokens:
        state.base_tokens = now
    newest = len(view) - 1
    if now - state.base_tokens < growth_tokens or newest < view.sent:
        return
    able = view.ledger.message(newest).role == Role.USER and isinstance(view.sources[newest], int)
    if able and len(_turns(view, state)) > 1:
        view.append_text(newest, REMINDER)
        state.base_tokens = now


LEVEL = Level(STAGE, run, TurnSnip, reset=reset, rewind=rewind, rest=rest)

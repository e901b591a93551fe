"""Thinking that is bound to its prefix: messages after a rewrite lose it, permanently (MIC-8, P-1).

Newer models accept a thinking block only after exactly the messages that it was generated after. Where a level rewrote message k, all
thinking from k on is void; it is left out once, and never put back, so that what is kept stays one unbroken run. If that
splits the open turn, the turn is ended with two lines of text, which stay too.
"""

from __future__ import annotations

from dataclasses import replace

from ullage._engine.digests import BlockKind, Role
from ullage.counting.models import Model
from ullage.levels.level import NEVER, NOW, Context, Level, Rest
from ullage.levels.view import Made, StageReport, View
from ullage.messages import THINKING
from ullage.providers.anthropic import is_torn

STAGE = "drop_stale_thinking"
_THINKING = (BlockKind.THINKING, BlockKind.REDACTED_THINKING)


def after(report: StageReport, view: View, model: Model | None) -> StageReport:
    """The step after each rewrite: on a model that binds thinking, what the rewrite made stale is left out. The report, with the tokens that are left."""
    first = report.first_changed
    if first is None or model is None or not model.bound_thinking or not unbind(view, first):
        return report
    return replace(report, tokens_after=int(view.ledger.tokens()))


def run(context: Context) -> None:
    """With manual thinking, end the open turn, for good, where something has cut off the thinking that it began with."""
    view = context.view
    if rest(context) is NEVER and not (context.manual_thinking and context.reports):
        return
    # Not while results are still to come (A14).
    if len(view) and not view.ledger.open_calls() and is_torn(view.ledger):
        _end_turn(view)


def rest(context: Context) -> Rest:
    """Until something is rewritten."""
    first = context.request == 1 or context.view.changed_from is not None
    return NOW if context.manual_thinking and first else NEVER


def unbind(view: View, first_changed: int) -> int:
    """Leave out the thinking of messages from the first that a level just changed; returns how many messages lost it."""
    lost = [at for at in view.ledger.with_kinds(*_THINKING) if at >= first_changed]
    if not lost:
        return 0
    # The open turn begins after the newest user message that answers no call.
    inputs = (
        at
        for at in range(len(view) - 1, -1, -1)
        if view.ledger.message(at).role == Role.USER
        and not any(block.kind == BlockKind.TOOL_RESULT for block in view.ledger.blocks(at))
    )
    is_open = lost[-1] > next(inputs, -1)
    view.strip((), lost)
    # What a level made is rebuilt; a message that held only thinking is removed.
    written_by_levels = {at for at in lost if not isinstance(view.sources[at], int)}
    thinking = set(view.ledger.with_kinds(*_THINKING)).intersection(lost) - written_by_levels
    if written_by_levels or thinking:
        order = (at for at in range(len(view)) if at not in thinking)
        parts = [_bare(view, at) if at in written_by_levels else at for at in order]
        view.rearranged(STAGE, "thinking that is bound to another prefix", parts)
    if is_open and view.ledger.message(-1).role == Role.USER:
        _end_turn(view)
    return len(lost)


def _bare(view: View, at: int) -> Made:
    """What a level made, without its thinking: a kept response that a compaction wrote again."""
    from ullage.legality.blocks import TURN_CLOSED

    message = view.messages[at]
    blocks = [block for block in message["content"] if block.get("type") not in THINKING]
    text = [{"type": "text", "text": TURN_CLOSED}]
    return Made(str(view.sources[at]), {**message, "content": blocks or text})


def _end_turn(view: View) -> None:
    from ullage.legality.thinking import turn_end

    key = f"closed:{view.sources[-1]}"
    received, closed = turn_end()
    parts = [*range(len(view)), Made(f"{key}.a", received), Made(f"{key}.u", closed)]
    view.rearranged(STAGE, "the open turn has lost its thinking", parts)


LEVEL = Level(STAGE, run, rest=rest)

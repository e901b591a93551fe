"""The tools that the library offers to a model, answered for one conversation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ullage.exceptions import InvalidPolicy
from ullage.levels import offers, turn_snip
from ullage.levels.offers import COMPACT_TOOL, CONTEXT_TOOL, Offers
from ullage.levels.turn_snip import SNIP_TOOL, TurnSnip
from ullage.manager.known import Host
from ullage.manager.machine import Machine
from ullage.recall import RECALL_TOOL, Archive, Recall, left
from ullage.recall.text import ToolAnswer


def recall_of(machine: Machine, host: Host) -> Recall:
    """Recall over everything that was added to the conversation."""
    transcript = None if host.logged else host.options.get("transcript_path") or None
    archive = Archive(machine.history, store=host.offload, transcript=transcript)
    for state in machine.states.values():
        for handle, span in getattr(state, "removed", {}).items():
            archive.name(handle, span)
    view = machine.view
    return Recall(archive, listing=lambda: left(archive, view.sources, view.messages))


def answer(machine: Machine, host: Host, name: str, given: Any) -> ToolAnswer:
    """The answer to a call of one of the library's tools.

    Raises:
        InvalidPolicy: There is no such tool here.
    """
    act = _TOOLS.get(name)
    if act is None:
        raise InvalidPolicy("tool", name, f"must be one of {', '.join(_TOOLS)}")
    return act(machine, host, given)


def _recall(machine: Machine, host: Host, given: Any) -> ToolAnswer:
    return recall_of(machine, host).call(given)


def _snip(machine: Machine, host: Host, given: Any) -> ToolAnswer:
    del host
    return turn_snip.answer(given, machine.view, machine.state(TurnSnip))


def _compact(machine: Machine, host: Host, given: Any) -> ToolAnswer:
    del host
    state, possible = machine.state(Offers), machine.window.compaction
    return offers.ask(given, machine.view, machine.policy, state, possible=possible)


def _usage(machine: Machine, host: Host, given: Any) -> ToolAnswer:
    del host, given
    usage = machine.usage()
    lines = [f"{usage.tokens:,} of {usage.window_tokens:,} tokens ({usage.percent} %)."]
    lines += [f"{name}: {tokens:,}" for name, tokens in usage.by_category.items()]
    return ToolAnswer("\n".join(lines))


_TOOLS: dict[str, Callable[[Machine, Host, Any], ToolAnswer]] = {
    RECALL_TOOL.name: _recall,
    SNIP_TOOL.name: _snip,
    COMPACT_TOOL.name: _compact,
    CONTEXT_TOOL.name: _usage,
}

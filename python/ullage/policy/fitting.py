"""A policy for a small window: token and character counts keep the share that they have of a large one (WIN-8)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

__all__ = ["FULL_WINDOW_TOKENS", "fitted_values"]

FULL_WINDOW_TOKENS: Final = 100_000
"""From this window on, a policy's numbers apply unchanged."""

_LEAST: Final[Mapping[str, int]] = {
    "tool_budget.max_result_chars": 2_000,
    "tool_budget.max_message_chars": 4_000,
    "tool_budget.preview_bytes": 200,
    "snip.max_chars": 1_000,
    "snip.reminder_tokens": 200,
    "micro.min_freed_tokens": 0,
    "collapse.min_span_tokens": 100,
    "keep.min_tokens": 0,
    "keep.max_tokens": 1,
    "summary.max_output_tokens": 256,
    "summary.facts_max_tokens": 0,
    "summary.user_messages_max_tokens": 100,
    "restore.file_max_tokens": 1,
    "restore.files_max_tokens": 1,
    "restore.skill_max_tokens": 1,
    "restore.skills_max_tokens": 1,
    "restore.plan_max_tokens": 1,
    "restore.state_max_tokens": 1,
    "truncate.margin_tokens": 0,
    "protect.large_read_chars": 1_000,
    "session_memory.start_tokens": 100,
    "session_memory.growth_tokens": 100,
    "session_memory.section_max_tokens": 100,
    "session_memory.total_max_tokens": 400,
    "offer.compact_min_tokens": 100,
}
"""The fields that are fitted, with the smallest sensible value of each."""


def fitted_values(
    values: Mapping[str, Any], defaults: Mapping[str, Any], window_tokens: int
) -> dict[str, int]:
    """The values that differ in a small window; empty from 100 000 tokens on.

    Args:
        values: Values of a policy, by dotted name.
        defaults: Values of its preset; a field that differs from it was set explicitly and stays.
        window_tokens: The context window.
    """
    if window_tokens >= FULL_WINDOW_TOKENS:
        return {}
    found: dict[str, int] = {}
    for name, least in _LEAST.items():
        given = values.get(name)
        if isinstance(given, int) and given == defaults.get(name):
            fitted = min(given, max(least, given * window_tokens // FULL_WINDOW_TOKENS))
            if fitted != given:
                found[name] = fitted
    return found

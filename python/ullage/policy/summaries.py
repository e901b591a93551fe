"""Settings of compaction: when, how much stays, the summary call, what is restored, the last resort, session notes."""

from __future__ import annotations

from ullage.policy.fields import Group, group, number, switch

__all__ = [
    "AutocompactPolicy",
    "KeepPolicy",
    "RestorePolicy",
    "SessionMemoryPolicy",
    "SummaryPolicy",
    "TruncatePolicy",
]


@group("auto")
class AutocompactPolicy(Group):
    """When older messages are replaced by a summary."""

    enabled: bool = switch(
        True, "if off, compaction runs only on request or after an overflow error"
    )
    reactive_only: bool = switch(False, "compact only after the provider refused")
    start_percent: int = number(
        0,
        "percent of the window",
        "trigger as a share of the window; 0: the fixed buffers of the window",
        high=100,
    )
    target_percent: int = number(
        50,
        "percent of the trigger",
        "size at which a share-based compaction should end",
        low=1,
        high=100,
    )
    target_tokens: int = number(
        0,
        "tokens",
        "size limit of the context after an automatic compaction, system prompt and tools included; 0: the share",
        low=0,
    )
    max_failures: int = number(
        3, "failures in a row", "after this many, no more automatic tries", low=1
    )
    refill_turns: int = number(
        3, "turns", "full again within this many turns counts as a refill", low=1
    )
    max_refills: int = number(
        3, "refills in a row", "after this many, stop and report what fills the window", low=1
    )
    background_percent: int = number(
        0,
        "percent of the trigger",
        "from here a summary is written in advance, in the background; 0: never",
        high=100,
    )
    max_after_percent: int = number(
        60, "percent of the trigger", "a result above this is not worth installing", low=1, high=100
    )


@group("keep")
class KeepPolicy(Group):
    """How much of the newest conversation stays verbatim."""

    min_tokens: int = number(
        10_000, "tokens", "enough to continue, together with the messages below", low=0
    )
    max_tokens: int = number(40_000, "tokens", "enough by itself", low=1)
    min_text_messages: int = number(5, "messages", "messages with text that should stay", low=0)


@group("summary")
class SummaryPolicy(Group):
    """The call that writes a summary, and the handling of its response."""

    max_output_tokens: int = number(20_000, "tokens", "room for the summary", low=100)
    retries: int = number(2, "tries", "further tries after a failed call", low=0, high=10)
    overflow_retries: int = number(
        3, "tries", "head truncations when the call itself is too long", low=0, high=20
    )
    drop_percent: int = number(
        20, "percent of the rounds", "dropped if the error names no gap", low=1, high=99
    )
    deadline_seconds: int = number(180, "seconds", "for the whole call", low=1)
    stall_seconds: int = number(60, "seconds", "without any token", low=1)
    min_freed_percent: int = number(
        5,
        "percent of the context",
        "a compaction on demand that frees less changes nothing",
        high=90,
        low=0,
    )
    facts_max_tokens: int = number(6_000, "tokens", "appended facts that the summary lost", low=0)
    user_messages_max_tokens: int = number(
        20_000, "tokens", "user messages kept verbatim, newest first", low=100
    )


@group("restore")
class RestorePolicy(Group):
    """What is restored after a compaction."""

    max_files: int = number(5, "files", "recently read, newest first", low=0)
    file_max_tokens: int = number(5_000, "tokens", "of one file", low=1)
    files_max_tokens: int = number(50_000, "tokens", "of all files", low=0)
    skill_max_tokens: int = number(5_000, "tokens", "of one skill, from its top", low=1)
    skills_max_tokens: int = number(25_000, "tokens", "of all skills", low=0)
    plan_max_tokens: int = number(10_000, "tokens", "of the plan, from its top", low=1)
    state_max_tokens: int = number(
        10_000, "tokens", "of tasks, tools, agents and MCP instructions, each kind", low=0
    )


@group("truncate")
class TruncatePolicy(Group):
    """The last resort: whole oldest rounds are dropped."""

    start_percent: int = number(95, "percent of the window", "only above this", low=1, high=100)
    margin_tokens: int = number(
        1_000, "tokens", "kept free in addition to system prompt and messages", low=0
    )


@group("session_memory")
class SessionMemoryPolicy(Group):
    """Notes that are kept while the agent works, so that a compaction needs no model call."""

    enabled: bool = switch(False, "keep session notes up to date")
    start_tokens: int = number(
        10_000, "tokens", "size of the conversation at the first update", low=0
    )
    growth_tokens: int = number(5_000, "tokens", "growth until the next", low=1)
    tool_calls: int = number(3, "calls", "tool calls since the last update", low=0)
    section_max_tokens: int = number(2_000, "tokens", "of one section", low=100)
    total_max_tokens: int = number(12_000, "tokens", "of the file", low=100)
    wait_seconds: int = number(
        15, "seconds", "a compaction waits this long for a running update", low=0
    )
    stale_seconds: int = number(60, "seconds", "an update older than this counts as stuck", low=1)

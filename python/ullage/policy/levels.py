"""Settings of the levels before the summary, and of what they leave alone."""

from __future__ import annotations

from ullage.policy.fields import Group, choice, group, names, number, switch

__all__ = [
    "CollapsePolicy",
    "CostPolicy",
    "MicrocompactPolicy",
    "OfferPolicy",
    "ProtectPolicy",
    "SnipPolicy",
    "ToolBudgetPolicy",
]

KEPT_TOOLS = ("AskUserQuestion", "TodoWrite", "Task", "Skill", "memory", "recall", "Snip")
"""Tools whose results stay, by family: answers of the user or another agent, todo lists, recalled content."""


@group("tool_budget")
class ToolBudgetPolicy(Group):
    """Large tool results go to a store and leave a reference with a preview."""

    enabled: bool = switch(True, "the cheapest level; lossless")
    max_result_chars: int = number(
        50_000, "characters", "one result above this is offloaded on arrival", low=1
    )
    max_message_chars: int = number(
        200_000,
        "characters",
        "if all results of one user message exceed this, the largest are offloaded first",
        low=1,
    )
    preview_bytes: int = number(
        2_000, "bytes", "how much of an offloaded result stays readable", low=0
    )
    unlimited_tools: tuple[str, ...] = names(
        ("Read",),
        "offloading these is pointless, since the agent reads the output back; in any spelling, such as read_file",
    )


@group("snip")
class SnipPolicy(Group):
    """Long results lose their middle in place; whole turns are removed when the model asks for it."""

    enabled: bool = switch(True, "in-place snip of long results")
    max_chars: int = number(
        10_000, "characters", "a result above this keeps its head and tail", low=100
    )
    head_percent: int = number(30, "percent of max_chars", "kept from the start", low=1, high=49)
    tail_percent: int = number(30, "percent of max_chars", "kept from the end", low=1, high=49)
    start_percent: int = number(
        50, "percent of the window", "below this nothing is snipped; 0: always", high=100
    )
    on_arrival: bool = switch(
        False, "snip a long result at any fill, before an answer to it and before it is ever cached"
    )
    turns: bool = switch(True, "append ids to user inputs and offer the Snip tool")
    reminder_tokens: int = number(
        10_000, "tokens", "growth without a snip until one reminder is attached", low=1
    )


@group("micro")
class MicrocompactPolicy(Group):
    """Old results of tools become a placeholder or one line."""

    tools: tuple[str, ...] = names(
        ("*",),
        "tools whose results are eligible: names in any spelling, or patterns such as mcp__*",
    )
    exclude_tools: tuple[str, ...] = names(
        KEPT_TOOLS, "tools whose results stay anyway: names in any spelling, or patterns"
    )
    by_time: bool = switch(False, "clear after a pause: the prompt cache has expired by then")
    idle_minutes: int = number(60, "minutes", "pause since the newest assistant message", low=1)
    keep_recent: int = number(5, "results", "how many of the newest results stay", low=1)
    by_line: bool = switch(False, "replace results of the older half by one line each")
    line_start_percent: int = number(
        60, "percent of the window", "from here results are replaced by one line each", high=100
    )
    line_max_tokens: int = number(100, "tokens", "length of one line from a model", low=10)
    by_supersession: bool = switch(
        True, "clear reads that a later read or write of the file replaced"
    )
    supersede_start_percent: int = number(
        40, "percent of the window", "below this no superseded result is cleared", high=100
    )
    supersede_max_percent: int = number(
        50,
        "percent of the eligible tokens",
        "maximum that one pass clears by supersession",
        low=1,
        high=100,
    )
    by_provider: bool = switch(False, "let the provider clear old tool uses")
    provider_trigger_tokens: int = number(
        180_000, "tokens", "input size at which the provider clears", low=1
    )
    provider_clear_tokens: int = number(
        140_000, "tokens", "minimum that the provider clears at once", low=1
    )
    provider_clear_inputs: bool = switch(
        False, "let the provider clear the inputs of the calls too"
    )
    provider_thinking: str = choice(
        "default", "thinking that the provider keeps: its default, all, or that of some turns",
        "default", "all", "turns",
    )  # fmt: skip
    provider_thinking_turns: int = number(
        2, "turns", "newest turns whose thinking stays, if limited to some turns", low=1
    )
    provider_compact_tokens: int = number(
        0, "tokens", "input size at which the provider writes a summary; 0: never"
    )
    by_cache_edit: bool = switch(
        False, "name old results as data, for a host that can drop them from a cache"
    )
    edit_start_percent: int = number(
        40, "percent of the window", "below this no result is named for cache edits", high=100
    )
    min_freed_tokens: int = number(2_000, "tokens", "a pass that frees less is not done", low=0)
    low_watermark_percent: int = number(
        50,
        "percent of the trigger",
        "a pass clears down to here, so that the next one comes late",
        low=1,
        high=100,
    )
    refetch_percent: int = number(
        25,
        "percent of the cleared results",
        "the level backs off if more than this is fetched again",
        low=1,
        high=100,
    )


@group("collapse")
class CollapsePolicy(Group):
    """Spans of old rounds are replaced by one placeholder each; replaces automatic compaction while on."""

    enabled: bool = switch(False, "if on, automatic compaction is deferred")
    stage_percent: int = number(
        70, "percent of the effective window", "from here spans are summarised in advance", high=100
    )
    commit_percent: int = number(
        90, "percent of the effective window", "from here staged spans are committed", high=100
    )
    block_percent: int = number(
        95, "percent of the effective window", "from here a request waits for a summary", high=100
    )
    target_percent: int = number(
        70, "percent of the effective window", "commits stop below this", high=100
    )
    min_span_tokens: int = number(
        2_000, "tokens", "smaller spans are not worth a placeholder", low=1
    )
    keep_recent_rounds: int = number(6, "rounds", "the newest rounds are never collapsed", low=1)


@group("protect")
class ProtectPolicy(Group):
    """What the levels before the summary leave alone."""

    user_inputs: int = number(3, "messages", "the newest user inputs", low=1)
    assistant_messages: int = number(1, "messages", "the newest assistant messages", low=1)
    tool_results: int = number(5, "results", "the newest are at most snipped", low=0)
    large_read_chars: int = number(
        20_000, "characters", "file reads above this are cleared first", low=1
    )


@group("cost")
class CostPolicy(Group):
    """Whether a rewrite waits until it pays."""

    wait_requests: int = number(
        0,
        "requests",
        "clearing or snipping that pays only after more requests than this is postponed; 0: never",
    )


@group("offer")
class OfferPolicy(Group):
    """What the model learns about its context, and may request; each tool only where the host offers it."""

    notice_percent: int = number(
        0,
        "percent of the window",
        "from here the model is notified how full its context is; 0: never",
        high=99,
    )
    notice_step_percent: int = number(
        10, "percent of the window", "growth until the next notice", low=1, high=100
    )
    compact_min_tokens: int = number(
        20_000, "tokens", "a compaction that the model asks for must be able to free this", low=0
    )
    compact_limit: int = number(
        3, "compactions", "maximum requests by the model in a conversation", low=0
    )

"""What fills the window: tokens by category, by tool and by file, and how much each level could free.

The engine reads the messages once and counts (`core.Survey`); here stands what the settings say of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field

from ullage._engine import core
from ullage._start import Frozen
from ullage.counting.calibration import Weights
from ullage.facts.calls import matches
from ullage.facts.words import host_texts, is_host_only
from ullage.messages import LONGEST_MARKER, Item, check_list, role_of
from ullage.policy import Policy

CATEGORIES = (
    "summary", "user", "assistant", "thinking", "tool calls", "tool results", "media", "host text", "other",
)  # fmt: skip

OVERHEAD = "system prompt and tools"  # what a usage figure holds beyond the messages
FRAMES = "message frames"  # what an API adds to each message: its role and its borders

# What the categories are whose names do not say it.
NOTABLE = {
    "host text": "what the client wrote into the user's messages: reminders, skills, hooks, notifications",
    "other": "blocks of a kind that this version does not know",
    FRAMES: "what the API adds to each message",
}


class ToolUsage(Frozen):
    """One tool: how often it was called, and the tokens of its calls and results."""

    name: str
    calls: int
    errors: int
    tokens: int


class FileUsage(Frozen):
    """One file: tokens of the results that show it, and how often it was used."""

    path: str
    calls: int
    tokens: int


class Freeable(Frozen):
    """What one level would free if it acted now: estimated tokens, and the number of blocks."""

    level: str
    tokens: int
    places: int
    how: str


class Inspection(Frozen):
    """The contents of a conversation.

    Attributes:
        tokens: Calibrated estimate of all messages; without system prompt and tool definitions.
        anchored_tokens: The provider's newest usage figure plus the estimate of what follows; with
            system prompt and tools where the figure had them. If nothing was reported: `tokens` and `overhead_tokens`.
        anchored: Whether a usage figure was found.
        categories: Tokens by what they are, system prompt and tools among them where a usage figure tells; they sum to
            `anchored_tokens`.
        rounds: API rounds. `largest_round` is the tokens of the largest.
    """

    messages: int
    tokens: int
    anchored_tokens: int
    anchored: bool
    categories: dict[str, int]
    tools: list[ToolUsage]
    files: list[FileUsage]
    rounds: int
    largest_round: int
    user_inputs: int
    open_calls: int
    freeable: list[Freeable] = field(default_factory=list)


def inspect_messages(
    items: Sequence[Item],
    *,
    weights: Weights | None = None,
    policy: Policy | None = None,
    overhead_tokens: int = 0,
) -> Inspection:
    """Measure what fills a conversation.

    Args:
        items: Bare messages or entries, as they would be sent.
        weights: Weights of the calibrated estimate; `None`: characters / 4.
        policy: Decides what each level would free; `None`: `Policy.buffered()`.
        overhead_tokens: System prompt and tools, if no usage figure of these items includes them; 0: unknown.

    Returns:
        Counts and estimates, in tokens.

    Raises:
        InvalidMessage: An item is not a message; names its index and field.
    """
    check_list(items)
    survey = core.Survey(weights, items)
    # Bare messages have no mark of what hosts wrote into user messages.
    tokens = alone = 0
    for item in items:
        if "role" in item and role_of(item) == "user" and (texts := host_texts(item)):
            ledger = core.Ledger(weights, [{"role": "user", "content": "\n".join(texts)}])
            tokens += sum(block.tokens for block in ledger.blocks(0))
            alone += is_host_only(item)
    host = tokens, alone
    return inspection_of(survey, policy=policy, overhead_tokens=overhead_tokens, host=host)


def inspection_of(
    survey: core.Survey,
    *,
    policy: Policy | None = None,
    overhead_tokens: int = 0,
    host: tuple[int, int] = (0, 0),
) -> Inspection:
    """As `inspect_messages`, of messages that the engine has read.

    `host`: tokens of what hosts wrote into the user's messages, and how many of these the user wrote no part of; 0: what is
    not marked in the log counts as the user's.
    """
    count, facts, estimated = survey.anchored(), survey.facts(), survey.tokens
    whole = count.total + (0 if count.anchor is not None else overhead_tokens)

    def scaled(tokens: int) -> int:
        """Parts stay smaller than the whole where the provider counts less than the estimate."""
        return tokens if whole >= estimated else tokens * whole // estimated

    categories = dict(zip(CATEGORIES, facts.categories, strict=True))
    moved = min(host[0], categories["user"])
    categories["user"] -= moved
    categories["host text"] += moved
    categories = {name: tokens for name, tokens in categories.items() if tokens}
    return Inspection(
        messages=len(survey),
        tokens=estimated,
        anchored_tokens=whole,
        anchored=count.anchor is not None,
        categories=_shares(categories, estimated, whole),
        tools=[
            ToolUsage(name or "(unknown)", calls, errors, scaled(tokens))
            for name, calls, errors, tokens in facts.tools
        ],
        files=[FileUsage(path, calls, scaled(tokens)) for path, calls, _, tokens in facts.files],
        rounds=facts.rounds,
        largest_round=scaled(facts.largest_round),
        user_inputs=facts.user_inputs - host[1],
        open_calls=facts.open_calls,
        freeable=[
            Freeable(level, scaled(tokens), places, how)
            for level, (tokens, places), how in _freeable(
                survey, facts.media, policy or Policy.buffered()
            )
        ],
    )


def _shares(counts: dict[str, int], estimated: int, whole: int) -> dict[str, int]:
    """The categories so that they sum to the whole: including each message's frame and what is sent besides the messages."""
    frames = estimated - sum(counts.values())
    overhead = whole - estimated
    if frames:
        counts[FRAMES] = frames
    if overhead > 0:
        counts[OVERHEAD] = overhead
    elif overhead < 0 and estimated:  # the provider counts less than the estimate
        counts = {name: count * whole // estimated for name, count in counts.items()}
        largest = max(counts, key=lambda name: counts[name])
        counts[largest] += whole - sum(counts.values())
    return counts


def _freeable(
    survey: core.Survey, media: tuple[int, int], policy: Policy
) -> tuple[tuple[str, tuple[int, int], str], ...]:
    """What each level would free (tokens and places, estimated), and how."""
    budget, snip, micro = policy.tool_budget, policy.snip, policy.micro
    limits = {
        "max_result": budget.max_result_chars,
        "preview": budget.preview_bytes,
        "snip_max": snip.max_chars,
        "snip_kept": snip.max_chars * (snip.head_percent + snip.tail_percent) // 100,
        "keep_recent": micro.keep_recent,
        "longest_marker": LONGEST_MARKER,
        "min_tokens": policy.keep.min_tokens,
        "max_tokens": policy.keep.max_tokens,
        "min_text_messages": policy.keep.min_text_messages,
    }
    tools = survey.result_tools()
    unlimited = [matches(tool, budget.unlimited_tools) for tool in tools]
    clearable = [
        matches(tool, micro.tools) and not matches(tool, micro.exclude_tools) for tool in tools
    ]
    large, long, old, summary = survey.freeable(limits, unlimited, clearable)
    moved = f"results over {budget.max_result_chars:,} characters move to a file"
    becomes = (
        f"all but the newest messages (at least {policy.keep.min_tokens:,} tokens) become a summary, "
        "whose own size comes off this"
    )
    return (
        ("tool-result budget", large, moved),
        ("snip", long, f"results over {snip.max_chars:,} characters lose their middle"),
        ("microcompact", old, f"all except the newest {micro.keep_recent} results"),
        ("media", media, "images and documents are removed for a summary call"),
        ("summary", summary, becomes),
    )

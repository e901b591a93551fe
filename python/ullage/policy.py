"""Every number that decides what is compacted, when and how far: frozen, validated, printable.

A `Policy` is made of small groups, one per level. Two presets: `Policy.buffered()` works with fixed buffers below the window,
`Policy.ladder()` with shares of the window. `Policy.load()` lays a TOML file and keyword overrides over a preset.
"""

from __future__ import annotations

import dataclasses
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self

from ullage.exceptions import InvalidPolicy

__all__ = [
    "AutocompactPolicy",
    "CollapsePolicy",
    "CostPolicy",
    "EffectiveValue",
    "KeepPolicy",
    "MicrocompactPolicy",
    "OfferPolicy",
    "Policy",
    "ProtectPolicy",
    "RestorePolicy",
    "SessionMemoryPolicy",
    "SnipPolicy",
    "SummaryPolicy",
    "ToolBudgetPolicy",
    "TruncatePolicy",
]

RERUNNABLE_TOOLS = ("Read", "Bash", "Grep", "Glob", "WebSearch", "WebFetch", "Edit", "Write")
"""Tools whose results can be had again by calling them again."""


class EffectiveValue(NamedTuple):
    """One setting as it stands: `name` is dotted (`snip.max_chars`), `unit` may be empty."""

    name: str
    value: Any
    unit: str
    why: str


def _number(
    default: float | None, unit: str, why: str, *, low: float = 0, high: float | None = None
) -> Any:
    """A numeric field; `None` as default means that the field may be `None` (off)."""
    limit = {
        "low": low,
        "high": high,
        "optional": default is None,
        "integer": isinstance(default, int),
    }
    return dataclasses.field(default=default, metadata={"unit": unit, "why": why, "number": limit})


def _choice(default: Any, why: str, *choices: Any) -> Any:
    return dataclasses.field(default=default, metadata={"why": why, "choices": choices})


def _names(default: tuple[str, ...], why: str) -> Any:
    return dataclasses.field(default=default, metadata={"why": why, "names": True})


def _check_number(name: str, value: Any, limit: Mapping[str, Any]) -> None:
    if value is None and limit["optional"]:
        return
    wanted = int if limit["integer"] else (int, float)
    if isinstance(value, bool) or not isinstance(value, wanted):
        raise InvalidPolicy(
            name, value, "must be a whole number" if limit["integer"] else "must be a number"
        )
    if value < limit["low"] or (limit["high"] is not None and value > limit["high"]):
        upper = "" if limit["high"] is None else f" and at most {limit['high']:,}"
        raise InvalidPolicy(name, value, f"must be at least {limit['low']:,}{upper}")


def _check_names(name: str, value: Any) -> None:
    if not isinstance(value, tuple) or not all(isinstance(item, str) and item for item in value):
        raise InvalidPolicy(name, value, "must be a tuple of names")


def _check(name: str, value: Any, metadata: Mapping[str, Any]) -> None:
    if "number" in metadata:
        _check_number(name, value, metadata["number"])
    elif "names" in metadata:
        _check_names(name, value)
    elif not any(
        value is choice or (value == choice and type(value) is type(choice))
        for choice in metadata["choices"]
    ):
        raise InvalidPolicy(
            name, value, f"must be one of {', '.join(map(repr, metadata['choices']))}"
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class _Group:
    GROUP: ClassVar[str] = ""

    def __post_init__(self) -> None:
        for item in dataclasses.fields(self):
            if item.metadata:
                _check(f"{self.GROUP}.{item.name}", getattr(self, item.name), item.metadata)


@dataclass(frozen=True, kw_only=True, slots=True)
class ToolBudgetPolicy(_Group):
    """Large tool results go to a store and leave a reference with a preview."""

    GROUP: ClassVar[str] = "tool_budget"

    enabled: bool = _choice(True, "the cheapest level: nothing is lost", True, False)
    max_result_chars: int = _number(
        50_000, "characters", "one result above this is offloaded on arrival", low=1
    )
    max_message_chars: int = _number(
        200_000,
        "characters",
        "all results of one user message above this: the largest go first",
        low=1,
    )
    preview_bytes: int = _number(
        2_000, "bytes", "how much of an offloaded result stays readable", low=0
    )
    unlimited_tools: tuple[str, ...] = _names(("Read",), "their output would only be read back")


@dataclass(frozen=True, kw_only=True, slots=True)
class SnipPolicy(_Group):
    """Long results lose their middle in place; whole turns leave when the model asks for it."""

    GROUP: ClassVar[str] = "snip"

    enabled: bool = _choice(True, "in-place snip of long results", True, False)
    max_chars: int = _number(
        10_000, "characters", "a result above this keeps its head and tail", low=100
    )
    head_percent: int = _number(30, "percent", "share kept from the start", low=1, high=49)
    tail_percent: int = _number(30, "percent", "share kept from the end", low=1, high=49)
    start_percent: int = _number(
        0, "percent of the window", "below this nothing is snipped; 0: always", high=100
    )
    on_arrival: bool = _choice(
        False, "snip a long result when it arrives, before it is ever cached", True, False
    )
    turns: bool = _choice(True, "append ids to user inputs and offer the Snip tool", True, False)
    reminder_tokens: int = _number(
        10_000, "tokens", "growth without a snip until one reminder is attached", low=1
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class MicrocompactPolicy(_Group):
    """Old results of tools that can be run again become a placeholder or one line."""

    GROUP: ClassVar[str] = "micro"

    tools: tuple[str, ...] = _names(RERUNNABLE_TOOLS, "names or patterns such as mcp__*")
    by_time: bool = _choice(
        False, "clear after a pause: the prompt cache is cold by then", True, False
    )
    idle_minutes: int = _number(60, "minutes", "pause since the newest assistant message", low=1)
    keep_recent: int = _number(5, "results", "how many stay, the newest first", low=1)
    by_line: bool = _choice(
        False, "replace results of the older half by one line each", True, False
    )
    line_start_percent: int = _number(
        60, "percent of the window", "from here results become one line", high=100
    )
    line_max_tokens: int = _number(100, "tokens", "length of one line from a model", low=10)
    by_supersession: bool = _choice(
        True, "clear reads that a later read or write of the file replaced", True, False
    )
    supersede_start_percent: int = _number(
        40, "percent of the window", "below this nothing is superseded", high=100
    )
    supersede_max_percent: int = _number(
        50,
        "percent of the eligible tokens",
        "most that one pass clears by supersession",
        low=1,
        high=100,
    )
    by_provider: bool = _choice(False, "let the provider clear old tool uses itself", True, False)
    provider_trigger_tokens: int = _number(
        180_000, "tokens", "input size at which the provider clears", low=1
    )
    provider_clear_tokens: int = _number(
        140_000, "tokens", "least that the provider clears at once", low=1
    )
    provider_clear_inputs: bool = _choice(
        False, "let the provider clear the inputs of the calls too", True, False
    )
    provider_thinking: str = _choice(
        "default", "thinking that the provider keeps: as it does, all, or of some turns",
        "default", "all", "turns",
    )  # fmt: skip
    provider_thinking_turns: int = _number(
        2, "turns", "newest turns whose thinking stays, where it is of some turns", low=1
    )
    provider_compact_tokens: int = _number(
        0, "tokens", "input size at which the provider writes a summary itself; 0: never"
    )
    by_cache_edit: bool = _choice(
        False, "name old results as data, for a host that can drop them from a cache", True, False
    )
    min_freed_tokens: int = _number(2_000, "tokens", "a pass that frees less is not done", low=0)
    low_watermark_percent: int = _number(
        50,
        "percent of what set it off",
        "a pass clears down to here, so that the next is far off",
        low=1,
        high=100,
    )
    refetch_percent: int = _number(
        25,
        "percent of the cleared results",
        "fetched again above this: the stage backs off",
        low=1,
        high=100,
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class CollapsePolicy(_Group):
    """Spans of old rounds are archived behind one placeholder each; replaces autocompact while on."""

    GROUP: ClassVar[str] = "collapse"

    enabled: bool = _choice(False, "on: autocompact stands back", True, False)
    stage_percent: int = _number(
        70, "percent of the effective window", "from here spans are summarised ahead", high=100
    )
    commit_percent: int = _number(
        90, "percent of the effective window", "from here staged spans are committed", high=100
    )
    block_percent: int = _number(
        95, "percent of the effective window", "from here a request waits for a summary", high=100
    )
    target_percent: int = _number(
        70, "percent of the effective window", "commits stop below this", high=100
    )
    min_span_tokens: int = _number(
        2_000, "tokens", "smaller spans are not worth a placeholder", low=1
    )
    keep_recent_rounds: int = _number(6, "rounds", "the newest rounds are never collapsed", low=1)


@dataclass(frozen=True, kw_only=True, slots=True)
class AutocompactPolicy(_Group):
    """When the conversation is replaced by a summary and its newest part."""

    GROUP: ClassVar[str] = "auto"

    enabled: bool = _choice(True, "off: only on demand and on overflow", True, False)
    reactive_only: bool = _choice(False, "compact only after the provider refused", True, False)
    start_percent: int = _number(
        0,
        "percent of the window",
        "trigger as a share of the window; 0: the fixed buffers of the window",
        high=100,
    )
    target_percent: int = _number(
        50, "percent of the trigger", "where a share-based compaction should end", low=1, high=100
    )
    max_failures: int = _number(3, "failures in a row", "then no more automatic tries", low=1)
    refill_turns: int = _number(
        3, "turns", "full again within this many turns counts as a refill", low=1
    )
    max_refills: int = _number(
        3, "refills in a row", "then stop and say what fills the window", low=1
    )
    background_percent: int = _number(
        0,
        "percent of the trigger",
        "from here a compaction runs ahead in the background; 0: never",
        high=100,
    )
    max_after_percent: int = _number(
        60, "percent of the trigger", "a result above this is not worth installing", low=1, high=100
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class KeepPolicy(_Group):
    """How much of the newest conversation stays verbatim."""

    GROUP: ClassVar[str] = "keep"

    min_tokens: int = _number(
        10_000, "tokens", "enough to go on, together with the messages below", low=0
    )
    max_tokens: int = _number(40_000, "tokens", "enough by itself", low=1)
    min_text_messages: int = _number(5, "messages", "messages with text that should stay", low=0)


@dataclass(frozen=True, kw_only=True, slots=True)
class SummaryPolicy(_Group):
    """The call that writes a summary, and what is done with its answer."""

    GROUP: ClassVar[str] = "summary"

    max_output_tokens: int = _number(20_000, "tokens", "room for the summary", low=100)
    retries: int = _number(2, "tries", "further tries after a failed call", low=0, high=10)
    overflow_retries: int = _number(
        3, "tries", "head truncations when the call itself is too long", low=0, high=20
    )
    drop_percent: int = _number(
        20, "percent of the rounds", "dropped where the error names no gap", low=1, high=99
    )
    deadline_seconds: int = _number(180, "seconds", "for the whole call", low=1)
    stall_seconds: int = _number(60, "seconds", "without any token", low=1)
    facts_max_tokens: int = _number(6_000, "tokens", "appended facts that the summary lost", low=0)
    user_messages_max_tokens: int = _number(
        20_000, "tokens", "user messages kept word for word, newest first", low=100
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class RestorePolicy(_Group):
    """What is put back after a compaction."""

    GROUP: ClassVar[str] = "restore"

    max_files: int = _number(5, "files", "recently read, newest first", low=0)
    file_max_tokens: int = _number(5_000, "tokens", "of one file", low=1)
    files_max_tokens: int = _number(50_000, "tokens", "of all files", low=0)
    skill_max_tokens: int = _number(5_000, "tokens", "of one skill, from its top", low=1)
    skills_max_tokens: int = _number(25_000, "tokens", "of all skills", low=0)


@dataclass(frozen=True, kw_only=True, slots=True)
class TruncatePolicy(_Group):
    """The last resort: whole oldest rounds are dropped."""

    GROUP: ClassVar[str] = "truncate"

    start_percent: int = _number(95, "percent of the window", "only above this", low=1, high=100)
    margin_tokens: int = _number(
        1_000, "tokens", "left free beside system prompt and messages", low=0
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class ProtectPolicy(_Group):
    """What the levels before the summary leave alone."""

    GROUP: ClassVar[str] = "protect"

    user_inputs: int = _number(3, "messages", "the newest user inputs", low=1)
    assistant_messages: int = _number(1, "messages", "the newest assistant messages", low=1)
    tool_results: int = _number(5, "results", "the newest are at most snipped", low=0)
    large_read_chars: int = _number(20_000, "characters", "file reads above this go first", low=1)


@dataclass(frozen=True, kw_only=True, slots=True)
class SessionMemoryPolicy(_Group):
    """Notes that are kept while the agent works, so that a compaction needs no model call."""

    GROUP: ClassVar[str] = "session_memory"

    enabled: bool = _choice(False, "keep session notes up to date", True, False)
    start_tokens: int = _number(
        10_000, "tokens", "size of the conversation at the first update", low=0
    )
    growth_tokens: int = _number(5_000, "tokens", "growth until the next", low=1)
    tool_calls: int = _number(3, "calls", "tool calls since the last update", low=0)
    section_max_tokens: int = _number(2_000, "tokens", "of one section", low=100)
    total_max_tokens: int = _number(12_000, "tokens", "of the file", low=100)
    wait_seconds: int = _number(
        15, "seconds", "a compaction waits this long for a running update", low=0
    )
    stale_seconds: int = _number(60, "seconds", "an update older than this counts as stuck", low=1)


@dataclass(frozen=True, kw_only=True, slots=True)
class CostPolicy(_Group):
    """Whether a rewrite waits until it pays."""

    GROUP: ClassVar[str] = "cost"

    wait_requests: int = _number(
        0, "requests", "clearing that pays only after more than this is put off; 0: never put off"
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class OfferPolicy(_Group):
    """What the model itself is told of its context, and may ask for; each tool only where the host offers it."""

    GROUP: ClassVar[str] = "offer"

    notice_percent: int = _number(
        0, "percent of the window", "from here the model is told how full it is; 0: never", high=99
    )
    notice_step_percent: int = _number(
        10, "percent of the window", "growth until it is told again", low=1, high=100
    )
    compact_min_tokens: int = _number(
        20_000, "tokens", "a compaction that the model asks for must be able to free this", low=0
    )
    compact_limit: int = _number(
        3, "compactions", "most that the model may ask for in a conversation", low=0
    )


_GROUPS: dict[str, type[_Group]] = {
    cls.GROUP: cls
    for cls in (
        ToolBudgetPolicy,
        SnipPolicy,
        MicrocompactPolicy,
        CollapsePolicy,
        AutocompactPolicy,
        KeepPolicy,
        SummaryPolicy,
        RestorePolicy,
        TruncatePolicy,
        ProtectPolicy,
        SessionMemoryPolicy,
        CostPolicy,
        OfferPolicy,
    )
}


def _dotted(changes: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """`{"snip": {"max_chars": 1}}` and `{"snip.max_chars": 1}` both give `("snip.max_chars", 1)`."""
    for key, value in changes.items():
        if isinstance(value, Mapping):
            yield from _dotted(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", tuple(value) if isinstance(value, list) else value


@dataclass(frozen=True, kw_only=True, slots=True)
class Policy:
    """All thresholds of all levels.

    Raises:
        InvalidPolicy: A field is out of range, or two contradict each other; names the field.

    Example:
        >>> policy = Policy.buffered().change({"keep.min_tokens": 15_000})
        >>> policy.keep.min_tokens
        15000
    """

    preset: str = _choice("buffered", "which preset this began as", "buffered", "ladder")
    tool_budget: ToolBudgetPolicy = ToolBudgetPolicy()
    snip: SnipPolicy = SnipPolicy()
    micro: MicrocompactPolicy = MicrocompactPolicy()
    collapse: CollapsePolicy = CollapsePolicy()
    auto: AutocompactPolicy = AutocompactPolicy()
    keep: KeepPolicy = KeepPolicy()
    summary: SummaryPolicy = SummaryPolicy()
    restore: RestorePolicy = RestorePolicy()
    truncate: TruncatePolicy = TruncatePolicy()
    protect: ProtectPolicy = ProtectPolicy()
    session_memory: SessionMemoryPolicy = SessionMemoryPolicy()
    cost: CostPolicy = CostPolicy()
    offer: OfferPolicy = OfferPolicy()

    def __post_init__(self) -> None:
        for name, kind in _GROUPS.items():
            if not isinstance(getattr(self, name), kind):
                raise InvalidPolicy(name, getattr(self, name), f"must be a {kind.__name__}")
        _ordered("keep.min_tokens", self.keep.min_tokens, "keep.max_tokens", self.keep.max_tokens)
        _ordered(
            "restore.file_max_tokens",
            self.restore.file_max_tokens,
            "restore.files_max_tokens",
            self.restore.files_max_tokens,
        )
        collapse = self.collapse
        _ordered(
            "collapse.target_percent",
            collapse.target_percent,
            "collapse.commit_percent",
            collapse.commit_percent,
        )
        _ordered(
            "collapse.commit_percent",
            collapse.commit_percent,
            "collapse.block_percent",
            collapse.block_percent,
        )
        _ordered(
            "tool_budget.max_result_chars",
            self.tool_budget.max_result_chars,
            "tool_budget.max_message_chars",
            self.tool_budget.max_message_chars,
        )

    @classmethod
    def buffered(cls) -> Self:
        """Fixed buffers below the window, all levels; the default."""
        return cls()

    @classmethod
    def ladder(cls) -> Self:
        """By share of the window: nothing up to 40 %, snip from 40, one-line results from 60, summary from 80, truncation from 95."""
        return cls(preset="ladder").change(
            {
                "snip.start_percent": 40,
                "snip.on_arrival": True,
                "micro.by_line": True,
                "auto.start_percent": 80,
            }
        )

    @classmethod
    def load(cls, path: str | Path | None = None, changes: Mapping[str, Any] | None = None) -> Self:
        """A preset with a TOML file and overrides laid over it, in this order.

        Args:
            path: A TOML file: `preset = "ladder"` at the top, then a table per group. `None`: none.
            changes: Dotted names or nested mappings to values.

        Raises:
            InvalidPolicy: An unknown name or a bad value; the file's path stands in the hint.
        """
        found: dict[str, Any] = {}
        if path is not None:
            try:
                found = tomllib.loads(Path(path).read_text(encoding="utf-8"))
            except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as exc:
                raise InvalidPolicy("policy file", str(path), f"cannot be read: {exc}") from exc
        preset = found.pop("preset", "buffered")
        if preset not in ("buffered", "ladder"):
            raise InvalidPolicy("preset", preset, "must be one of 'buffered', 'ladder'")
        base = cls.ladder() if preset == "ladder" else cls.buffered()
        return base.change(found).change(changes or {})

    def change(self, changes: Mapping[str, Any]) -> Self:
        """A copy with some values changed: `{"snip.max_chars": 8_000}` or `{"snip": {"max_chars": 8_000}}`."""
        grouped: dict[str, dict[str, Any]] = {}
        for dotted, value in _dotted(changes):
            group, _, field = dotted.partition(".")
            known = _GROUPS.get(group)
            if known is None or field not in known.__dataclass_fields__:
                raise InvalidPolicy(
                    dotted, value, "is not a setting", hint="Policy.effective() lists all"
                )
            grouped.setdefault(group, {})[field] = value
        groups: dict[str, Any] = {
            name: dataclasses.replace(getattr(self, name), **fields)
            for name, fields in grouped.items()
        }
        return dataclasses.replace(self, **groups)

    def effective(self) -> list[EffectiveValue]:
        """Every setting as it stands, with unit and reason, in the order of the groups."""
        return [
            EffectiveValue(
                f"{name}.{item.name}",
                getattr(getattr(self, name), item.name),
                item.metadata.get("unit", ""),
                item.metadata.get("why", ""),
            )
            for name, kind in _GROUPS.items()
            for item in dataclasses.fields(kind)
        ]

    def __repr__(self) -> str:
        base = type(self).ladder() if self.preset == "ladder" else type(self).buffered()
        changed = [
            f"{now.name}={now.value!r}"
            for now, then in zip(self.effective(), base.effective(), strict=True)
            if now.value != then.value
        ]
        return f"Policy.{self.preset}({', '.join(changed)})"


def _ordered(low_name: str, low: int, high_name: str, high: int) -> None:
    if low > high:
        raise InvalidPolicy(low_name, low, f"must not be above {high_name} ({high:,})")

"""Every number that decides what is compacted, when and how far: frozen, validated, printable; each with a unit, a reason and limits.

A `Policy` is made of small groups, one per level. Two presets: `Policy.buffered()` uses fixed buffers below the window,
`Policy.ladder()` shares of the window. `Policy.load()` applies a TOML file and keyword overrides to a preset.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final, Self, TypeVar, cast, dataclass_transform

from ullage._start import Frozen, NamedTuple, pathlib
from ullage.exceptions import InvalidPolicy

_T = TypeVar("_T")


class EffectiveValue(NamedTuple):
    """The current value of one setting: `name` is dotted (`snip.max_chars`), `unit` may be empty."""

    name: str
    value: object
    unit: str
    why: str


def number(
    default: int,
    unit: str,
    why: str,
    *,
    low: int = 0,
    high: int | None = None,
    least: int | None = None,
) -> int:
    """A field of a whole number; `least`: the smallest sensible value of a size that shrinks in a small window (WIN-8)."""
    rules = {"unit": unit, "why": why, "low": low, "high": high, "least": least}
    return dataclasses.field(default=default, metadata=rules)


def percent(default: int, whole: str, why: str, *, low: int = 0, high: int = 100) -> int:
    """A share of something."""
    return number(default, f"percent of {whole}", why, low=low, high=high)


def choice(default: _T, why: str, *choices: _T) -> _T:
    """A field that is one of some values."""
    return dataclasses.field(default=default, metadata={"why": why, "choices": choices})


def switch(default: bool, why: str) -> bool:
    """A field that is on or off."""
    return choice(default, why, True, False)


def names(default: tuple[str, ...], why: str) -> tuple[str, ...]:
    """A field of names or patterns."""
    return dataclasses.field(default=default, metadata={"why": why})


def _check(name: str, value: Any, item: dataclasses.Field[Any]) -> None:
    """Refuse a value of a group that its field does not take."""
    rules = item.metadata
    if "choices" in rules:
        # Not `in`: True equals 1.
        if not any(value == choice and type(value) is type(choice) for choice in rules["choices"]):
            limit = f"must be one of {', '.join(map(repr, rules['choices']))}"
            raise InvalidPolicy(name, value, limit)
    elif "low" not in rules:
        if not isinstance(value, tuple) or not all(
            isinstance(part, str) and part for part in value
        ):
            raise InvalidPolicy(name, value, "must be a tuple of names")
    else:
        low, high = rules["low"], rules["high"]
        if isinstance(value, bool) or not isinstance(value, int):
            raise InvalidPolicy(name, value, "must be a whole number")
        if value < low or (high is not None and value > high):
            upper = "" if high is None else f" and at most {high:,}"
            raise InvalidPolicy(name, value, f"must be at least {low:,}{upper}")


@dataclass_transform(kw_only_default=True, frozen_default=True)
class Group(Frozen):
    """Settings of one level, each checked against its limits; `name` in dotted names and files."""

    _name = ""

    def __init_subclass__(cls, *, name: str) -> None:
        super().__init_subclass__(kw_only=True)
        cls._name = name

    def __post_init__(self) -> None:
        for item in dataclasses.fields(self):
            if item.metadata:
                _check(f"{self._name}.{item.name}", getattr(self, item.name), item)


# Refuses unknown keyword arguments at the call, with the nearest known name.
def nearest(name: object, names: Iterable[str], *, cutoff: float = 0.6) -> str:
    """A sentence with the known name closest to this one; empty if none is close. `cutoff`: how close, from 0 to 1."""
    from difflib import get_close_matches  # rarely needed, and slow to import

    close = get_close_matches(str(name), list(names), 1, cutoff)
    return f"did you mean {close[0]!r}?" if close else ""


def refuse_unknown(offered: Iterable[str], accepted: Iterable[str], where: str = "") -> None:
    """Refuse names that are not accepted: an `InvalidPolicy` names the first, after the prefix `where`, and the nearest accepted one."""
    names = list(accepted)
    for name in offered:
        if name not in names:
            hint = nearest(name, names) or f"known: {', '.join(names)}"
            raise InvalidPolicy(f"{where}{name}", name, "is not an argument", hint=hint)


# A policy for a small window: token and character counts keep the share that they have of a large one (WIN-8).


FULL_WINDOW_TOKENS: Final = 100_000
"""From this window on, a policy's numbers apply unchanged."""


# Settings of the levels before the summary, and of what they leave alone.


KEPT_TOOLS = ("AskUserQuestion", "TodoWrite", "Task", "Skill", "memory", "recall", "Snip")
"""Tools whose results stay, by family: answers of the user or another agent, todo lists, recalled content."""


class ToolBudgetPolicy(Group, name="tool_budget"):
    """Large tool results go to a store and leave a reference with a preview."""

    enabled: bool = switch(True, "the cheapest level; lossless")
    max_result_chars: int = number(
        50_000, "characters", "one result above this is offloaded on arrival", low=1, least=2_000
    )
    max_message_chars: int = number(
        200_000,
        "characters",
        "if all results of one user message exceed this, the largest are offloaded first",
        low=1,
        least=4_000,
    )
    preview_bytes: int = number(
        2_000, "bytes", "how much of an offloaded result stays readable", least=200
    )
    unlimited_tools: tuple[str, ...] = names(
        ("Read",),
        "offloading these is pointless, since the agent reads the output back; in any spelling, such as read_file",
    )


class SnipPolicy(Group, name="snip"):
    """Long results lose their middle in place; whole turns are removed when the model asks for it."""

    enabled: bool = switch(True, "in-place snip of long results")
    max_chars: int = number(
        10_000, "characters", "a result above this keeps its head and tail", low=100, least=1_000
    )
    head_percent: int = percent(30, "max_chars", "kept from the start", low=1, high=49)
    tail_percent: int = percent(30, "max_chars", "kept from the end", low=1, high=49)
    start_percent: int = percent(50, "the window", "below this nothing is snipped; 0: always")
    on_arrival: bool = switch(
        False, "snip a long result at any fill, before an answer to it and before it is ever cached"
    )
    turns: bool = switch(True, "append ids to user inputs and offer the Snip tool")
    reminder_tokens: int = number(
        10_000, "tokens", "growth without a snip until one reminder is attached", low=1, least=200
    )


class MicrocompactPolicy(Group, name="micro"):
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
    line_start_percent: int = percent(
        60, "the window", "from here results are replaced by one line each"
    )
    line_max_tokens: int = number(100, "tokens", "length of one line from a model", low=10)
    by_supersession: bool = switch(
        True, "clear reads that a later read or write of the file replaced"
    )
    supersede_start_percent: int = percent(
        40, "the window", "below this no superseded result is cleared"
    )
    supersede_max_percent: int = percent(
        50, "the eligible tokens", "maximum that one pass clears by supersession", low=1
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
    edit_start_percent: int = percent(
        40, "the window", "below this no result is named for cache edits"
    )
    min_freed_tokens: int = number(2_000, "tokens", "a pass that frees less is not done", least=0)
    low_watermark_percent: int = percent(
        50, "the trigger", "a pass clears down to here, so that the next one comes late", low=1
    )
    refetch_percent: int = percent(
        25, "the cleared results", "the level backs off if more than this is fetched again", low=1
    )


class CollapsePolicy(Group, name="collapse"):
    """Spans of old rounds are replaced by one placeholder each; replaces automatic compaction while on."""

    enabled: bool = switch(False, "if on, automatic compaction is deferred")
    stage_percent: int = percent(
        70, "the effective window", "from here spans are summarised in advance"
    )
    commit_percent: int = percent(
        90, "the effective window", "from here staged spans are committed"
    )
    block_percent: int = percent(
        95, "the effective window", "from here a request waits for a summary"
    )
    target_percent: int = percent(70, "the effective window", "commits stop below this")
    min_span_tokens: int = number(
        2_000, "tokens", "smaller spans are not worth a placeholder", low=1, least=100
    )
    keep_recent_rounds: int = number(6, "rounds", "the newest rounds are never collapsed", low=1)


class ProtectPolicy(Group, name="protect"):
    """What the levels before the summary leave alone."""

    user_inputs: int = number(3, "messages", "the newest user inputs", low=1)
    assistant_messages: int = number(1, "messages", "the newest assistant messages", low=1)
    tool_results: int = number(5, "results", "the newest are at most snipped")
    large_read_chars: int = number(
        20_000, "characters", "file reads above this are cleared first", low=1, least=1_000
    )


class CostPolicy(Group, name="cost"):
    """Whether a rewrite waits until it pays, and how much of a large window the levels use."""

    work: str = choice(
        "knee",
        "size to work in where the model's window is above 200,000 tokens and nobody states another: the cheapest that has "
        "room for 200,000 tokens on top of system prompt and tools (knee), the whole window (fidelity), or the cheapest (price)",
        "knee",
        "fidelity",
        "price",
    )
    work_tokens: int = number(0, "tokens", "the size to work in; 0: as `work` says")

    wait_requests: int = number(
        10,
        "requests",
        "clearing or snipping that pays only after more requests than this is postponed; 0: never",
    )
    cache_seconds: int = number(
        0,
        "seconds",
        "life of the provider's cache that your marks ask for; 0: the model's shortest",
    )


class OfferPolicy(Group, name="offer"):
    """What the model learns about its context, and may request; each tool only where the host offers it."""

    notice_percent: int = percent(
        0,
        "the window",
        "from here the model is notified how full its context is; 0: never",
        high=99,
    )
    notice_step_percent: int = percent(10, "the window", "growth until the next notice", low=1)
    compact_min_tokens: int = number(
        20_000,
        "tokens",
        "a compaction that the model asks for must be able to free this",
        least=100,
    )
    compact_limit: int = number(3, "compactions", "maximum requests by the model in a conversation")


# Settings of compaction: when, how much stays, the summary call, what is restored, the last resort, session notes.


class AutocompactPolicy(Group, name="auto"):
    """When older messages are replaced by a summary."""

    enabled: bool = switch(
        True, "if off, compaction runs only on request or after an overflow error"
    )
    reactive_only: bool = switch(False, "compact only after the provider refused")
    start_percent: int = percent(
        0, "the window", "trigger as a share of the window; 0: the fixed buffers of the window"
    )
    target_percent: int = percent(
        50, "the trigger", "size at which a share-based compaction should end", low=1
    )
    target_tokens: int = number(
        0,
        "tokens",
        "size limit of the messages after an automatic compaction, without system prompt and tools; 0: the share",
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
    idle_percent: int = percent(
        0,
        "the trigger",
        "from here a conversation is compacted where the provider's cache has run out, and that pays; 0: never",
    )
    background_percent: int = percent(
        0, "the trigger", "from here a summary is written in advance, in the background; 0: never"
    )
    max_after_percent: int = percent(
        60, "the trigger", "a result above this is not worth installing", low=1
    )


class KeepPolicy(Group, name="keep"):
    """How much of the newest conversation stays verbatim."""

    min_tokens: int = number(
        10_000, "tokens", "enough to continue, together with the messages below", least=0
    )
    max_tokens: int = number(40_000, "tokens", "enough by itself", low=1, least=1)
    min_text_messages: int = number(5, "messages", "messages with text that should stay")


class SummaryPolicy(Group, name="summary"):
    """The call that writes a summary, and the handling of its response."""

    max_output_tokens: int = number(20_000, "tokens", "room for the summary", low=100, least=256)
    retries: int = number(2, "tries", "further tries after a failed call", high=10)
    overflow_retries: int = number(
        3, "tries", "head truncations when the call itself is too long", high=20
    )
    drop_percent: int = percent(
        20, "the rounds", "dropped if the error names no gap", low=1, high=99
    )
    deadline_seconds: int = number(180, "seconds", "for the whole call", low=1)
    stall_seconds: int = number(60, "seconds", "without any token", low=1)
    min_freed_percent: int = percent(
        5, "the context", "a compaction on demand that frees less changes nothing", high=90
    )
    facts_max_tokens: int = number(6_000, "tokens", "appended facts that the summary lost", least=0)
    user_messages_max_tokens: int = number(
        20_000, "tokens", "user messages kept verbatim, newest first", low=100, least=100
    )


class RestorePolicy(Group, name="restore"):
    """What is restored after a compaction."""

    max_files: int = number(5, "files", "recently read, newest first")
    file_max_tokens: int = number(5_000, "tokens", "of one file", low=1, least=1)
    files_max_tokens: int = number(50_000, "tokens", "of all files", least=1)
    skill_max_tokens: int = number(5_000, "tokens", "of one skill, from its top", low=1, least=1)
    skills_max_tokens: int = number(25_000, "tokens", "of all skills", least=1)
    plan_max_tokens: int = number(10_000, "tokens", "of the plan, from its top", low=1, least=1)
    state_max_tokens: int = number(
        10_000, "tokens", "of tasks, tools, agents and MCP instructions, each kind", least=1
    )


class TruncatePolicy(Group, name="truncate"):
    """The last resort: whole oldest rounds are dropped."""

    start_percent: int = percent(95, "the window", "only above this", low=1)
    margin_tokens: int = number(
        1_000, "tokens", "kept free in addition to system prompt and messages", least=0
    )


class SessionMemoryPolicy(Group, name="session_memory"):
    """Notes that are kept while the agent works, so that a compaction needs no model call."""

    enabled: bool = switch(False, "keep session notes up to date")
    start_tokens: int = number(
        10_000, "tokens", "size of the conversation at the first update", least=100
    )
    growth_tokens: int = number(5_000, "tokens", "growth until the next", low=1, least=100)
    tool_calls: int = number(3, "calls", "tool calls since the last update")
    section_max_tokens: int = number(2_000, "tokens", "of one section", low=100, least=100)
    total_max_tokens: int = number(12_000, "tokens", "of the file", low=100, least=400)
    wait_seconds: int = number(15, "seconds", "a compaction waits this long for a running update")
    stale_seconds: int = number(60, "seconds", "an update older than this counts as stuck", low=1)


_PRESETS: Final = ("buffered", "ladder")
"""Class methods of `Policy`: a preset is a name in a file, in a saved state and as an argument, so that each says what it differs from."""


_ORDERED: Final = (
    ("keep.min_tokens", "keep.max_tokens"),
    ("restore.file_max_tokens", "restore.files_max_tokens"),
    ("collapse.target_percent", "collapse.commit_percent"),
    ("collapse.commit_percent", "collapse.block_percent"),
    ("tool_budget.max_result_chars", "tool_budget.max_message_chars"),
)
"""The first of each two settings must not be above the second."""


def _dotted(changes: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """`{"snip": {"max_chars": 1}}` and `{"snip.max_chars": 1}` both give `("snip.max_chars", 1)`."""
    for key, value in changes.items():
        if isinstance(value, Mapping):
            yield from _dotted(value, f"{prefix}{key}.")
        else:
            # TOML and JSON have lists, a policy that can be compared has tuples.
            yield f"{prefix}{key}", tuple(value) if isinstance(value, list) else value


# A dataclass of its own: hosts derive frozen dataclasses from it, which Python allows from frozen ones only.
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

    preset: str = choice(
        "buffered", "the preset that this policy is based on", "buffered", "ladder"
    )
    tool_budget: ToolBudgetPolicy = field(default_factory=ToolBudgetPolicy)
    snip: SnipPolicy = field(default_factory=SnipPolicy)
    micro: MicrocompactPolicy = field(default_factory=MicrocompactPolicy)
    collapse: CollapsePolicy = field(default_factory=CollapsePolicy)
    auto: AutocompactPolicy = field(default_factory=AutocompactPolicy)
    keep: KeepPolicy = field(default_factory=KeepPolicy)
    summary: SummaryPolicy = field(default_factory=SummaryPolicy)
    restore: RestorePolicy = field(default_factory=RestorePolicy)
    truncate: TruncatePolicy = field(default_factory=TruncatePolicy)
    protect: ProtectPolicy = field(default_factory=ProtectPolicy)
    session_memory: SessionMemoryPolicy = field(default_factory=SessionMemoryPolicy)
    cost: CostPolicy = field(default_factory=CostPolicy)
    offer: OfferPolicy = field(default_factory=OfferPolicy)

    def __post_init__(self) -> None:
        for name, kind in self._groups().items():
            if not isinstance(getattr(self, name), kind):
                raise InvalidPolicy(name, getattr(self, name), f"must be a {kind.__name__}")
        for low_name, high_name in _ORDERED:
            low, high = self._value(low_name), self._value(high_name)
            if low > high:
                raise InvalidPolicy(low_name, low, f"must not be above {high_name} ({high:,})")

    @classmethod
    @cache
    def buffered(cls) -> Self:
        """Fixed buffers below the window, all levels; the default."""
        return cls()

    @classmethod
    @cache
    def ladder(cls) -> Self:
        """Shares of the window: nothing up to 40 %, snip from 40, one-line results from 60, summary from 80, truncation from 95."""
        return cls(preset="ladder").change(
            {
                "snip.start_percent": 40,
                "micro.by_line": True,
                "auto.start_percent": 80,
                "cost.wait_requests": 0,
            }
        )

    @classmethod
    def load(
        cls, path: str | pathlib.Path | None = None, changes: Mapping[str, Any] | None = None
    ) -> Self:
        """A preset with a TOML file and then overrides applied to it.

        Args:
            path: A TOML file: `preset = "ladder"` at the top, then a table per group; or the name of a preset. `None`: `buffered`.
            changes: Dotted names or nested mappings to values.

        Raises:
            InvalidPolicy: An unknown name or a bad value; the hint has the file's path.
        """
        import tomllib

        groups_read: dict[str, Any] = {}
        if not isinstance(path, str | os.PathLike | None):
            raise InvalidPolicy("policy file", path, "must be a path, or the name of a preset")
        # A file of that name is meant before the preset is.
        if path is not None and str(path) in _PRESETS and not pathlib.Path(path).exists():
            groups_read = {"preset": str(path)}
        elif path is not None:
            try:
                groups_read = tomllib.loads(pathlib.Path(path).read_text(encoding="utf-8"))
            except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as exc:
                why = getattr(exc, "strerror", None) or exc
                raise InvalidPolicy("policy file", str(path), f"cannot be read: {why}") from exc
        return cls._of(groups_read).change(changes or {})

    @classmethod
    def from_toml(cls, text: str) -> Self:
        r"""As `load`, from the text of a TOML file.

        Raises:
            InvalidPolicy: It is not TOML, or has an unknown name or a bad value.

        Example:
            >>> Policy.from_toml('preset = "ladder"\n[snip]\nmax_chars = 8000').snip.max_chars
            8000
        """
        import tomllib

        try:
            document = tomllib.loads(text)
        except tomllib.TOMLDecodeError as exc:
            raise InvalidPolicy("policy", "text", f"cannot be read: {exc}") from exc
        return cls._of(document)

    @classmethod
    def _of(cls, document: dict[str, Any]) -> Self:
        preset = document.pop("preset", "buffered")
        if preset not in _PRESETS:
            limit = f"must be one of {', '.join(map(repr, _PRESETS))}"
            raise InvalidPolicy("preset", preset, limit)
        base: Self = getattr(cls, preset)()
        return base.change(document)

    def change(self, changes: Mapping[str, Any]) -> Self:
        """A copy with some values changed: `{"snip.max_chars": 8_000}` or `{"snip": {"max_chars": 8_000}}`."""
        grouped: dict[str, dict[str, Any]] = {}
        settings = dict(self._settings())
        for dotted, value in _dotted(changes):
            if dotted not in settings:
                hint = nearest(dotted, settings) or "`ullage policy` lists all"
                raise InvalidPolicy(dotted, value, "is not a setting", hint=hint)
            group, _, name = dotted.partition(".")
            grouped.setdefault(group, {})[name] = value
        changed: dict[str, Any] = {
            name: dataclasses.replace(getattr(self, name), **fields)
            for name, fields in grouped.items()
        }
        return dataclasses.replace(self, **changed)

    def _value(self, dotted: str) -> Any:
        group, _, name = dotted.partition(".")
        return getattr(getattr(self, group), name)

    def effective(self) -> list[EffectiveValue]:
        """The current value of every setting, with unit and reason, in the order of the groups."""
        return [
            EffectiveValue(
                name, self._value(name), item.metadata.get("unit", ""), item.metadata.get("why", "")
            )
            for name, item in self._settings()
        ]

    @classmethod
    def _settings(cls) -> Iterator[tuple[str, dataclasses.Field[Any]]]:
        """Every setting by its dotted name."""
        for name, kind in cls._groups().items():
            for item in dataclasses.fields(kind):
                yield f"{name}.{item.name}", item

    def fitted(self, window_tokens: int) -> Self:
        """The policy for a window: below 100 000 tokens its sizes are shares (WIN-8); explicitly set values stay.

        Example:
            >>> Policy.buffered().fitted(8_192).truncate.margin_tokens
            81
        """
        if window_tokens >= FULL_WINDOW_TOKENS:
            return self
        usual, changes = self._preset(), dict[str, int]()
        for name, item in self._settings():
            value, least = self._value(name), item.metadata.get("least")
            # What differs from the preset was set explicitly.
            if least is not None and value == usual._value(name):
                changes[name] = min(value, max(least, value * window_tokens // FULL_WINDOW_TOKENS))
        try:
            return self.change(changes)
        except InvalidPolicy:  # next to explicitly set values, fitted ones can be out of order
            return self

    def changes(self) -> dict[str, Any]:
        """What differs from the preset, as `change` takes it.

        Example:
            >>> Policy.ladder().change({"keep.min_tokens": 15_000}).changes()
            {'keep.min_tokens': 15000}
        """
        usual, changed = self._preset(), dict[str, Any]()
        for name in self._groups():
            now, then = vars(getattr(self, name)), vars(getattr(usual, name))
            changed |= {f"{name}.{key}": now[key] for key in now if now[key] != then[key]}
        return changed

    def _preset(self) -> Self:
        preset: Self = getattr(type(self), self.preset)()
        return preset

    @classmethod
    def _groups(cls) -> dict[str, type[Group]]:
        """All groups by name: the fields of this class, or of one that adds groups to it."""
        factories = {
            field.name: cast("Any", field.default_factory) for field in dataclasses.fields(cls)
        }
        return {name: kind for name, kind in factories.items() if isinstance(kind, type)}

    def __repr__(self) -> str:
        changed = [f"{name}={value!r}" for name, value in self.changes().items()]
        return f"Policy.{self.preset}({', '.join(changed)})"


# A policy argument: a `Policy`, or the name of a preset.


def policy_given(policy: Policy | str | None) -> Policy:
    """The policy that was passed, or the preset of that name; `None`: `Policy.buffered()`.

    Raises:
        InvalidPolicy: It is neither; names the value.
    """
    if policy is None:
        return Policy.buffered()
    if isinstance(policy, Policy):
        return policy
    limit = "must be a Policy, or the name of a preset: buffered, ladder"
    if not isinstance(policy, str):
        hint = "Policy.load(path) reads a file"
        raise InvalidPolicy("policy", type(policy).__name__, limit, hint=hint)
    if policy not in _PRESETS:
        raise InvalidPolicy("policy", policy, limit, hint=nearest(policy, _PRESETS))
    preset: Policy = getattr(Policy, policy)()
    return preset

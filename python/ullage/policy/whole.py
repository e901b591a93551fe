"""`Policy`: all groups together, presets, files, printing."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Self, cast

from ullage._late import pathlib
from ullage.exceptions import InvalidPolicy
from ullage.policy.arguments import nearest
from ullage.policy.fields import EffectiveValue, Group, choice
from ullage.policy.fitting import FULL_WINDOW_TOKENS, fitted_values
from ullage.policy.levels import (
    CollapsePolicy,
    CostPolicy,
    MicrocompactPolicy,
    OfferPolicy,
    ProtectPolicy,
    SnipPolicy,
    ToolBudgetPolicy,
)
from ullage.policy.summaries import (
    AutocompactPolicy,
    KeepPolicy,
    RestorePolicy,
    SessionMemoryPolicy,
    SummaryPolicy,
    TruncatePolicy,
)

__all__ = ["Policy"]

_PRESETS = ("buffered", "ladder")


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
        """Shares of the window: nothing up to 40 %, snip from 40, one-line results from 60, summary from 80, truncation from 95."""
        return cls(preset="ladder").change(
            {
                "snip.start_percent": 40,
                "micro.by_line": True,
                "auto.start_percent": 80,
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

        found: dict[str, Any] = {}
        if path is not None and str(path) in _PRESETS and not pathlib.Path(path).exists():
            found = {"preset": str(path)}
        elif path is not None:
            try:
                found = tomllib.loads(pathlib.Path(path).read_text(encoding="utf-8"))
            except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as exc:
                why = getattr(exc, "strerror", None) or exc
                raise InvalidPolicy("policy file", str(path), f"cannot be read: {why}") from exc
        return cls._of(found).change(changes or {})

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
            found = tomllib.loads(text)
        except tomllib.TOMLDecodeError as exc:
            raise InvalidPolicy("policy", "text", f"cannot be read: {exc}") from exc
        return cls._of(found)

    @classmethod
    def _of(cls, found: dict[str, Any]) -> Self:
        preset = found.pop("preset", "buffered")
        if preset not in _PRESETS:
            raise InvalidPolicy(
                "preset", preset, f"must be one of {', '.join(map(repr, _PRESETS))}"
            )
        base = cls.ladder() if preset == "ladder" else cls.buffered()
        return base.change(found)

    def change(self, changes: Mapping[str, Any]) -> Self:
        """A copy with some values changed: `{"snip.max_chars": 8_000}` or `{"snip": {"max_chars": 8_000}}`."""
        grouped: dict[str, dict[str, Any]] = {}
        groups = self._groups()
        for dotted, value in _dotted(changes):
            group, _, name = dotted.partition(".")
            known = groups.get(group)
            if known is None or name not in known.__dataclass_fields__:
                settings = [each.name for each in self.effective()]
                hint = nearest(dotted, settings) or "`ullage policy` lists all"
                raise InvalidPolicy(dotted, value, "is not a setting", hint=hint)
            grouped.setdefault(group, {})[name] = value
        changed: dict[str, Any] = {
            name: dataclasses.replace(getattr(self, name), **fields)
            for name, fields in grouped.items()
        }
        return dataclasses.replace(self, **changed)

    def effective(self) -> list[EffectiveValue]:
        """The current value of every setting, with unit and reason, in the order of the groups."""
        return [
            EffectiveValue(
                f"{name}.{item.name}",
                getattr(getattr(self, name), item.name),
                item.metadata.get("unit", ""),
                item.metadata.get("why", ""),
            )
            for name, kind in self._groups().items()
            for item in dataclasses.fields(kind)
        ]

    def fitted(self, window_tokens: int) -> Self:
        """The policy for a window: below 100 000 tokens its sizes are shares (WIN-8); explicitly set values stay.

        Args:
            window_tokens: The context window.

        Example:
            >>> Policy.buffered().fitted(8_192).truncate.margin_tokens
            81
        """
        if window_tokens >= FULL_WINDOW_TOKENS:
            return self
        now = {item.name: item.value for item in self.effective()}
        then = {item.name: item.value for item in self._preset().effective()}
        changes = fitted_values(now, then, window_tokens)
        try:
            return self.change(changes) if changes else self
        except InvalidPolicy:  # next to explicitly set values, fitted ones can be out of order
            return self

    def changes(self) -> dict[str, Any]:
        """What differs from the preset, as `change` takes it.

        Example:
            >>> Policy.ladder().change({"keep.min_tokens": 15_000}).changes()
            {'keep.min_tokens': 15000}
        """
        pairs = zip(self.effective(), self._preset().effective(), strict=True)
        return {now.name: now.value for now, then in pairs if now.value != then.value}

    def _preset(self) -> Self:
        return type(self).ladder() if self.preset == "ladder" else type(self).buffered()

    @classmethod
    def _groups(cls) -> dict[str, type[Group]]:
        """All groups by name: the fields of this class, or of one that adds groups to it."""
        made = {each.name: cast("Any", each.default_factory) for each in dataclasses.fields(cls)}
        return {name: kind for name, kind in made.items() if isinstance(kind, type)}

    def __repr__(self) -> str:
        changed = [f"{name}={value!r}" for name, value in self.changes().items()]
        return f"Policy.{self.preset}({', '.join(changed)})"


def _ordered(low_name: str, low: int, high_name: str, high: int) -> None:
    if low > high:
        raise InvalidPolicy(low_name, low, f"must not be above {high_name} ({high:,})")

"""The window's arithmetic (WIN-1 to WIN-5): how much room a model leaves, and how full it is.

```text
context window
- room for a summary          min(max output, 20 000)
= effective window            warn and block by it where automatic compaction is off
- 13 000
= autocompact threshold       warn 20 000 before it
```

Everything here is a pure function of its arguments. The environment is read once, by `WindowSettings.from_env`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final, NamedTuple

from ullage import _env
from ullage.exceptions import InvalidPolicy
from ullage.models import Model, ModelTable

__all__ = [
    "AUTOCOMPACT_BUFFER_TOKENS",
    "BLOCKING_BUFFER_TOKENS",
    "ERROR_BUFFER_TOKENS",
    "SUMMARY_RESERVE_TOKENS",
    "WARNING_BUFFER_TOKENS",
    "IgnoredSetting",
    "WarningState",
    "Window",
    "WindowSettings",
    "autocompact_threshold",
    "effective_window",
    "warning_state",
    "window",
]

SUMMARY_RESERVE_TOKENS: Final = 20_000
"""Room for the summary itself: the longest seen, with a margin."""

AUTOCOMPACT_BUFFER_TOKENS: Final = 13_000
"""Between the trigger and the effective window: one turn's growth must fit."""

WARNING_BUFFER_TOKENS: Final = 20_000
"""Below the trigger: from here a person is warned."""

ERROR_BUFFER_TOKENS: Final = 20_000
"""Below the trigger: from here the warning is shown as an error."""

BLOCKING_BUFFER_TOKENS: Final = 3_000
"""Below the effective window: from here requests are held back, so that a manual compaction still fits."""


class IgnoredSetting(NamedTuple):
    """A setting whose value makes no sense: it has no effect, and says why."""

    name: str
    value: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowSettings:
    """What the environment or a host wants of the window.

    Attributes:
        auto_compact_window: Tokens that lower the context window; `None`: not lowered.
        autocompact_percent: Percent of the effective window, where that is lower; `None`: not set.
        blocking_limit: Tokens in place of effective window - 3 000; `None`: that.
        disable_compact: No compaction at all.
        disable_auto_compact: No automatic compaction.
        ignored: Settings that had no effect.
    """

    auto_compact_window: int | None = None
    autocompact_percent: Fraction | None = None
    blocking_limit: int | None = None
    disable_compact: bool = False
    disable_auto_compact: bool = False
    ignored: tuple[IgnoredSetting, ...] = ()

    @classmethod
    def from_env(cls) -> WindowSettings:
        """What the process's environment says."""
        return cls.read(_env.values(_env.WINDOW))

    @classmethod
    def read(cls, values: Mapping[str, str]) -> WindowSettings:
        """What variables say. A value that makes no sense is ignored, and listed with a reason.

        Args:
            values: By the names of `ullage._env`; an absent or empty one is not set.
        """
        ignored: list[IgnoredSetting] = []

        def number(name: str, most: int | None = None) -> Fraction | None:
            value = values.get(name, "").strip()
            found, reason = _number(value, most)
            if reason:
                ignored.append(IgnoredSetting(name, value, reason))
            return found

        return cls(
            auto_compact_window=_whole(number(_env.AUTO_COMPACT_WINDOW)),
            autocompact_percent=number(_env.AUTOCOMPACT_PERCENT, 100),
            blocking_limit=_whole(number(_env.BLOCKING_LIMIT)),
            disable_compact=_env.is_truthy(values.get(_env.DISABLE_COMPACT, "")),
            disable_auto_compact=_env.is_truthy(values.get(_env.DISABLE_AUTO_COMPACT, "")),
            ignored=tuple(ignored),
        )


_NUMBER: Final = re.compile(r"[+-]?\d{1,15}(?:\.\d{1,15})?", re.ASCII)


def _number(value: str, most: int | None) -> tuple[Fraction | None, str]:
    """A positive number up to `most`, or why it is none; an unset one is neither."""
    if not value:
        return None, ""
    if not _NUMBER.fullmatch(value):
        return None, "is not a number"
    number = Fraction(value)
    if number <= 0:
        return None, "must be positive"
    if most is not None and number > most:
        return None, f"must be at most {most}"
    if most is None and number < 1:
        return None, "must be at least 1"
    return number, ""


def _whole(number: Fraction | None) -> int | None:
    return None if number is None else int(number)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Window:
    """A model's window with all marks that a usage figure is compared with, in tokens.

    Attributes:
        model: Name of the model.
        context: The context window, lowered by the settings.
        effective: What is left when the summary has its room; WIN-1.
        threshold: Where automatic compaction starts; WIN-2. A reference mark where it is off.
        warning_at: From here a person is warned.
        error_at: From here the warning is an error.
        blocking_at: From here requests are held back.
        autocompact: Automatic compaction is on.
        compaction: Compaction is allowed at all.
        ignored: Settings that had no effect.
    """

    model: str
    context: int
    effective: int
    threshold: int
    warning_at: int
    error_at: int
    blocking_at: int
    autocompact: bool
    compaction: bool
    ignored: tuple[IgnoredSetting, ...] = ()

    def __repr__(self) -> str:
        state = "" if self.autocompact else ", autocompact=False"
        return f"Window({self.model!r}, {self.context:,} → {self.effective:,} → {self.threshold:,}{state})"

    @property
    def reference(self) -> int:
        """What percentages are of: the threshold, or the effective window where compaction is not automatic."""
        return self.threshold if self.autocompact else self.effective

    def percent_left(self, tokens: int) -> int:
        """Room left, in percent of the reference, rounded half up, never below 0."""
        whole = self.reference
        if tokens >= whole:
            return 0
        return (200 * (whole - tokens) + whole) // (2 * whole)

    def state(self, tokens: int) -> WarningState:
        """How a usage figure stands to the marks; WIN-3. All comparisons are ≥.

        Raises:
            InvalidPolicy: `tokens` is negative, or no whole number.
        """
        given: Any = tokens
        if not isinstance(given, int) or isinstance(given, bool):
            hint = "estimate_tokens(messages, model=...) counts a list"
            raise InvalidPolicy(
                "tokens", type(tokens).__name__, "must be a whole number", hint=hint
            )
        if tokens < 0:
            raise InvalidPolicy("tokens", tokens, "must not be negative")
        return WarningState(
            percent_left=self.percent_left(tokens),
            above_warning=tokens >= self.warning_at,
            above_error=tokens >= self.error_at,
            above_autocompact=self.autocompact and tokens >= self.threshold,
            at_blocking_limit=tokens >= self.blocking_at,
        )


class WarningState(NamedTuple):
    """How full a window is; WIN-3."""

    percent_left: int
    above_warning: bool
    above_error: bool
    above_autocompact: bool
    at_blocking_limit: bool


def effective_window(model: Model, settings: WindowSettings | None = None) -> int:
    """WIN-1: the context window less room for the summary, in tokens, never below 0.

    Args:
        model: A row of the table.
        settings: `None`: none are set.

    Returns:
        At most `model.input_limit` where the provider limits the prompt by itself.
    """
    room = _context(model, settings) - min(model.max_output_tokens, SUMMARY_RESERVE_TOKENS)
    return max(0, min(room, model.input_limit or room))


def _context(model: Model, settings: WindowSettings | None) -> int:
    lowered = settings.auto_compact_window if settings else None
    return min(model.context_window, lowered or model.context_window)


def autocompact_threshold(model: Model, settings: WindowSettings | None = None) -> int:
    """WIN-2: the effective window less 13 000, or the set percentage of it where that is lower."""
    effective = effective_window(model, settings)
    threshold = max(0, effective - AUTOCOMPACT_BUFFER_TOKENS)
    percent = settings.autocompact_percent if settings else None
    if percent is None:
        return threshold
    return min(threshold, int(effective * percent / 100))


def window(
    model: Model | str,
    *,
    autocompact: bool = True,
    compaction: bool = True,
    settings: WindowSettings | None = None,
    table: ModelTable | None = None,
) -> Window:
    """All marks of a model's window.

    Args:
        model: A row of a table, or a name to look up.
        autocompact: The host's setting; the environment can only turn it off.
        compaction: The same for compaction as a whole; off, the automatic part is off too.
        settings: `None`: none are set. `WindowSettings.from_env()` reads the environment.
        table: Where to look the name up; `None`: the built-in table.

    Example:
        >>> window("claude-opus-4-5").threshold
        167000
    """
    row = (table or ModelTable.builtin()).lookup(model) if isinstance(model, str) else model
    settings = settings or WindowSettings()
    effective = effective_window(row, settings)
    threshold = autocompact_threshold(row, settings)
    compaction = compaction and not settings.disable_compact
    autocompact = autocompact and compaction and not settings.disable_auto_compact
    reference = threshold if autocompact else effective
    return Window(
        model=row.name,
        context=_context(row, settings),
        effective=effective,
        threshold=threshold,
        warning_at=max(0, reference - WARNING_BUFFER_TOKENS),
        error_at=max(0, reference - ERROR_BUFFER_TOKENS),
        blocking_at=settings.blocking_limit or max(0, effective - BLOCKING_BUFFER_TOKENS),
        autocompact=autocompact,
        compaction=compaction,
        ignored=settings.ignored,
    )


def warning_state(tokens: int, model: Model | str, **options: Any) -> WarningState:
    """How a usage figure stands to a model's window; WIN-3.

    Args:
        tokens: Tokens in use: the anchored count of the whole request.
        model: A row of a table, or a name to look up.
        **options: As for `window`.

    Raises:
        InvalidPolicy: `tokens` is negative, or no whole number.

    Example:
        >>> warning_state(150_000, "claude-opus-4-5")
        WarningState(percent_left=10, above_warning=True, above_error=True, above_autocompact=False, at_blocking_limit=False)
    """
    return window(model, **options).state(tokens)

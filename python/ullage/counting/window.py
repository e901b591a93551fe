"""The window's arithmetic (WIN-1 to WIN-5): how much room a model leaves, and how full it is.

```text
context window
- room for a summary          min(max output, 20 000)
= effective window            warn and block by it where automatic compaction is off
- 13 000
= autocompact threshold       at most 95 % of the window; warn 20 000 before it
```

These numbers apply to windows from 100 000 tokens on. Below that, each keeps its share of 100 000, so that
the trigger of a small window is as sensible as that of a large one (WIN-8).

Everything here is a pure function of its arguments. The environment is read once, by `WindowSettings.from_env`.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping
from typing import Any, Final

from ullage import _env
from ullage._start import Frozen, NamedTuple, fractions, pattern
from ullage.counting.models import Model, ModelTable
from ullage.exceptions import InvalidPolicy


class IgnoredSetting(NamedTuple):
    """A setting with an invalid value, which has no effect, and the reason."""

    name: str
    value: str
    reason: str


class WindowSettings(Frozen, kw_only=True):
    """Window settings from the environment or the host.

    Attributes:
        auto_compact_window: Tokens that lower the context window; `None`: not lowered.
        max_context_tokens: Context window that overrides the model table; `None`: the table's.
        autocompact_percent: Percent of the effective window, where that is lower; `None`: not set.
        blocking_limit: Tokens; overrides effective window - 3 000. `None`: not overridden.
        disable_compact: No compaction at all.
        disable_auto_compact: No automatic compaction.
        context_collapse: Context collapse is wanted on or off, whatever the policy says; `None`: as the policy says.
        ignored: Settings that had no effect.
    """

    auto_compact_window: int | None = None
    max_context_tokens: int | None = None
    autocompact_percent: fractions.Fraction | None = None
    blocking_limit: int | None = None
    disable_compact: bool = False
    disable_auto_compact: bool = False
    context_collapse: bool | None = None
    ignored: tuple[IgnoredSetting, ...] = ()

    @classmethod
    def from_env(cls, settings: Mapping[str, object] | None = None) -> WindowSettings:
        """Settings from the process's environment, which override a client's settings.

        Args:
            settings: The content of Claude Code's `settings.json`: `autoCompactWindow` (tokens), `autoCompactEnabled` and
                the variables under `env` are read. `None`: there are none.

        Example:
            >>> WindowSettings.from_env({"autoCompactWindow": 120_000}).auto_compact_window
            120000
        """
        return cls.read({**_of_settings(settings or {}), **_env.values(_env.WINDOW)})

    @classmethod
    def read(cls, values: Mapping[str, str]) -> WindowSettings:
        """Settings from variables, by the names of `ullage._env`; an absent or empty one is not set, an invalid one listed with a reason."""
        ignored: list[IgnoredSetting] = []

        def number(name: str, most: int | None = None) -> fractions.Fraction | None:
            value = values.get(name, "").strip()
            number, reason = _number(value, most)
            if reason:
                ignored.append(IgnoredSetting(name, value, reason))
            return number

        def whole(name: str) -> int | None:
            tokens = number(name)
            return None if tokens is None else int(tokens)

        collapse = values.get(_env.CONTEXT_COLLAPSE, "")
        return cls(
            auto_compact_window=whole(_env.AUTO_COMPACT_WINDOW),
            max_context_tokens=whole(_env.MAX_CONTEXT_TOKENS),
            autocompact_percent=number(_env.AUTOCOMPACT_PERCENT, 100),
            blocking_limit=whole(_env.BLOCKING_LIMIT),
            disable_compact=_env.is_truthy(values.get(_env.DISABLE_COMPACT, "")),
            disable_auto_compact=_env.is_truthy(values.get(_env.DISABLE_AUTO_COMPACT, "")),
            context_collapse=_env.is_truthy(collapse) if collapse.strip() else None,
            ignored=tuple(ignored),
        )


# Fifteen digits are exact in every reader; a value from the environment may be of any length.
_NUMBER: Final = pattern(r"[+-]?\d{1,15}(?:\.\d{1,15})?", re.ASCII)


def _number(value: str, most: int | None) -> tuple[fractions.Fraction | None, str]:
    """A positive number up to `most`, or the reason why it is invalid; neither if unset."""
    if not value:
        return None, ""
    if not _NUMBER.fullmatch(value):
        return None, "is not a number"
    number = fractions.Fraction(value)
    if number <= 0:
        return None, "must be positive"
    if most is not None and number > most:
        return None, f"must be at most {most}"
    if most is None and number < 1:
        return None, "must be at least 1"
    return number, ""


def _of_settings(settings: Mapping[str, object]) -> dict[str, str]:
    """Settings as the variables with the same meaning."""
    inner = settings.get("env")
    environment = {str(k): str(v) for k, v in inner.items()} if isinstance(inner, Mapping) else {}
    setting = settings.get("autoCompactWindow")
    if setting is not None:
        environment.setdefault(_env.AUTO_COMPACT_WINDOW, str(setting))
    if settings.get("autoCompactEnabled") is False:
        environment.setdefault(_env.DISABLE_AUTO_COMPACT, "1")
    return {name: value for name, value in environment.items() if name in _env.WINDOW}


SUMMARY_RESERVE_TOKENS: Final = 20_000
"""Room for the summary itself: the longest seen, with a margin."""

AUTOCOMPACT_BUFFER_TOKENS: Final = 13_000
"""Between the trigger and the effective window: one turn's growth must fit."""

WARNING_BUFFER_TOKENS: Final = 20_000
"""Distance below the trigger from which the user is warned."""

ERROR_BUFFER_TOKENS: Final = 20_000
"""Distance below the trigger from which the warning is shown as an error."""

BLOCKING_BUFFER_TOKENS: Final = 3_000
"""Distance below the effective window from which requests are blocked, so that a manual compaction still fits."""


FULL_WINDOW_TOKENS: Final = 100_000
"""From this window on, the numbers above apply unchanged; below, they keep their share of it (WIN-8)."""

MOST_TRIGGER_PERCENT: Final = 95
"""Percent of the window: a trigger above it would come after the last resort."""


class NoTriggerWarning(UserWarning):
    """Automatic compaction is on but impossible: what must stay fills the window up to the trigger."""


def scaled(tokens: int, window_tokens: int) -> int:
    """A number of tokens for a large window, fitted to a window: unchanged from 100 000 tokens on, below that the same share.

    Example:
        >>> scaled(20_000, 200_000), scaled(20_000, 8_192)
        (20000, 1638)
    """
    return min(tokens, tokens * window_tokens // FULL_WINDOW_TOKENS)


class Window(Frozen, kw_only=True):
    """A model's window with all thresholds that usage is compared with, in tokens.

    Attributes:
        model: Name of the model.
        context: The window that the levels work in: the model's, lowered by the settings or to a working size.
        effective: What is left when the summary has its room; WIN-1.
        threshold: Where automatic compaction starts, by the buffers or by the policy's share; WIN-2. Only a reference if it is off.
        warning_at: From here a user is warned.
        error_at: From here the warning is an error.
        blocking_at: From here requests are blocked.
        autocompact: Automatic compaction is on.
        compaction: Compaction is allowed at all.
        ignored: Settings that had no effect.
        input_limit: Tokens of the prompt alone; 0: no limit but the window.
        whole: The window that a request has to fit: more than `context` where that is a working size which was found.
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
    input_limit: int = 0
    whole: int = 0

    def __repr__(self) -> str:
        state = "" if self.autocompact else ", autocompact=False"
        return f"Window({self.model!r}, {self.context:,} → {self.effective:,} → {self.threshold:,}{state})"

    @property
    def prompt(self) -> int:
        """The largest prompt: the window, or less where the provider limits the prompt by itself."""
        whole = self.whole or self.context
        return min(whole, self.input_limit or whole)

    @property
    def reference(self) -> int:
        """The reference of percentages: the threshold, or the effective window if compaction is not automatic."""
        return self.threshold if self.autocompact else self.effective

    def percent_left(self, tokens: int) -> int:
        """Room left, in percent of the reference, rounded half up, never below 0; a half is what it is in floating point, as in JavaScript."""
        whole = self.reference
        return 0 if tokens >= whole else int((whole - tokens) / whole * 100 + 0.5)

    def state(self, tokens: int) -> WarningState:
        """Compare usage with the thresholds; WIN-3. All comparisons are ≥.

        Raises:
            InvalidPolicy: `tokens` is negative, or no whole number.
        """
        counted: Any = tokens
        if not isinstance(counted, int) or isinstance(counted, bool):
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


def window_for(
    model: Model | str,
    *,
    autocompact: bool = True,
    compaction: bool = True,
    settings: WindowSettings | None = None,
    table: ModelTable | None = None,
    start_percent: int = 0,
    working_tokens: int | None = None,
) -> Window:
    """All thresholds of a model's window.

    Args:
        model: A row of a table, or a name to look up.
        autocompact: The host's setting; the environment can only turn it off.
        compaction: The same for compaction as a whole; off, the automatic part is off too.
        settings: `None`: none are set. `WindowSettings.from_env()` reads the environment.
        table: Where to look the name up; `None`: the built-in table.
        start_percent: The trigger as percent of the window (`auto.start_percent` of a policy), lowered where the setting of the
            environment is lower; 0: by the buffers.
        working_tokens: A smaller window for the thresholds, which a request may pass; `None`: the window itself.

    Example:
        >>> window_for("claude-opus-4-5").threshold
        167000
        >>> window_for("gpt-4")
        Window('gpt-4', 8,192 → 6,554 → 5,490)
    """
    row = (table or ModelTable.builtin()).lookup(model) if isinstance(model, str) else model
    settings = settings or WindowSettings()
    stated = settings.max_context_tokens or row.context_window
    whole = min(stated, settings.auto_compact_window or stated)
    context = min(whole, working_tokens or whole)
    prompt = min(context, row.input_limit or context)
    # WIN-1: room for the summary; the provider may limit the prompt by itself.
    room = context - min(row.max_output_tokens, scaled(SUMMARY_RESERVE_TOKENS, context))
    effective = max(0, min(room, row.input_limit or room))
    # WIN-2, WIN-8: the policy's share, or the buffer, but never after the last resort.
    if start_percent:
        threshold = min(prompt * start_percent // 100, prompt)
    else:
        threshold = max(0, effective - scaled(AUTOCOMPACT_BUFFER_TOKENS, prompt))
        threshold = min(threshold, prompt * MOST_TRIGGER_PERCENT // 100)
    if settings.autocompact_percent is not None:
        # In the order of Claude Code's own arithmetic: another order is one token more at 56.5 %.
        share = float(settings.autocompact_percent) / 100
        threshold = min(threshold, int(effective * share))
    compaction = compaction and not settings.disable_compact
    autocompact = autocompact and compaction and not settings.disable_auto_compact
    reference = threshold if autocompact else effective
    return Window(
        model=row.name,
        context=context,
        effective=effective,
        threshold=threshold,
        warning_at=max(0, reference - scaled(WARNING_BUFFER_TOKENS, context)),
        error_at=max(0, reference - scaled(ERROR_BUFFER_TOKENS, context)),
        blocking_at=settings.blocking_limit
        or max(0, effective - scaled(BLOCKING_BUFFER_TOKENS, context)),
        autocompact=autocompact,
        compaction=compaction,
        ignored=settings.ignored,
        input_limit=row.input_limit,
        whole=whole,
    )


def warn_without_trigger(marks: Window, overhead_tokens: int) -> None:
    """Warn once if system prompt and tools alone, estimated, reach the trigger, so that no compaction can go below it."""
    if marks.autocompact and overhead_tokens >= marks.threshold:
        warnings.warn(
            f"no automatic compaction is possible with {marks.model!r}: system prompt and tools take {overhead_tokens:,} tokens, "
            f"the trigger is at {marks.threshold:,} of {marks.context:,}",
            NoTriggerWarning,
            stacklevel=3,
        )


def warning_state(
    tokens: int,
    model: Model | str,
    *,
    autocompact: bool = True,
    compaction: bool = True,
    settings: WindowSettings | None = None,
    table: ModelTable | None = None,
    start_percent: int = 0,
) -> WarningState:
    """Compare usage with a model's window; WIN-3.

    Args:
        tokens: Tokens in use: the anchored count of the whole request.
        model: A row of a table, or a name to look up.
        autocompact: The host's setting.
        compaction: The same for compaction as a whole.
        settings: `None`: none are set.
        table: Where to look a name up; `None`: the built-in table.
        start_percent: The trigger as percent of the window; 0: by the buffers.

    Raises:
        InvalidPolicy: `tokens` is negative, or no whole number.

    Example:
        >>> warning_state(150_000, "claude-opus-4-5")
        WarningState(percent_left=10, above_warning=True, above_error=True, above_autocompact=False, at_blocking_limit=False)
    """
    marks = window_for(
        model,
        autocompact=autocompact,
        compaction=compaction,
        settings=settings,
        table=table,
        start_percent=start_percent,
    )
    return marks.state(tokens)

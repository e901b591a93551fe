"""Window settings from the environment, a client's settings or the host."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from ullage import _env
from ullage._late import fractions, pattern

__all__ = ["IgnoredSetting", "WindowSettings"]


class IgnoredSetting(NamedTuple):
    """A setting with an invalid value, which has no effect, and the reason."""

    name: str
    value: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowSettings:
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
        """Settings from variables. An invalid value is ignored, and listed with a reason.

        Args:
            values: By the names of `ullage._env`; an absent or empty one is not set.
        """
        ignored: list[IgnoredSetting] = []

        def number(name: str, most: int | None = None) -> fractions.Fraction | None:
            value = values.get(name, "").strip()
            found, reason = _number(value, most)
            if reason:
                ignored.append(IgnoredSetting(name, value, reason))
            return found

        return cls(
            auto_compact_window=_whole(number(_env.AUTO_COMPACT_WINDOW)),
            max_context_tokens=_whole(number(_env.MAX_CONTEXT_TOKENS)),
            autocompact_percent=number(_env.AUTOCOMPACT_PERCENT, 100),
            blocking_limit=_whole(number(_env.BLOCKING_LIMIT)),
            disable_compact=_env.is_truthy(values.get(_env.DISABLE_COMPACT, "")),
            disable_auto_compact=_env.is_truthy(values.get(_env.DISABLE_AUTO_COMPACT, "")),
            context_collapse=_switch(values.get(_env.CONTEXT_COLLAPSE, "")),
            ignored=tuple(ignored),
        )


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


def _switch(value: str) -> bool | None:
    return _env.is_truthy(value) if value.strip() else None


def _of_settings(settings: Mapping[str, object]) -> dict[str, str]:
    """Settings as the variables with the same meaning."""
    inner = settings.get("env")
    found = {str(k): str(v) for k, v in inner.items()} if isinstance(inner, Mapping) else {}
    given = settings.get("autoCompactWindow")
    if given is not None:
        found.setdefault(_env.AUTO_COMPACT_WINDOW, str(given))
    if settings.get("autoCompactEnabled") is False:
        found.setdefault(_env.DISABLE_AUTO_COMPACT, "1")
    return {name: value for name, value in found.items() if name in _env.WINDOW}


def _whole(number: fractions.Fraction | None) -> int | None:
    return None if number is None else int(number)

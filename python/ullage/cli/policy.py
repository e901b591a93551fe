"""`ullage policy`: the current value of every setting, from the policy and the environment."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from ullage import _env
from ullage.cli.output import Output, counted
from ullage.counting.window import Window, WindowSettings, window_for
from ullage.policy import EffectiveValue, Policy

_TABLE_COLUMNS = 110
"""Room for names, values and a reason in about two lines."""


def policy_command(
    *,
    file: Annotated[Path | None, Parameter(help="a TOML file that overrides the preset")] = None,
    ladder: Annotated[
        bool,
        Parameter(negative="", help="use the preset whose thresholds are shares of the window"),
    ] = False,
    model: Annotated[
        str | None, Parameter(help="also show the thresholds for this model's window")
    ] = None,
    json: Annotated[bool, Parameter(negative="", help="print JSON")] = False,
) -> int:
    """Print every setting with its value, unit and reason, and the window settings of the environment."""
    policy = Policy.load(file) if file or not ladder else Policy.ladder()
    settings = WindowSettings.from_env()
    marks = window_for(model, autocompact=policy.auto.enabled, settings=settings) if model else None
    out = Output(as_json=json)
    if json:
        out.json(_document(policy, settings, marks))
        return 0
    out.heading(f"Policy.{policy.preset}()")
    _settings(out, policy)
    out.heading("window")
    out.table(("setting", "value"), _rows(settings, marks), right=(1,))
    for ignored in settings.ignored:
        out.line(f"{ignored.name}={ignored.value} has no effect: {ignored.reason}", style="yellow")
    return 0


def _settings(out: Output, policy: Policy) -> None:
    """A table; on a narrow terminal the reason of each setting stands below it."""
    if out.piped or out.console.width >= _TABLE_COLUMNS:
        rows = [(field.name, _value(field), field.why) for field in policy.effective()]
        out.table(("setting", "value", "why"), rows, whole=(0,))
        return
    for field in policy.effective():
        out.line(f"{field.name:<34} {_value(field)}")
        out.field("", field.why, width=4, style="dim")


def _value(field: EffectiveValue) -> str:
    if isinstance(field.value, tuple) or not field.unit:
        return _shown(field.value)
    return (
        f"{_shown(field.value)} {field.unit.removesuffix('s') if field.value == 1 else field.unit}"
    )


def _document(policy: Policy, settings: WindowSettings, marks: Window | None) -> dict[str, Any]:
    report: dict[str, Any] = {value.name: value.value for value in policy.effective()}
    report["window"] = dict(_rows(settings, marks))
    report["ignored"] = [list(row) for row in settings.ignored]
    return report


def _rows(settings: WindowSettings, marks: Window | None) -> list[tuple[str, str]]:
    percent = settings.autocompact_percent
    rows: list[tuple[str, object]] = [
        (_env.AUTO_COMPACT_WINDOW, settings.auto_compact_window),
        (_env.AUTOCOMPACT_PERCENT, None if percent is None else float(percent)),
        (_env.BLOCKING_LIMIT, settings.blocking_limit),
        (_env.DISABLE_COMPACT, settings.disable_compact),
        (_env.DISABLE_AUTO_COMPACT, settings.disable_auto_compact),
    ]
    if marks is not None:
        names = (
            "context",
            "effective",
            "threshold",
            "warning_at",
            "error_at",
            "blocking_at",
            "autocompact",
        )
        rows += [(name, getattr(marks, name)) for name in names]
    return [(name, "not set" if value is None else _shown(value)) for name, value in rows]


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, tuple):
        return counted(len(value), "name")
    return f"{value:,}" if isinstance(value, int) else str(value)

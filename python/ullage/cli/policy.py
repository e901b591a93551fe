"""`ullage policy`: the current value of every setting, from the policy and the environment."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Annotated, Any

import orjson
from cyclopts import Parameter

from ullage import _env
from ullage._start import table
from ullage.cli.output import JSON_VERSION, Json, Ladder, Output, counted
from ullage.counting.window import Window, WindowSettings, window_for
from ullage.exceptions import InvalidPolicy
from ullage.policy import EffectiveValue, Policy


def policy_command(
    *,
    file: Annotated[Path | None, Parameter(name=("--policy", "--file"))] = None,
    ladder: Ladder = False,
    model: str | None = None,
    json: Json = False,
) -> int:
    """Print every setting with its value, unit and reason, and the window settings of the environment.

    Args:
        file: a TOML file that overrides the preset
        model: also show the thresholds for this model's window
    """
    policy = Policy.load(file) if file or not ladder else Policy.ladder()
    settings = WindowSettings.from_env()
    marks = window_for(model, autocompact=policy.auto.enabled, settings=settings) if model else None
    out = Output(as_json=json)
    rows, effective = _rows(settings, marks), policy.effective()
    if json:
        report: dict[str, Any] = {value.name: value.value for value in effective}
        out.json(
            {**report, "window": dict(rows), "ignored": [list(row) for row in settings.ignored]}
        )
        return 0
    out.heading(f"Policy.{policy.preset}()")
    # A table needs room for names, values and a reason in about two lines.
    if out.piped or out.console.width >= 110:
        cells = [(field.name, _value(field), field.why) for field in effective]
        out.table(("setting", "value", "why"), cells, whole=(0,))
    else:  # each reason below its setting
        for field in effective:
            out.line(f"{field.name:<34} {_value(field)}")
            out.field("", field.why, width=4, style="dim")
    out.heading("window")
    out.table(("setting", "value"), rows, right=(1,))
    for ignored in settings.ignored:
        out.line(f"{ignored.name}={ignored.value} has no effect: {ignored.reason}", style="yellow")
    return 0


def _value(field: EffectiveValue) -> str:
    if isinstance(field.value, tuple) or not field.unit:
        return _shown(field.value)
    unit = field.unit.removesuffix("s") if field.value == 1 else field.unit
    return f"{_shown(field.value)} {unit}"


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
        names = "context effective threshold warning_at error_at blocking_at autocompact"
        rows += [(name, getattr(marks, name)) for name in names.split()]
    return [(name, "not set" if value is None else _shown(value)) for name, value in rows]


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, tuple):
        return counted(len(value), "name")
    return f"{value:,}" if isinstance(value, int) else str(value)


Schema = dict[str, Any]

LINES = ("watch",)
"""Commands that print a line per change, without the envelope."""

ERROR: Schema = {
    "type": "object",
    "properties": {
        "code": {"type": "string", "description": "the same for every error of a kind"},
        "message": {"type": "string", "description": "what is wrong: place, value, limit"},
        "hint": {"type": ["string", "null"], "description": "the next step"},
    },
    "required": ["code", "message", "hint"],
}


def schema_command(
    *words: str,
) -> int:
    """Print the JSON Schema of what a command prints with --json, errors included.

    Later releases may add keys; changing the meaning of a key, or removing one, raises `version`.

    Args:
        words: a command, such as `compact` or `memory list`; none: list them
    """
    if words:
        print(orjson.dumps(command_schema(" ".join(words)), option=orjson.OPT_INDENT_2).decode())
    else:
        print("\n".join(_forms()))
    return 0


@cache
def _forms() -> dict[str, Any]:
    """What the commands that have `--json` print with it."""
    return table(__file__, "json_output.toml")


def command_schema(command: str) -> Schema:
    """The JSON Schema (2020-12) of what a command, such as `memory list`, prints with `--json`; of `watch`, of one line.

    Raises:
        InvalidPolicy: The command does not exist, or has no `--json`.
    """
    if command not in _forms():
        hint = "`ullage schema` lists those that have it"
        raise InvalidPolicy("COMMAND", command, "must be a command with --json", hint=hint)
    result = _schema(_forms()[command])
    if command not in LINES:
        result = _envelope(command, result=result)
    ends = [result, _envelope(command, error=ERROR)]
    draft = "https://json-schema.org/draft/2020-12/schema"
    return {"$schema": draft, "title": f"ullage {command} --json", "anyOf": ends}


def _envelope(command: str, **content: Schema) -> Schema:
    properties: Schema = {"version": {"const": JSON_VERSION}, "command": {"const": command}}
    properties |= content
    return {"type": "object", "properties": properties, "required": [*properties]}


def _schema(form: Any) -> Schema:
    """A form of the file as a schema."""
    if isinstance(form, str):
        types, _, meaning = form.partition(": ")
        several = types.split("|")
        if form.startswith("@"):
            return _schema(_forms()[form[1:]])
        if types == "any":
            return {"description": meaning}
        return {"type": several if len(several) > 1 else types, "description": meaning}
    if isinstance(form, list):
        return {"type": "array", "items": _schema(form[0])}
    if "either" in form:
        return {"anyOf": [_schema(choice) for choice in form["either"]]}
    named = {key: value for key, value in form.items() if key != "*"}
    schema: Schema = {"type": "object"}
    if named:
        schema["properties"] = {key.removesuffix("?"): _schema(part) for key, part in named.items()}
        schema["required"] = [key for key in named if not key.endswith("?")]
    if "*" in form:
        schema["additionalProperties"] = _schema(form["*"])
    return schema

"""`ullage policy`: the current value of every setting, from the policy and the environment."""

from __future__ import annotations

import tomllib
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any

import orjson
from cyclopts import Parameter

from ullage import _env
from ullage.cli.output import JSON_VERSION, Json, Ladder, Output, counted
from ullage.counting.window import Window, WindowSettings, window_for
from ullage.exceptions import InvalidPolicy
from ullage.policy import EffectiveValue, Policy

_TABLE_COLUMNS = 110
"""Room for names, values and a reason in about two lines."""


def policy_command(
    *,
    file: Annotated[
        Path | None,
        Parameter(name=("--policy", "--file"), help="a TOML file that overrides the preset"),
    ] = None,
    ladder: Ladder = False,
    model: Annotated[
        str | None, Parameter(help="also show the thresholds for this model's window")
    ] = None,
    json: Json = False,
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
    """A table; on a narrow terminal each reason is printed below its setting."""
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


DRAFT = "https://json-schema.org/draft/2020-12/schema"

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
    *words: Annotated[
        str, Parameter(help="a command, such as `compact` or `memory list`; none: list them")
    ],
) -> int:
    """Print the JSON Schema of what a command prints with --json, errors included.

    Later releases may add keys; changing the meaning of a key, or removing one, raises `version`.
    """
    if words:
        print(orjson.dumps(command_schema(" ".join(words)), option=orjson.OPT_INDENT_2).decode())
    else:
        print("\n".join(schema_names()))
    return 0


@cache
def _forms() -> dict[str, Any]:
    text = files("ullage.cli").joinpath("json_output.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


def schema_names() -> tuple[str, ...]:
    """The commands that have `--json`."""
    return tuple(_forms())


def command_schema(command: str) -> Schema:
    """The JSON Schema (2020-12) of what a command prints on standard output with `--json`.

    For `watch` it describes one line.

    `command`: such as `compact` or `memory list`.

    Raises:
        InvalidPolicy: The command does not exist, or has no `--json`.
    """
    if command not in _forms():
        hint = "`ullage schema` lists those that have it"
        raise InvalidPolicy("COMMAND", command, "must be a command with --json", hint=hint)
    head: Schema = {"$schema": DRAFT, "title": f"ullage {command} --json"}
    result = _schema(_forms()[command])
    if command in LINES:
        return {**head, "anyOf": [result, _envelope(command, error=ERROR)]}
    ends = [_envelope(command, result=result), _envelope(command, error=ERROR)]
    return {**head, "anyOf": ends}


def _envelope(command: str, **content: Schema) -> Schema:
    properties: Schema = {"version": {"const": JSON_VERSION}, "command": {"const": command}}
    properties |= content
    return {"type": "object", "properties": properties, "required": [*properties]}


def _schema(form: Any) -> Schema:
    """A form of the file as a schema."""
    if isinstance(form, str):
        return _schema(_forms()[form[1:]]) if form.startswith("@") else _scalar(form)
    if isinstance(form, list):
        return {"type": "array", "items": _schema(form[0])}
    if "either" in form:
        return {"anyOf": [_schema(choice) for choice in form["either"]]}
    return _object(form)


def _scalar(form: str) -> Schema:
    types, _, meaning = form.partition(": ")
    if types == "any":
        return {"description": meaning}
    several = types.split("|")
    return {"type": several if len(several) > 1 else types, "description": meaning}


def _object(form: dict[str, Any]) -> Schema:
    named = {key: value for key, value in form.items() if key != "*"}
    schema: Schema = {"type": "object"}
    if named:
        schema["properties"] = {key.removesuffix("?"): _schema(part) for key, part in named.items()}
        schema["required"] = [key for key in named if not key.endswith("?")]
    if "*" in form:
        schema["additionalProperties"] = _schema(form["*"])
    return schema

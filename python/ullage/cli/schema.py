"""`ullage schema`: JSON Schemas of what the commands print with `--json`, made of `json_output.toml`."""

from __future__ import annotations

import tomllib
from functools import cache
from importlib.resources import files
from typing import Annotated, Any

import orjson
from cyclopts import Parameter

from ullage.cli.output import JSON_VERSION
from ullage.exceptions import InvalidPolicy

DRAFT = "https://json-schema.org/draft/2020-12/schema"

Schema = dict[str, Any]

LINES = ("watch",)
"""Commands that print a line for each change, without the envelope."""

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

    A later release may add keys; one that changes the meaning of a key, or takes one away, raises `version`.
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

    Args:
        command: Such as `compact` or `memory list`.

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

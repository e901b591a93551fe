"""`ullage policy`: every setting as it stands."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from ullage.cli.output import Output
from ullage.policy import Policy

__all__ = ["policy_command"]


def policy_command(
    *,
    file: Annotated[Path | None, Parameter(help="a TOML file laid over the preset")] = None,
    json: Annotated[bool, Parameter(negative="", help="print JSON")] = False,
) -> int:
    """Print every setting with its value, unit and reason."""
    policy = Policy.load(file)
    out = Output(as_json=json)
    if json:
        out.json({value.name: value.value for value in policy.effective()})
        return 0
    out.heading(f"Policy.{policy.preset}()")
    out.table(
        ("setting", "value", "unit", "why"),
        ((each.name, _shown(each.value), each.unit, each.why) for each in policy.effective()),
        right=(1,),
    )
    return 0


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, tuple):
        return f"{len(value)} names"
    return f"{value:,}" if isinstance(value, int) else str(value)

"""Every rule by its id: what it demands, what to do, and where that comes from. The data is `rules.toml`."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import NamedTuple

from ullage._late import pathlib

__all__ = ["Rule", "rules"]


class Rule(NamedTuple):
    """One rule of the catalogue."""

    id: str
    demand: str
    advice: str
    source: str


@cache
def rules() -> Mapping[str, Rule]:
    """All rules by id, read when first asked for."""
    import tomllib

    text = pathlib.Path(__file__).with_name("rules.toml").read_text(encoding="utf-8")
    return MappingProxyType({name: Rule(name, **row) for name, row in tomllib.loads(text).items()})

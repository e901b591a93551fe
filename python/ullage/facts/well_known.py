"""Names that any model knows without being reminded: standard libraries, everyday commands, usual files."""

from __future__ import annotations

import re
import tomllib
from functools import cache
from pathlib import Path

from ullage.facts.identifiers import NameKind

__all__ = ["is_well_known"]

_ROOT_END = re.compile(r"\.|::")


@cache
def _lists() -> dict[str, frozenset[str]]:
    data = tomllib.loads(Path(__file__).with_name("well_known.toml").read_text(encoding="utf-8"))
    return {key: frozenset(words.split()) for key, words in data.items()}


def is_well_known(name: str, kind: NameKind) -> bool:
    """Whether a name is general knowledge, as opposed to one of a repository's own.

    Example:
        >>> is_well_known("fmt.Errorf", NameKind.SYMBOL), is_well_known("cfg.Source", NameKind.SYMBOL)
        (True, False)
    """
    known = _lists()
    if kind is NameKind.SYMBOL:
        if name in known["names"]:
            return True
        root = _ROOT_END.search(name) if "." in name or "::" in name else None
        return root is not None and name[: root.start()] in known["roots"]
    if kind is NameKind.COMMAND:
        return name.partition(" ")[0] in known["programs"]
    if kind is NameKind.OPTION:
        return name in known["options"]
    return kind is NameKind.PATH and name in known["paths"]

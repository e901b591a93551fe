"""What the rules of Claude models depend on, read from the model's name."""

from __future__ import annotations

import re
from dataclasses import dataclass

__all__ = ["ModelFacts", "facts"]

_NAME = re.compile(r"(opus|sonnet|haiku|fable|mythos)-(\d)(?:[.-](\d)(?!\d))?")
_OLD_NAME = re.compile(r"claude-(\d)(?:[.-](\d)(?!\d))?-(opus|sonnet|haiku)")


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """The defaults are those of a model that is not known: the newest rules, no window, not bound."""

    prefill: bool = False
    mid_system: bool = True
    bound: bool = False
    window: int = 0
    max_output: int = 0
    output_in_window: bool = False
    no_manual: bool = False
    no_disabled: bool = False
    no_adaptive: bool = False

    @property
    def media_limit(self) -> int:
        """Images and PDF pages per request."""
        return 600 if self.window >= 1_000_000 else 100


def facts(model: str | None) -> ModelFacts:
    """Facts of a model by name; those of the newest for a name that is not Claude's."""
    family, version = _parse(model or "")
    if not family:
        return ModelFacts()
    great = version >= (4, 6)
    return ModelFacts(
        prefill=version <= (4, 5),
        mid_system=_mid_system(family, version),
        bound=version >= {"fable": (5, 1), "mythos": (5, 2)}.get(family, (5, 5)),
        window=1_000_000 if great else 200_000,
        max_output=128_000 if great else 64_000,
        output_in_window=version < (4, 5),
        no_manual=version >= (4, 7),
        no_disabled=family in ("fable", "mythos")
        or (family in ("opus", "sonnet") and version >= (5, 5)),
        no_adaptive=version <= (4, 5),
    )


def _parse(model: str) -> tuple[str, tuple[int, int]]:
    if found := _NAME.search(model):
        return found[1], (int(found[2]), int(found[3] or 0))
    if found := _OLD_NAME.search(model):
        return found[3], (int(found[1]), int(found[2] or 0))
    return "", (0, 0)


def _mid_system(family: str, version: tuple[int, int]) -> bool:
    if family in ("fable", "mythos"):
        return version >= (5, 0)
    return version >= ((4, 8) if family == "opus" else (5, 5))

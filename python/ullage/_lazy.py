"""Names of a package that load on first use, so that importing one module of a room does not load them all."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module


def on_first_use(
    room: str, homes: Mapping[str, str]
) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """A package's `__getattr__` and `__dir__` (PEP 562).

    Args:
        room: The package's `__name__`.
        homes: Module of the package → the names that it holds, with spaces between them.
    """
    home_of = {name: home for home, names in homes.items() for name in names.split()}

    def load(name: str) -> object:
        if name not in home_of:
            raise AttributeError(f"module {room!r} has no attribute {name!r}")
        value = getattr(import_module(f"{room}.{home_of[name]}"), name)
        setattr(sys.modules[room], name, value)
        return value

    return load, lambda: sorted(home_of)

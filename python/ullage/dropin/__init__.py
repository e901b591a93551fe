"""Functions of other libraries under their own names and arguments, so that one import line changes.

`ullage.dropin.tiktoken`, `.langchain`, `.litellm` and `.anthropic` are imported by name; each says what is equal to the
library that it stands in for, and what is not. None of those libraries is needed, except LangChain for its messages. Where one
is installed, its drop-in has everything else that it has: an attribute that is not Ullage's is read and set in the library.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType


def stands_in_for(drop_in: str, library: str) -> None:
    """Makes a module pass everything that is not its own on to the library's module; at its end, with `__name__`.

    Args:
        drop_in: The module's name.
        library: The module that it stands in for; imported when something of it is asked for.
    """
    module = sys.modules[drop_in]
    own = frozenset(vars(module))
    module.__class__ = (
        DropIn  # what Python documents for modules whose attributes are looked up elsewhere
    )
    module.__dict__["_drop_in_own"] = own
    module.__dict__["_drop_in_library"] = library


class DropIn(ModuleType):
    """A module that has its own functions, and whatever else the library's module has."""

    _drop_in_own: frozenset[str]
    _drop_in_library: str

    def __getattr__(self, name: str) -> object:
        if name.startswith("__"):
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        try:
            library = import_module(self._drop_in_library)
        except ModuleNotFoundError as exc:
            raise AttributeError(
                f"{self.__name__} has no {name!r} of its own, and {exc.name} is not installed"
            ) from exc
        return getattr(library, name)

    def __setattr__(self, name: str, value: object) -> None:
        # Settings such as `litellm.drop_params` count where the library reads them. Imports set submodules of our own here.
        nested = isinstance(value, ModuleType) and value.__name__ == f"{self.__name__}.{name}"
        if nested or name in self._drop_in_own or name.startswith("__"):
            super().__setattr__(name, value)
            return
        try:
            library = import_module(self._drop_in_library)
        except ModuleNotFoundError:
            super().__setattr__(name, value)
        else:
            setattr(library, name, value)

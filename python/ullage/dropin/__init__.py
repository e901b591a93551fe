"""Functions of other libraries under their own names and arguments, so that one import line changes.

`ullage.dropin.tiktoken`, `.langchain`, `.litellm` and `.anthropic` are imported by name; each says what equals the
library that it replaces, and what does not. None of those libraries is needed, except LangChain for its messages. If one is
installed, its drop-in has everything else too: an attribute that is not Ullage's is read and set in the library.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType


def stands_in_for(drop_in: str, library: str) -> None:
    """Make a module forward everything that is not its own to the library's module; call it at the end, with `__name__`.

    Args:
        drop_in: The module's name.
        library: The module that it replaces; imported on first use.
    """
    module = sys.modules[drop_in]
    own = frozenset(vars(module))
    module.__class__ = DropIn  # Python's documented way to look up a module's attributes elsewhere
    module.__dict__["_drop_in_own"] = own
    module.__dict__["_drop_in_library"] = library


class DropIn(ModuleType):
    """A module with its own functions and everything else of the library's module."""

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
        # Settings such as `litellm.drop_params` must be set where the library reads them. Imports set our own submodules here.
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

"""Refuses unknown keyword arguments at the call, with the nearest known name."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from functools import wraps
from typing import Any, ParamSpec, TypeVar, cast

from ullage.exceptions import InvalidPolicy

__all__ = ["known_arguments", "nearest", "refuse_unknown"]

P = ParamSpec("P")
R = TypeVar("R")


def nearest(name: object, known: Iterable[str]) -> str:
    """A sentence with the known name closest to this one; empty if none is close."""
    from difflib import get_close_matches  # rarely needed, and slow to import

    found = get_close_matches(str(name), list(known), n=1)
    return f"did you mean {found[0]!r}?" if found else ""


def refuse_unknown(given: Iterable[str], known: Iterable[str], where: str = "") -> None:
    """Refuse unknown names.

    Args:
        given: Names, or a mapping by name.
        known: The known names.
        where: Prefix of the name in the error.

    Raises:
        InvalidPolicy: Names the first unknown one, and the nearest known one.
    """
    names = list(known)
    for name in given:
        if name not in names:
            hint = nearest(name, names) or f"known: {', '.join(names)}"
            raise InvalidPolicy(f"{where}{name}", name, "is not an argument", hint=hint)


def known_arguments(function: Callable[P, R]) -> Callable[P, R]:
    """Wrap a function so that an unknown keyword is an `InvalidPolicy` that names it, not a `TypeError`."""
    names = [name for name in inspect.signature(function).parameters if name not in ("self", "cls")]

    if inspect.iscoroutinefunction(function):

        @wraps(function)
        async def waited(*args: P.args, **given: P.kwargs) -> Any:
            refuse_unknown(given, names)
            return await function(*args, **given)

        return cast("Callable[P, R]", waited)

    @wraps(function)
    def checked(*args: P.args, **given: P.kwargs) -> R:
        refuse_unknown(given, names)
        return function(*args, **given)

    return checked

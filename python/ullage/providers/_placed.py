"""A block that cannot be written is `InvalidMessage` with its place, whatever was wrong inside it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, Final, TypeAlias, TypeVar, cast

from ullage.exceptions import InvalidMessage, UllageError
from ullage.messages import message_of

__all__ = ["BROKEN", "placed", "refused"]

F = TypeVar("F", bound=Callable[..., Any])
Write: TypeAlias = Callable[[Sequence[Any]], object]

BROKEN: Final = (
    ArithmeticError,
    AttributeError,
    LookupError,
    RecursionError,
    TypeError,
    ValueError,
)
"""What reading a value of another type or depth than any API sends can end in."""


def placed(write: F) -> F:
    """The function, with such errors raised as `InvalidMessage`; the place is searched only after an error."""

    @wraps(write)
    def told(messages: Sequence[Any], *args: Any, **named: Any) -> Any:
        items = messages if isinstance(messages, list | tuple) else list(messages)
        try:
            return write(items, *args, **named)
        except UllageError:
            raise
        except BROKEN as exc:
            raise refused(lambda part: write(part, *args, **named), items, exc) from exc

    return cast("F", told)


def refused(work: Write, items: Sequence[Any], exc: Exception) -> InvalidMessage:
    """The error for items that some work could not be done on.

    Args:
        work: The same for a part of the items.
        items: All of them.
        exc: What happened.
    """
    reason = f"cannot be read ({type(exc).__name__}: {str(exc)[:200]})"
    if isinstance(exc, RecursionError):
        reason = "is nested too deeply"
    if _breaks(work, ()):
        return InvalidMessage(reason, field="system or tools")
    for index, item in enumerate(items):
        if _breaks(work, (item,)):
            return InvalidMessage(reason, index=index, field=_field(work, item))
    return InvalidMessage(reason)


def _field(work: Write, item: Any) -> str:
    """The first block that breaks by itself, else the message."""
    message = message_of(item) or {}
    content = message.get("content")
    for at, block in enumerate(content if isinstance(content, list) else ()):
        if _breaks(work, ({"role": message.get("role"), "content": [block]},)):
            return f"content[{at}]"
    return ""


def _breaks(work: Write, part: Sequence[Any]) -> bool:
    try:
        work(part)
    except UllageError:
        return False
    except BROKEN:
        return True
    return False

"""`--from` and `--up-to`: which part of a session is summarised."""

from __future__ import annotations

from typing import Literal

from ullage.exceptions import InvalidPolicy
from ullage.sessions import Session

__all__ = ["part_of"]


def part_of(
    opened: Session, start: str | None, end: str | None
) -> tuple[Literal["full", "from", "up_to"], str | None]:
    """The direction and the uuid of the entry where it begins or ends; `full` and `None` without either option.

    Args:
        opened: The session.
        start: Uuid of an entry, or a prefix of it: that entry and all after it are summarised. `None`: not given.
        end: Likewise, but everything before it is summarised. `None`: not given.

    Raises:
        InvalidPolicy: Both are given, or no entry or several entries have that uuid.
    """
    if start is not None and end is not None:
        raise InvalidPolicy("--from", start, "cannot be given together with --up-to")
    if start is not None:
        return "from", _uuid(opened, "--from", start)
    if end is not None:
        return "up_to", _uuid(opened, "--up-to", end)
    return "full", None


def _uuid(opened: Session, option: str, given: str) -> str:
    uuids: list[str] = [item["uuid"] for item in opened.items if isinstance(item.get("uuid"), str)]
    found = [uuid for uuid in uuids if given and uuid.startswith(given)]
    if given in found:
        return given
    if len(found) != 1:
        reason = (
            "is not the uuid of an entry in this session"
            if not found
            else f"is a prefix of {len(found)} uuids"
        )
        raise InvalidPolicy(option, given, reason, hint="each line of the file holds its `uuid`")
    return found[0]

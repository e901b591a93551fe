"""The values of `--target` and `--window`: tokens, or a share of the current size of the context."""

from __future__ import annotations

import dataclasses
import re
from typing import Annotated, TypeAlias

from cyclopts import Parameter

from ullage.counting.window import WindowSettings
from ullage.exceptions import InvalidPolicy
from ullage.sessions import Session

__all__ = ["WindowOption", "read_target", "read_window"]

_SIZE = re.compile(r"([0-9]{1,12})|([0-9]{1,12}(?:\.[0-9]{1,6})?) ?([km%])", re.IGNORECASE)
_THOUSANDS = re.compile(r"(?<=[0-9])[_,](?=[0-9]{3}(?![0-9]))")
_UNITS = {"": 1, "k": 1_000, "m": 1_000_000}

WindowOption: TypeAlias = Annotated[
    str | None,
    Parameter(
        name="--window",
        help="tokens of the window to work in (200000, 200k); default: the model's whole window",
    ),
]
"""`--window` of the commands that compare a session with a window."""


def read_window(given: str | None) -> WindowSettings:
    """The settings of the environment, with the window that `--window` names; `None`: it names none.

    Raises:
        InvalidPolicy: It is no number of tokens, or less than one.
    """
    settings = WindowSettings.from_env()
    if given is None:
        return settings
    found = _SIZE.fullmatch(_THOUSANDS.sub("", given.strip()))
    if found is None or found[3] == "%":
        raise InvalidPolicy("--window", given, "must be tokens (200000, 200k, 1m)")
    tokens = int(float(found[1] or found[2]) * _UNITS[(found[3] or "").lower()])
    if tokens < 1:
        raise InvalidPolicy("--window", given, "must be at least 1 token")
    return dataclasses.replace(settings, auto_compact_window=tokens)


def read_target(given: str | None, session: Session, *, model: str | None = None) -> int | None:
    """The maximum number of tokens for the new context; `None`: no target was given.

    Args:
        given: Such as `20000`, `20k`, `1.5m` or `10%`; a percentage refers to the size before the compaction, as reported.
        session: The session to compact.
        model: Model whose tokenizer counts; `None`: the one in the session.

    Raises:
        InvalidPolicy: It is not such a value, or is less than one token.
    """
    if given is None:
        return None
    found = _SIZE.fullmatch(_THOUSANDS.sub("", given.strip()))
    if found is None:
        raise _refused(given, "must be tokens (20000, 20k, 1.5m) or a share of the context (10%)")
    number, unit = float(found[1] or found[2]), (found[3] or "").lower()
    if unit == "%" and not 0 < number <= 100:
        raise _refused(given, "must be more than 0% and at most 100%")
    tokens = int(number / 100 * _size(session, model) if unit == "%" else number * _UNITS[unit])
    if tokens < 1:
        raise _refused(given, "must be at least 1 token")
    return tokens


def _refused(given: str, limit: str) -> InvalidPolicy:
    return InvalidPolicy("--target", given, limit)


def _size(session: Session, model: str | None) -> int:
    # `inspect` reads `--window` here: it must not load what compacts.
    from ullage.compaction.api import job_of
    from ullage.compaction.prepared import prepare

    state = prepare(job_of(session.items, model=model or session.model or None))
    return state.size - state.overhead

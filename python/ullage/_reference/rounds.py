"""API rounds: one response and what answers it. The twin of `rust/core/src/rounds.rs`."""

from __future__ import annotations

from ullage._reference.digest import Role
from ullage._reference.digests import Digests

__all__ = ["rounds"]


def rounds(digests: Digests, start: int, stop: int) -> list[int]:
    """First index of each round of `[start, stop)`, as if these messages were all.

    A round starts at each response; what stands before the first one belongs to round 0. A response
    stored in pieces (one response id) is one response, also where results stand between them.
    Without ids, neighbouring assistant messages are one response. What stands aside (other threads,
    metadata) stays in the running round.
    """
    firsts = [start] if start < stop else []
    response: int | None = None
    adjacent = False
    for index in range(start, stop):
        message = digests.messages[index]
        if digests.aside(index):
            continue
        if message.role != Role.ASSISTANT:
            adjacent = False
            continue
        same = response == message.response_id and (message.response_id != 0 or adjacent)
        if response is not None and not same:
            firsts.append(index)
        response, adjacent = message.response_id, True
    return firsts

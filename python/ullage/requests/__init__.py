"""What is sent: stored messages made a provider's request, responses read back, whole requests counted; functions on plain lists."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ullage._start import on_first_use

if TYPE_CHECKING:
    from ullage.requests.count import (
        Counted as Counted,
        Overrun as Overrun,
        RemoteCounter,
        RequestCount as RequestCount,
        count_request,
    )
    from ullage.requests.lists import (
        KeptWindow as KeptWindow,
        TruncatedHead as TruncatedHead,
        estimate_each,
        estimate_text,
        estimate_tokens as estimate_tokens,
        group_rounds,
        keep_window as keep_window,
        truncate_head as truncate_head,
    )
    from ullage.requests.to_request import Outgoing as Outgoing, outgoing as outgoing

__all__ = ["RemoteCounter", "count_request", "estimate_each", "estimate_text", "group_rounds"]

_HOMES = {
    "count": "Counted Overrun RemoteCounter RequestCount count_request",
    "lists": "KeptWindow TruncatedHead estimate_each estimate_text estimate_tokens group_rounds keep_window truncate_head",
    "to_request": "Outgoing outgoing",
}
if not TYPE_CHECKING:
    __getattr__, __dir__ = on_first_use(__name__, _HOMES)

"""What is sent: stored messages made a provider's request, responses read back, whole requests counted."""

from __future__ import annotations

from ullage.requests.count import Overrun, RequestCount, count_request
from ullage.requests.remote_count import Counted, RemoteCounter

__all__ = ["Counted", "Overrun", "RemoteCounter", "RequestCount", "count_request"]

"""Counts of a whole request, by estimate, by a public vocabulary, or by the provider's own endpoint."""

from __future__ import annotations

from ullage.counting.remote import Counted, RemoteCounter
from ullage.counting.request import Overrun, RequestCount, count_request

__all__ = ["Counted", "Overrun", "RemoteCounter", "RequestCount", "count_request"]

"""A loopback server that speaks the providers' APIs, enforces their rules, and misbehaves on demand."""

from __future__ import annotations

from ullage.testing.server.http import ScriptedServer
from ullage.testing.server.wire import Recorded

__all__ = ["Recorded", "ScriptedServer"]

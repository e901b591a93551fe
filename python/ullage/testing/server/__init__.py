"""A loopback server that speaks three APIs, by a script."""

from __future__ import annotations

from ullage.testing.server.http import ScriptedServer as ScriptedServer
from ullage.testing.server.wire import Recorded as Recorded

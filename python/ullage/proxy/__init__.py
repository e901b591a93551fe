"""A local gateway between an unmodified client and its provider: `ullage proxy`.

```text
gateway          the listening server; one request from its head to its answer, bounded; calls of the known APIs: answered here, made
                 to fit, repeated once, or passed on
proxy_settings   every setting of the gateway
upstream         which path means which API; the connection to the provider, relayed byte for byte
client_calls     one such call: its bytes, and what they say; the line of its conversation that it continues; the client's own
                 compaction, where it asks for one
fitter           runs the levels on it, and keeps what they decided over a restart
compaction_answers  answers a client's own compaction in the wire form that it expects
pages            what the page and the metrics show
```

Needs the extra `proxy`. What is assumed about clients and providers is listed in `docs/protocols.md`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ullage._start import on_first_use

if TYPE_CHECKING:
    from ullage.proxy.gateway import make_app, serve
    from ullage.proxy.proxy_settings import ProxySettings

__all__ = ["ProxySettings", "make_app", "serve"]

_HOMES = {
    "gateway": "make_app serve",
    "proxy_settings": "ProxySettings",
}

__getattr__, __dir__ = on_first_use(__name__, _HOMES)

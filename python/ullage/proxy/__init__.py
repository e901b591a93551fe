"""A local gateway between a client that nobody changes and its provider: `ullage proxy`.

```text
proxy_settings   every setting of the gateway
serving          the listening server; gateway: one request from arrival to answer
request_heads    limits before a request's headers are complete; incoming: a request as it arrives: bounded, and whether its client is
                 still there
endpoints        which path means which API; upstream: the connection to the provider, relayed byte for byte
known_calls      calls of the known APIs; client_calls: one of them; client_answer: what goes back
fitter           runs the levels: client_lines recognises whose call it is, client_list reads and writes its list,
                 line_states keeps what was decided
compaction_answers  the client's own compaction: client_compaction recognises it and writes the summary,
                 local_answers puts it on the wire, handed_out turns opaque items back into messages
accounts         what the page shows; pages: the page, metrics, what left; answer_tap: what a relayed answer says
```

Needs the extra `proxy`. What is assumed about clients and providers is listed in `docs/protocols.md`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ullage._lazy import on_first_use

if TYPE_CHECKING:
    from ullage.proxy.gateway import make_app, serve
    from ullage.proxy.proxy_settings import ProxySettings

__all__ = ["ProxySettings", "make_app", "serve"]

_HOMES = {
    "gateway": "make_app serve",
    "proxy_settings": "ProxySettings",
}

__getattr__, __dir__ = on_first_use(__name__, _HOMES)

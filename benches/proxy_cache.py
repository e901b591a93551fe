"""Whether the gateway breaks the provider's cached prefix only where that pays.

    python benches/proxy_cache.py [--tokens 170000] [--seeds 5 11 23]

Whole sessions in Claude Code's form (marks on the system prompt and on the two newest user messages) go through the gateway to a
server that keeps a prompt cache by the provider's rules. Three gateways see each: one without levels, the default, and one whose
levels never wait. A request *breaks* the prefix if it reads less than the one before it had left in the cache. Prices are those of
the model in Ullage's table: each token of a prompt is written, read or neither.
"""

from __future__ import annotations

import argparse
import http.client
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from tests.oracle.server import OracleServer
from tests.proxy.kit import Proxy, asks
from ullage.counting.models import ModelTable
from ullage.policy import Policy
from ullage.proxy.fitter import gateway_policy
from ullage.testing import conversation

MODEL = "claude-opus-4-5"
SYSTEM = [{"type": "text", "text": "You are a coding agent. " * 400, "cache_control": {"type": "ephemeral"}}]  # fmt: skip
LATER = 10
"""Requests after which a break must have paid, as the gateway's policy has it."""


@dataclass(frozen=True)
class Asked:
    """One request: what the provider counted, and whether it was the client's own."""

    plain: int
    written: int
    read: int
    changed: bool

    @property
    def dollars(self) -> float:
        prices = ModelTable.builtin().find(MODEL).prices
        parts = ((self.plain, prices.input), (self.written, prices.cache_write_5m), (self.read, prices.cache_read))  # fmt: skip
        return sum(tokens * price for tokens, price in parts) / 1e6


def marked(items: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    made = list(items)
    users = [at for at, item in enumerate(made) if item["role"] == "user"]
    for at in users[-2:]:
        content = made[at]["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else list(content)
        blocks[-1] = {**blocks[-1], "cache_control": {"type": "ephemeral"}}
        made[at] = {**made[at], "content": blocks}
    return made


def run(items: Sequence[dict[str, Any]], **settings: Any) -> list[Asked]:
    """Each request of a session through a gateway."""
    found = []
    with OracleServer(enforce=False) as server, Proxy(server.url, **settings) as proxy:
        connection = http.client.HTTPConnection(urlsplit(proxy.url).netloc, timeout=120)
        for count in asks(items):
            body = {"model": MODEL, "max_tokens": 4000, "system": SYSTEM, "messages": marked(items[:count])}  # fmt: skip
            raw = json.dumps(body).encode()
            connection.request("POST", "/v1/messages", raw, {"x-api-key": "k", "anthropic-version": "2023-06-01"})  # fmt: skip
            answer = connection.getresponse()
            said = json.loads(answer.read())
            assert answer.status == 200, said
            usage = said["usage"]
            found.append(
                Asked(
                    usage["input_tokens"],
                    usage["cache_creation_input_tokens"],
                    usage["cache_read_input_tokens"],
                    server.requests[-1].body != raw,
                )
            )
    return found


def breaks(asked: Sequence[Asked]) -> list[int]:
    """Requests that read less than the one before had left in the cache."""
    kept = [each.read + each.written for each in asked]
    return [at for at in range(1, len(asked)) if asked[at].read < kept[at - 1]]


def show(name: str, asked: Sequence[Asked], whole: Sequence[Asked]) -> None:
    places = breaks(asked)
    again = sum(asked[at - 1].read + asked[at - 1].written - asked[at].read for at in places)
    saved = sum(each.dollars for each in whole) - sum(each.dollars for each in asked)
    print(
        f"  {name:<22} {sum(each.changed for each in asked):4} of {len(asked)} requests changed, {len(places):3} break the prefix, "
        f"{again:9,} tokens written again, ${sum(each.dollars for each in asked):6.2f} ({saved:+.2f} saved)"
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--tokens", type=int, default=170_000)
    parser.add_argument("--seeds", type=int, nargs="+", default=[5, 11, 23])
    args = parser.parse_args()
    eager = gateway_policy(Policy.buffered())
    for seed in args.seeds:
        items = conversation(seed, tokens=args.tokens)
        while items[-1]["role"] == "assistant":
            items.pop()
        whole = run(items, levels=False)
        print(f"session {seed}: {len(items)} messages")
        show("without levels", whole, whole)
        show("the gateway", run(items), whole)
        show("levels that never wait", run(items, policy=eager), whole)


if __name__ == "__main__":
    main()

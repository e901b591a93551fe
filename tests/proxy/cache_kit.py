"""Sessions in Claude Code's form through the gateway to a server that keeps a prompt cache, and what each request cost."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tests.oracle.server import OracleServer
from tests.proxy.kit import Proxy, asks, call
from ullage.counting.models import ModelTable

MODEL = "claude-opus-4-5"
SYSTEM = [{"type": "text", "text": "You are a coding agent. " * 400, "cache_control": {"type": "ephemeral"}}]  # fmt: skip


@dataclass(frozen=True)
class Asked:
    """One request: what the provider counted, and whether it was the client's own."""

    plain: int
    written: int
    read: int
    changed: bool

    @property
    def prompt(self) -> int:
        return self.plain + self.written + self.read

    @property
    def dollars(self) -> float:
        prices = ModelTable.builtin().find(MODEL).prices
        parts = ((self.plain, prices.input), (self.written, prices.cache_write_5m), (self.read, prices.cache_read))  # fmt: skip
        return sum(tokens * float(price) for tokens, price in parts) / 1e6


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
    headers = {"x-api-key": "k", "anthropic-version": "2023-06-01"}
    with OracleServer(enforce=False) as server, Proxy(server.url, **settings) as proxy:
        for count in asks(items):
            asked = {"model": MODEL, "max_tokens": 4000, "system": SYSTEM}
            raw = json.dumps({**asked, "messages": marked(items[:count])}).encode()
            status, _, said = call(proxy.url, "POST", "/v1/messages", raw, headers, timeout=120)
            assert status == 200, said
            usage = json.loads(said)["usage"]
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


def paid_after(asked: Sequence[Asked], whole: Sequence[Asked], at: int) -> float:
    """Requests after which what a break saves has paid for what it costs: what it freed is what the prompt lost against the client's."""
    prices = ModelTable.builtin().find(MODEL).prices
    grown = whole[at].prompt - whole[at - 1].prompt
    freed = asked[at - 1].prompt + grown - asked[at].prompt
    again = asked[at - 1].read + asked[at - 1].written - asked[at].read - freed
    price = float(prices.cache_write_5m - prices.cache_read)
    return max(0, again) * price / (freed * float(prices.cache_read)) if freed > 0 else float("inf")

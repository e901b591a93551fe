"""Compactions of recorded sessions, answered by the gateway on loopback.

    python -m benches.fidelity.proxy_boundaries --corpus FOLDER [--most N]

At each compaction in the sessions, the context before it is sent as its client sends it: Claude Code's with a request for a summary,
Codex' to `/v1/responses/compact`. No call may reach the upstream, and the context that follows must be legal. Forward use is
the share of the identifiers used in the next 20 tool calls that the text still holds, next to that of what stood in the session after
its own compaction, as far as it can be read (Codex' is sealed but for the user's messages); *same size*: ours within that many bytes.
"""

from __future__ import annotations

import argparse
import http.client
import json
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from statistics import fmean, median
from typing import Any
from urllib.parse import urlsplit

import uvicorn
from benches.fidelity.cuts import Cut, boundaries, said
from benches.fidelity.measures import LEAST, needs, share

from ullage import outgoing, validate
from ullage.proxy import ProxySettings
from ullage.proxy.compaction_answers import HandedOut
from ullage.proxy.gateway import config_of, url_of
from ullage.stores import FolderStore
from ullage.testing import ScriptedServer

ASK = """CRITICAL: Respond with TEXT ONLY. Do NOT call any tools.

Your task is to create a detailed summary of the conversation so far. Think in <analysis> tags first, then write nine
sections in <summary> tags.
"""


CLAUDE, GPT = "claude-opus-4-5", "gpt-5.4"


@dataclass(frozen=True)
class Row:
    """One compaction and its answer."""

    cut: Cut
    text: str
    same: str
    milliseconds: float
    tokens: int
    broken: int


class Gateway:
    def __init__(self, upstream: str) -> None:
        self.folder = tempfile.TemporaryDirectory()
        store = FolderStore(self.folder.name)
        self.handed_out = HandedOut(store)
        settings = ProxySettings(upstream=upstream, port=0, store=store)
        self.server = uvicorn.Server(config_of(settings))
        threading.Thread(target=self.server.run, daemon=True).start()
        while not self.server.started:
            time.sleep(0.01)
        self.place = urlsplit(url_of(self.server.servers[0].sockets[0])).netloc

    def ask(self, path: str, body: dict) -> tuple[dict, float]:
        raw = json.dumps(body).encode()
        connection = http.client.HTTPConnection(self.place, timeout=120)
        begun = time.perf_counter()
        connection.request(
            "POST",
            path,
            raw,
            {"content-type": "application/json", "x-api-key": "k", "authorization": "Bearer k"},
        )
        answer = connection.getresponse()
        found = json.loads(answer.read())
        seconds = time.perf_counter() - begun
        connection.close()
        assert answer.status == 200, found
        return found, seconds * 1000


def claude_code(gateway: Gateway, cut: Cut) -> Row:
    messages = list(outgoing([said(item) for item in cut.before], provider="anthropic").messages)
    asked = {"role": "user", "content": [{"type": "text", "text": ASK}]}
    body = {"model": CLAUDE, "max_tokens": 20_000, "messages": [*messages, asked]}
    answer, milliseconds = gateway.ask("/v1/messages?beta=true", body)
    text = answer["content"][0]["text"]
    limit = max(1, len(cut.written.encode()) // 4)
    same, _ = gateway.ask("/v1/messages", {**body, "max_tokens": limit})
    later = [{"role": "user", "content": f"This session is being continued.\n\n{text}"}]
    report = validate(later, provider="anthropic", model=CLAUDE)
    tokens = sum(answer["usage"].values())
    return Row(cut, text, same["content"][0]["text"], milliseconds, tokens, len(report.errors))


def codex(gateway: Gateway, cut: Cut) -> Row:
    items = list(outgoing([said(i) for i in cut.before], provider="openai_responses").messages)
    answer, milliseconds = gateway.ask("/v1/responses/compact", {"model": GPT, "input": items})
    kept = gateway.handed_out.opened(answer["output"])
    assert kept, "nothing was compacted"
    report = validate(
        [*kept, {"role": "user", "content": "Go on."}], provider="openai_responses", model=GPT
    )
    text = "\n\n".join(_texts(item) for item in kept)
    tokens = answer["usage"]["total_tokens"]
    return Row(cut, text, "", milliseconds, tokens, len(report.errors))


def _texts(item: dict[str, Any]) -> str:
    """What an item shows the model."""
    content = item.get("content")
    parts = content if isinstance(content, list) else []
    said = [content] if isinstance(content, str) else [str(p.get("text") or "") for p in parts]
    more = (item.get(key) for key in ("arguments", "output", "input"))
    return "\n".join([*said, *(each for each in more if isinstance(each, str))])


def show(name: str, rows: Sequence[Row]) -> None:
    print(
        f"{name}: {len(rows)} compactions, {sum(row.tokens for row in rows)} model tokens, "
        f"{sum(row.broken for row in rows)} violations; {line([row.milliseconds for row in rows])}"
    )
    used = [(row, needs(row.cut)) for row in rows]
    used = [(row, names) for row, names in used if len(names) >= LEAST]
    if not used:
        return
    ours, own = (
        fmean(share(text(row), names) for row, names in used)
        for text in (lambda row: row.text, lambda row: row.cut.written)
    )
    size = fmean(len(row.text) / max(1, len(row.cut.written)) for row, _ in used)
    same = [share(row.same, names) for row, names in used if row.same]
    there = f", {fmean(same):.1%} at the same size" if same else ""
    print(
        f"  forward use over the {len(used)} with at least {LEAST} identifiers used next: {ours:.1%} at {size:.1f} times the size{there}; "
        f"what can be read of the session's own {own:.1%}"
    )


def line(times: list[float]) -> str:
    if not times:
        return "none"
    ordered = sorted(times)
    return f"{median(ordered):.0f} ms in the median, {ordered[min(len(ordered) - 1, len(ordered) * 99 // 100)]:.0f} ms at p99"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--corpus", type=Path, required=True)
    parser.add_argument("--most", type=int, default=None, help="of each client; default: all")
    args = parser.parse_args()
    with ScriptedServer() as upstream:
        gateway = Gateway(upstream.url)
        for name, mark, answered in (
            ("Claude Code", "cc_*", claude_code),
            ("Codex", "codex_*", codex),
        ):
            found = (
                c for place in sorted(args.corpus.glob(mark)) for c in boundaries(place) if c.before
            )
            show(name, [answered(gateway, cut) for cut in islice(found, args.most)])
        assert not upstream.requests, "a call reached the upstream"
        print("0 calls reached the upstream")


if __name__ == "__main__":
    sys.exit(main())

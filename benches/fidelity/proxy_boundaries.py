"""Compactions of recorded sessions, answered by the gateway on loopback.

    python benches/fidelity/proxy_boundaries.py --corpus FOLDER [--most N]

At each compaction that Claude Code made, the context before it is sent with a request for a summary in the client's form; of each
Codex session the whole is sent to `/v1/responses/compact`. No call may reach the upstream, and the context that follows must be
legal. Forward use is that of `forward_use.py`: the share of the identifiers used next that the text still holds, next to that of
the summary which the session's own model wrote; *same size*: ours within that summary's number of bytes.
"""

from __future__ import annotations

import argparse
import http.client
import json
import sys
import threading
import time
from itertools import islice
from pathlib import Path
from statistics import fmean, median
from urllib.parse import urlsplit

import uvicorn
from cuts import cuts, said
from forward_use import LEAST, needs, score

from ullage import open_session, outgoing, validate
from ullage.exceptions import UllageError
from ullage.proxy import ProxySettings
from ullage.proxy.handed_out import opened
from ullage.proxy.serving import config_of, url_of
from ullage.testing import ScriptedServer

ASK = """CRITICAL: Respond with TEXT ONLY. Do NOT call any tools.

Your task is to create a detailed summary of the conversation so far. Think in <analysis> tags first, then write nine
sections in <summary> tags.
"""


class Gateway:
    def __init__(self, upstream: str) -> None:
        self.server = uvicorn.Server(config_of(ProxySettings(upstream=upstream, port=0)))
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


def claude_code(gateway: Gateway, folder: Path, most: int | None) -> None:
    rows, times, broken, tokens = [], [], 0, 0
    found = (
        cut
        for place in sorted(folder.glob("cc_*"))
        for cut in cuts(place)
        if cut.kind == "boundary"
    )
    for cut in islice(found, most):
        messages = list(
            outgoing([said(item) for item in cut.before], provider="anthropic").messages
        )
        body = {
            "model": "claude-opus-4-5",
            "max_tokens": 20_000,
            "messages": [*messages, {"role": "user", "content": [{"type": "text", "text": ASK}]}],
        }
        answer, milliseconds = gateway.ask("/v1/messages?beta=true", body)
        text = answer["content"][0]["text"]
        tokens += sum(answer["usage"].values())
        same, _ = gateway.ask(
            "/v1/messages", {**body, "max_tokens": len(cut.written.encode()) // 4}
        )
        times.append(milliseconds)
        later = [{"role": "user", "content": f"This session is being continued.\n\n{text}"}]
        broken += len(validate(later, provider="anthropic", model="claude-opus-4-5").errors)
        used, _ = needs(cut)
        if len(used) >= LEAST:
            rows.append(
                (
                    score(text, used),
                    score(same["content"][0]["text"], used),
                    score(cut.written, used),
                    len(text) / len(cut.written),
                )
            )
    print(
        f"Claude Code: {len(times)} compactions, {tokens} model tokens, {broken} violations; {line(times)}"
    )
    if rows:
        ours, same, own, size = (fmean(column) for column in zip(*rows, strict=True))
        print(
            f"  forward use over {len(rows)}: {ours:.1%} at {size:.1f} times the size, {same:.1%} at the same size, the session's own summary {own:.1%}"
        )


def codex(gateway: Gateway, folder: Path, most: int | None) -> None:
    times, broken, count = [], 0, 0
    for path in islice(
        (p for place in sorted(folder.glob("codex_*")) for p in sorted(place.rglob("*.jsonl"))),
        most,
    ):
        try:
            history = list(open_session(path).history)
        except UllageError:
            continue
        items = list(outgoing(history, provider="openai_responses").messages)
        if len(items) < 10:
            continue
        answer, milliseconds = gateway.ask(
            "/v1/responses/compact", {"model": "gpt-5.4", "input": items}
        )
        later = [*(opened(answer["output"]) or []), {"role": "user", "content": "Go on."}]
        assert len(later) > 1
        broken += len(validate(later, provider="openai_responses", model="gpt-5.4").errors)
        count += answer["usage"]["total_tokens"]
        times.append(milliseconds)
    print(f"Codex: {len(times)} sessions, {count} model tokens, {broken} violations; {line(times)}")


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
        claude_code(gateway, args.corpus, args.most)
        codex(gateway, args.corpus, args.most)
        assert not upstream.requests, "a call reached the upstream"
        print("0 calls reached the upstream")


if __name__ == "__main__":
    sys.exit(main())

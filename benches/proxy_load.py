"""What the gateway costs under load: relayed events, added time to the first byte, memory.

    python benches/proxy_load.py [--streams 200] [--events 100] [--requests 10000] [--looks 60]

Upstream, gateway and clients are processes of their own on loopback. Wall times depend on what else the machine does, so that
the gateway's processor time stands next to them: that of one event, of one request.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ullage.testing import conversation

EVENT = (
    b'event: content_block_delta\ndata: {"type":"content_block_delta","index":0,"delta":'
    b'{"type":"text_delta","text":"some words of it"}}\n\n'
)
SERVER = (sys.executable, __file__, "--upstream")
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"


# ---- upstream --------------------------------------------------------------------------------


async def upstream() -> None:
    """Answers with as many events as a header asks for, one write each."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                lower = head.lower()
                await reader.readexactly(int(re.search(rb"content-length: (\d+)", lower)[1]))
                writer.write(HEAD)
                for _ in range(int(re.search(rb"x-events: (\d+)", lower)[1])):
                    writer.write(b"%x\r\n%b\r\n" % (len(EVENT), EVENT))
                    await writer.drain()
                    await asyncio.sleep(0)
                writer.write(b"0\r\n\r\n")
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


# ---- client ----------------------------------------------------------------------------------


class Connection:
    async def open(self, port: int) -> Connection:
        self.reader, self.writer = await asyncio.open_connection("127.0.0.1", port)
        return self

    async def ask(self, body: bytes, events: int, session: str = "s") -> tuple[float, int]:
        """Seconds to the first byte, and events that came."""
        begun = time.perf_counter()
        self.writer.write(
            b"POST /v1/messages HTTP/1.1\r\nhost: localhost\r\nx-claude-code-session-id: %b\r\n"
            b"x-events: %d\r\ncontent-length: %d\r\n\r\n%b"
            % (session.encode(), events, len(body), body)
        )
        await self.reader.readuntil(b"\r\n\r\n")
        first, seen, held = time.perf_counter() - begun, 0, b""
        while not held.endswith(b"0\r\n\r\n"):
            got = await self.reader.read(65536)
            assert got, "the stream broke off"
            held = held[-200:] + got
            seen += got.count(b"event: ")
        return first, seen

    def close(self) -> None:
        self.writer.close()


@contextmanager
def started(command, env=None) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """A process with the port that it listens on, until the end."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=env) as process:
        try:
            yield process, int(re.search(r"(\d+)(?:;|\s*$)", process.stdout.readline())[1])
        finally:
            process.terminate()


def processor_seconds(process: subprocess.Popen[str]) -> float:
    """Of all its threads, in nanoseconds' steps: a clock tick is as long as several requests."""
    tasks = Path(f"/proc/{process.pid}/task").iterdir()
    return sum(int((each / "schedstat").read_text().split()[0]) for each in tasks) / 1e9


def resident_mib(process: subprocess.Popen[str]) -> float:
    pages = int(Path(f"/proc/{process.pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


# ---- measurements ----------------------------------------------------------------------------


async def streams(port: int, count: int, events: int) -> tuple[float, int]:
    """Seconds, and events, of so many streams at once."""
    body = json.dumps({"model": "claude-opus-4-5", "stream": True, "messages": []}).encode()
    open_now = [await Connection().open(port) for _ in range(count)]
    begun = time.perf_counter()
    found = await asyncio.gather(*(each.ask(body, events) for each in open_now))
    seconds = time.perf_counter() - begun
    for each in open_now:
        each.close()
    return seconds, sum(seen for _, seen in found)


async def first_bytes(direct: int, through: int, body: bytes, count: int) -> list[float]:
    """Milliseconds to the first byte by both ways, one after the other: the differences."""
    plain, gate = await Connection().open(direct), await Connection().open(through)
    found = []
    for _ in range(count):
        one, _ = await plain.ask(body, 1)
        other, _ = await gate.ask(body, 1)
        found.append((other - one) * 1000)
    plain.close()
    gate.close()
    return found


def request_of(model: str, tokens: int) -> bytes:
    made = conversation(5, tokens=tokens)
    while made[-1]["role"] == "assistant":
        made.pop()
    return _written(model, made)


def _written(model: str, messages: list[dict[str, Any]]) -> bytes:
    """A body as clients in JavaScript and the SDKs write it."""
    body = {"model": model, "max_tokens": 1000, "messages": messages}
    return json.dumps(body, separators=(",", ":"), ensure_ascii=False).encode()


def with_blanks(model: str, tokens: int) -> bytes:
    """The same request as `json.dumps` writes it by default."""
    return json.dumps(json.loads(request_of(model, tokens))).encode()


def request_of_words(model: str, tokens: int) -> bytes:
    """One with nothing that a level could take: a talk without tools, as large as one with them."""
    words = (
        "the parser reads each row of the table and returns what it found there with its place\n"
    )
    said = words * 25
    count = tokens * 43 // 10 // len(said) | 1
    made = [{"role": ("user", "assistant")[n % 2], "content": f"{n}. {said}"} for n in range(count)]
    return _written(model, made)


KINDS = {
    "small for its window, relayed unread": ("claude-sonnet-4-6", request_of, 60_000),
    "looked at, nothing due": ("claude-opus-4-5", request_of_words, 150_000),
    "looked at, sent as levels left it": ("claude-opus-4-5", request_of, 150_000),
    "the same, written with blanks": ("claude-opus-4-5", with_blanks, 150_000),
}


def gateway(direct: int, folder: Path | str) -> list[str]:
    command = [sys.executable, "-m", "ullage", "proxy", "--port", "0", "--state", str(folder)]
    return [*command, "--upstream", f"http://127.0.0.1:{direct}"]


def first_answer(direct: int, folder: Path, tool: tuple[str, ...] = (), env=None) -> None:
    """A gateway is started, relays one answer and is ended."""
    with started([*tool, *gateway(direct, folder)], env) as (_, through):
        assert asyncio.run(streams(through, 1, 1))[1] == 1


async def measure(
    args: argparse.Namespace, direct: int, through: int, gate: subprocess.Popen[str]
) -> None:
    before = processor_seconds(gate)
    seconds, seen = await streams(through, args.streams, args.events)
    assert seen == args.streams * args.events
    spent = processor_seconds(gate) - before
    print(
        f"{args.streams} streams at once: {seen / seconds:,.0f} events/s; gateway {spent / seen * 1e6:.0f} µs of processor time an event"
    )
    seconds, _ = await streams(direct, args.streams, args.events)
    print(f"  without it, same clients: {seen / seconds:,.0f} events/s")

    for what, (model, made, tokens) in KINDS.items():
        body = made(model, tokens)
        await first_bytes(direct, through, body, 3)  # the first look reads all of it
        before = processor_seconds(gate)
        found = sorted(await first_bytes(direct, through, body, args.looks))
        spent = (processor_seconds(gate) - before) / args.looks * 1000
        print(
            f"first byte of a request of {tokens:,} tokens ({len(body) / 1e6:.2f} MB), {what}: +{statistics.median(found):.1f} ms "
            f"in the median, +{found[len(found) // 10]:.1f} and +{found[len(found) * 9 // 10]:.1f} ms at p10 and p90; "
            f"gateway {spent:.1f} ms of processor time"
        )

    bodies = [request_of("claude-opus-4-5", 4_000), request_of("gpt-4-32k", 9_000)]
    connection = await Connection().open(through)
    marks = []
    for number in range(1, args.requests + 1):
        # Ten of each session, one of two sessions looked at by the levels: what has ended must not stay for ever.
        session = number // 10
        await connection.ask(bodies[session % 2], 5, session=f"s{session}")
        if number * 8 % args.requests < 8:
            marks.append(f"{resident_mib(gate):.1f}")
    print(f"memory after each eighth of {args.requests:,} requests: {', '.join(marks)} MiB")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--streams", type=int, default=200)
    parser.add_argument("--events", type=int, default=100)
    parser.add_argument("--requests", type=int, default=10_000)
    parser.add_argument("--looks", type=int, default=60)
    parser.add_argument("--upstream", action="store_true", help="be the upstream")
    args = parser.parse_args()
    if args.upstream:
        asyncio.run(upstream())
        return
    with tempfile.TemporaryDirectory() as folder, started(SERVER) as (_, direct):
        with started(gateway(direct, folder)) as (gate, through):
            asyncio.run(measure(args, direct, through, gate))


if __name__ == "__main__":
    main()

"""A TCP relay in front of a server that makes a network of it: every piece is late, and now and then a connection is lost."""

from __future__ import annotations

import asyncio
import contextlib
import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager


class Relay:
    """Passes bytes to a local port, each piece up to twice `delay` seconds later, in their order.

    Args:
        port: The server's.
        delay: Mean seconds each way; 0: none.
        cuts: Share of pieces at which the connection is closed at both ends, with the piece lost.
        seed: Of the dice.

    Attributes:
        port: Where it listens.
        pieces: Passed so far.
        cut: Connections closed so far.
    """

    def __init__(self, port: int, *, delay: float = 0, cuts: float = 0, seed: int = 0) -> None:
        self._to, self._delay, self._cuts = port, delay, cuts
        self._dice = random.Random(seed)
        self.port = self.pieces = self.cut = 0
        self._loop = asyncio.new_event_loop()
        self._up = threading.Event()
        self._thread = threading.Thread(target=self._run, name="relay", daemon=True)
        self._thread.start()
        self._up.wait(10)

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(10)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(self._serve())
        self._loop.close()

    async def _serve(self) -> None:
        self._stop, self._tasks = asyncio.Event(), set()
        server = await asyncio.start_server(self._accept, "127.0.0.1", 0, backlog=512)
        self.port = server.sockets[0].getsockname()[1]
        self._up.set()
        await self._stop.wait()
        server.close()
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _accept(self, near: asyncio.StreamReader, answer: asyncio.StreamWriter) -> None:
        self._tasks.add(task := asyncio.current_task())
        try:
            with self._closing(answer):
                far, ask = await asyncio.open_connection("127.0.0.1", self._to)
                with self._closing(ask):
                    await self._both(self._pass(near, ask), self._pass(far, answer))
        except (OSError, asyncio.CancelledError):  # the server is away, or the relay ends
            return
        finally:
            self._tasks.discard(task)

    async def _both(self, *ways) -> None:
        """Until one way ends: a connection that is closed at one end is closed at the other."""
        tasks = [asyncio.ensure_future(way) for way in ways]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for each in tasks:
                each.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        waiting: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()
        last = asyncio.ensure_future(self._send(waiting, writer))
        try:
            while data := await reader.read(65_536):
                self.pieces += 1
                if self._dice.random() < self._cuts:
                    self.cut += 1
                    return
                due = self._loop.time() + self._dice.uniform(0, 2 * self._delay)
                waiting.put_nowait((due, data))
            waiting.put_nowait((0, b""))
            await last
        finally:
            last.cancel()
            await asyncio.gather(last, return_exceptions=True)

    async def _send(self, waiting: asyncio.Queue, writer: asyncio.StreamWriter) -> None:
        while True:
            due, data = await waiting.get()
            if not data:
                return
            if (left := due - self._loop.time()) > 0:
                await asyncio.sleep(left)
            writer.write(data)
            await writer.drain()

    @contextmanager
    def _closing(self, writer: asyncio.StreamWriter) -> Iterator[None]:
        try:
            yield
        finally:
            with contextlib.suppress(OSError, RuntimeError):
                writer.transport.abort() if self._cuts else writer.close()

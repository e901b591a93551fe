"""A process that is forked while other threads count: the child counts on, it never waits for a thread that it does not have."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time

import pytest

from ullage.counting.exact import count_tokens_exact

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here"),
    pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning"),
]

CHILDREN = 60
TEXT = "Count these words, and those: naïve 漢字 123456. " * 90
"""Long enough that the interpreter's lock is released while it is counted, short enough to begin and end often."""


def child(expected: int) -> int:
    pid = os.fork()
    if pid:
        return pid
    try:
        os._exit(0 if count_tokens_exact(TEXT) == expected else 1)
    finally:
        os._exit(2)


def ended(pid: int, seconds: float) -> int | None:
    """How it ended; `None`: it hung, and was killed."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        found, status = os.waitpid(pid, os.WNOHANG)
        if found:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.005)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return None


def test_children_of_a_busy_process_count_on():
    expected, stop = count_tokens_exact(TEXT), threading.Event()

    def busy() -> None:
        while not stop.is_set():
            count_tokens_exact(TEXT)

    threads = [threading.Thread(target=busy, daemon=True) for _ in range(3)]
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        for thread in threads:
            thread.start()
        assert [ended(child(expected), 20) for _ in range(CHILDREN)] == [0] * CHILDREN
    finally:
        sys.setswitchinterval(before)
        stop.set()
        for thread in threads:
            thread.join()

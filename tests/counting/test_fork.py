"""A process that is forked while other threads count: the child counts on, it never waits for a thread that it does not have."""

from __future__ import annotations

import os
import signal
import subprocess
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


FIRST = """
import os, sys, threading, time
from ullage.counting.exact import count_tokens_exact

threading.Thread(target=count_tokens_exact, args=("words",)).start()
time.sleep(float(sys.argv[1]))
pid = os.fork()
found = count_tokens_exact("these are words")
if not pid:
    os._exit(found)
end = time.monotonic() + 60
while not (ended := os.waitpid(pid, os.WNOHANG))[0] and time.monotonic() < end:
    time.sleep(0.01)
if not ended[0]:
    os.kill(pid, 9)
    raise SystemExit("the child hung")
assert os.waitstatus_to_exitcode(ended[1]) == found
"""


@pytest.mark.parametrize("seconds", [0.02, 0.1, 0.3])
def test_a_child_that_is_forked_while_the_tables_are_built_builds_its_own(seconds: float):
    said = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", FIRST, str(seconds)],
        capture_output=True,
        text=True,
        timeout=180,
    )
    assert said.returncode == 0, said.stderr

"""What is loaded on first use is whole for every thread that is there first."""

from __future__ import annotations

import subprocess
import sys

import pytest

# Eight threads come to the same first use at once; each form loads its modules in another order.
PROGRAM = """
import sys, threading
import ullage
from ullage.testing import conversation

FORMS = ["anthropic", "openai_chat", "openai_responses", "gemini", "bedrock", "mistral"]
TALK = conversation(12)
READY, FAULTS = threading.Barrier(8), []


def managed(form):
    manager = ullage.ContextManager(model="claude-opus-4-5")
    for message in TALK:
        manager.add(message)
    return manager.prepare()


USES = {
    "validate": lambda form: ullage.validate([{"role": "user", "content": "hello"}], provider=form),
    "repair": lambda form: ullage.repair([{"role": "user", "content": "hello"}], provider=form),
    "compact": lambda form: ullage.compact(TALK, model="claude-opus-4-5"),
    "count": lambda form: ullage.estimate_tokens(TALK, model="claude-opus-4-5"),
    "manager": managed,
}


def come(at):
    READY.wait()
    try:
        USES[sys.argv[1]](FORMS[at % len(FORMS)])
    except BaseException as exc:
        FAULTS.append(f"{type(exc).__name__}: {exc}")


sys.setswitchinterval(1e-6)
threads = [threading.Thread(target=come, args=(at,)) for at in range(8)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(chr(10).join(FAULTS))
"""


@pytest.mark.parametrize("use", ["validate", "repair", "compact", "count", "manager"])
def test_eight_threads_at_the_first_use(use):
    for _ in range(2):
        ran = subprocess.run(
            [sys.executable, "-c", PROGRAM, use], capture_output=True, text=True, check=False
        )
        assert (ran.stdout.strip(), ran.stderr) == ("", "")

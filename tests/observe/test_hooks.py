"""Hooks: what they get, what they may say, and that a broken one stops nothing."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import threading
import time

import pytest

from ullage.exceptions import InvalidPolicy
from ullage.observe.hooks import (
    CallableHook,
    HookReply,
    Hooks,
    ShellHook,
    arun_hook,
    hook_of,
    read_reply,
    run_hook,
)

posix = pytest.mark.skipif(os.name != "posix", reason="shell hooks are tried on POSIX")
PAYLOAD = {"hook_event_name": "PreCompact", "trigger": "auto", "custom_instructions": "é"}


@pytest.fixture(params=["sync", "async"])
def run(request):
    if request.param == "sync":
        return run_hook
    return lambda hook, payload: asyncio.run(arun_hook(hook, payload))


@posix
def test_a_shell_hook_gets_the_payload_as_json(run, tmp_path):
    seen = tmp_path / "seen.json"
    assert run(ShellHook(f"cat > '{seen}'"), PAYLOAD) == HookReply()
    assert json.loads(seen.read_text()) == PAYLOAD


@posix
@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("echo mind the gap", HookReply(text="mind the gap")),
        ("true", HookReply()),
        ("echo no >&2; exit 2", HookReply(status="blocked", reason="no")),
        (
            'echo \'{"decision": "block", "reason": "later"}\'',
            HookReply(status="blocked", reason="later"),
        ),
        ('echo \'{"systemMessage": "hello"}\'', HookReply(user_message="hello")),
        ("echo '{\"continue\": true}'", HookReply()),
        ("echo '{\"continue\": false}'", HookReply(status="blocked", stop=True)),
        (
            'echo \'{"continue": false, "stopReason": "budget", "systemMessage": "hi"}\'',
            HookReply(status="blocked", stop=True, reason="budget", user_message="hi"),
        ),
        (
            'echo \'{"hookSpecificOutput": {"hookEventName": "SessionStart", "additionalContext": "ctx"}}\'',
            HookReply(text="ctx"),
        ),
        ("echo '{broken'", HookReply(text="{broken")),
        ("echo oops >&2; exit 7", HookReply(status="failed", reason="exit code 7: oops")),
    ],
)
def test_exit_codes_and_output(run, command, expected):
    assert run(ShellHook(command), PAYLOAD) == expected


@posix
def test_garbage_is_text_at_most(run):
    reply = run(ShellHook("head -c 200000 /dev/urandom"), PAYLOAD)
    assert reply.status == "ok"
    assert len(reply.text) <= 10_000
    reply.text.encode()


@posix
def test_a_hook_that_hangs_is_killed_with_its_children(run):
    began = time.monotonic()
    reply = run(ShellHook("sleep 60 & sleep 60", timeout_seconds=0.3), PAYLOAD)
    assert reply.status == "timeout"
    assert time.monotonic() - began < 30  # half of what the children would take


def test_a_missing_command_is_a_failure(run):
    assert run(ShellHook("/nonexistent/hook"), PAYLOAD).status == "failed"


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (None, HookReply()),
        ("text", HookReply(text="text")),
        (False, HookReply(status="blocked")),
        ({"decision": "block"}, HookReply(status="blocked")),
        ({"additionalContext": "a"}, HookReply(text="a")),
        (HookReply(reason="x"), HookReply(reason="x")),
        (7, HookReply(status="failed", reason="returned int")),
    ],
)
def test_what_a_function_may_return(run, answer, expected):
    assert run(CallableHook(lambda payload: answer), PAYLOAD) == expected


def test_a_raising_function_is_a_failure(run):
    def broken(payload):
        raise RuntimeError("no")

    assert run(CallableHook(broken), PAYLOAD) == HookReply(
        status="failed", reason="RuntimeError: no"
    )


def test_a_function_that_hangs_is_given_up(run):
    go_on, done = threading.Event(), threading.Event()

    def hangs(payload):
        go_on.wait(30)
        done.set()

    assert run_hook(CallableHook(hangs, timeout_seconds=0.1), PAYLOAD).status == "timeout"
    assert not done.is_set()  # it still hangs: nobody waited for it
    go_on.set()


def test_a_coroutine_is_awaited_or_refused():
    async def hook(payload):
        await asyncio.sleep(0)
        return "later"

    assert asyncio.run(arun_hook(CallableHook(hook), PAYLOAD)) == HookReply(text="later")
    assert run_hook(CallableHook(hook), PAYLOAD).status == "failed"


def test_a_coroutine_that_hangs_is_given_up():
    async def hook(payload):
        await asyncio.sleep(30)

    reply = asyncio.run(arun_hook(CallableHook(hook, timeout_seconds=0.05), PAYLOAD))
    assert reply.status == "timeout"


def test_hooks_are_made_of_functions_and_commands():
    hooks = Hooks(pre_compact="echo a", post_compact=[print, ShellHook("true")])
    assert hooks.pre_compact == (ShellHook("echo a"),)
    assert hooks.post_compact[0] == CallableHook(print)
    assert repr(hooks) == "Hooks(pre_compact=1, post_compact=2, session_start=0)"
    with pytest.raises(InvalidPolicy):
        hook_of(7)


def test_a_secret_in_the_environment_is_not_shown():
    assert "hunter2" not in repr(ShellHook("true", env={"TOKEN": "hunter2"}))


@posix
def test_the_environment_reaches_the_command(run):
    command = f"{sys.executable} -c 'import os; print(os.environ[\"COLOUR\"])'"
    assert run(ShellHook(command, env={"COLOUR": "red"}), PAYLOAD).text == "red"


def test_a_reply_of_another_kind_of_json_is_text():
    assert read_reply("[1, 2]") == HookReply(text="[1, 2]")

"""What hooks say around a compaction reaches the user and the host, at every event."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from ullage.compaction import acompact, compact
from ullage.observe.hooks import HookReply, Hooks, ShellHook
from ullage.testing import conversation

TALK = conversation(seed=3, tokens=12_000)
EVENTS = ("pre_compact", "session_start", "post_compact")


def told(answer: Any):
    return lambda payload: answer


@pytest.fixture(params=["sync", "async"])
def run(request):
    if request.param == "sync":
        return compact
    return lambda *args, **named: asyncio.run(acompact(*args, **named))


@pytest.mark.parametrize("event", EVENTS)
@pytest.mark.parametrize("hook", [told({"systemMessage": "told you"}), ShellHook("""echo '{"systemMessage": "told you"}'""")])  # fmt: skip
def test_a_message_for_the_user_is_in_the_notice(run, event, hook):
    result = run(TALK, keep=0, hooks=Hooks(**{event: (hook, told({"systemMessage": "twice"}))}))
    assert result.compacted
    assert result.user_notice.startswith("Compacted ")
    assert result.user_notice.endswith("told you twice")
    assert "told you" not in str(result.messages)
    assert result.stop == ""


@pytest.mark.parametrize("event", EVENTS)
@pytest.mark.parametrize("reason", ["over budget", ""])
def test_continue_false_stops_and_says_why(run, event, reason):
    later: list[Any] = []
    answer = {"continue": False, "stopReason": reason, "systemMessage": "see the bill"}
    hooks = Hooks(**{event: (told(answer), later.append)})
    result = run(TALK, keep=0, hooks=hooks)
    assert (reason or "<lambda>") in result.stop
    assert result.compacted is (event != "pre_compact")
    assert "see the bill" in result.user_notice
    assert later == []
    if event == "pre_compact":
        assert (result.outcome.value, result.reason) == ("blocked", "hook")
        assert result.messages == tuple(TALK)


@pytest.mark.parametrize("answer", [{"continue": True}, {"continue": None}, {"continue": "false"}, {}, None])  # fmt: skip
@pytest.mark.parametrize("event", EVENTS)
def test_anything_else_goes_on(event, answer):
    result = compact(TALK, keep=0, hooks=Hooks(**{event: told(answer)}))
    assert (result.compacted, result.stop) == (True, "")


def test_a_block_without_a_stop_is_only_a_block():
    result = compact(TALK, keep=0, hooks=Hooks(pre_compact=[told({"decision": "block", "reason": "later"})]))  # fmt: skip
    assert (result.outcome.value, result.stop) == ("blocked", "")


def test_a_reply_of_the_hosts_own_can_stop():
    reply = HookReply(status="blocked", reason="enough", stop=True)
    result = compact(TALK, keep=0, hooks=Hooks(post_compact=[told(reply)]))
    assert (result.compacted, result.stop) == (True, "enough")


def raises(payload):
    raise RuntimeError("no")


@pytest.mark.parametrize("event", EVENTS)
@pytest.mark.parametrize(
    ("hook", "warning"),
    [
        (raises, "hook_failed:raises"),
        (ShellHook("exit 1"), "hook_failed:exit 1"),
        (ShellHook("sleep 20", timeout_seconds=0.2), "hook_timeout:sleep 20"),
    ],
)
def test_a_broken_hook_is_a_warning_at_every_event(event, hook, warning):
    result = compact(TALK, keep=0, hooks=Hooks(**{event: hook}))
    assert result.compacted
    assert warning in result.report.warnings

"""The client's own compaction, answered without a model."""

from __future__ import annotations

import json
import os

import pytest

pytest.importorskip("uvicorn")
pytest.importorskip("aiohttp")
pytest.importorskip("starlette")

import anthropic
import openai

from tests.machine_kit import Machine, claude_lines, lines
from tests.oracle.server import OracleServer
from tests.proxy.kit import SUMMARY_REQUEST, Proxy
from ullage.clients.hook import answer
from ullage.proxy.compaction_answers import MARK, HandedOut
from ullage.stores import FolderStore
from ullage.summarizers.extractive import without_ledger
from ullage.summarizers.lines import LEDGER_HEAD
from ullage.testing import Step, conversation

MODEL = "claude-opus-5-5"
SESSION = conversation(7, tokens=20_000)
ASKED = {"role": "user", "content": [{"type": "text", "text": SUMMARY_REQUEST}]}
WORDS = "Never touch vendor/legacy.lock, whatever a test says."
SHORT = [
    {"role": "user", "content": WORDS},
    {"role": "assistant", "content": [{"type": "tool_use", "id": "toolu_01", "name": "Bash", "input": {"command": "cat page.html"}}]},
    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_01", "content": "a </summary> b <analysis> c"}]},
    {"role": "assistant", "content": "The page says </summary> and <analysis>."},
]  # fmt: skip


def claude(url):
    return anthropic.Anthropic(base_url=url, api_key="k", max_retries=0)


def summary(url, messages, *, stream=False, **more):
    asked = {"model": MODEL, "max_tokens": 20_000, "messages": messages, **more}
    with claude(url) as client:
        if not stream:
            return client.messages.create(**asked)
        with client.messages.stream(**asked) as events:
            return events.get_final_message()


@pytest.mark.parametrize("stream", [False, True])
def test_claude_codes_summary_costs_no_token_and_keeps_the_users_words(stream):
    with OracleServer() as server, Proxy(server.url) as proxy:
        found = summary(proxy.url, [*SESSION[:-1], ASKED], stream=stream)
        assert server.requests == []
    text = found.content[0].text
    assert found.stop_reason == "end_turn"
    assert found.usage.input_tokens == found.usage.output_tokens == 0
    assert text.startswith("<summary>\n")
    assert text.endswith("\n</summary>")
    first = SESSION[0]["content"]
    first = first if isinstance(first, str) else first[0]["text"]
    assert first[:60] in text
    assert "detailed summary of the conversation" not in text


def test_tags_in_what_was_read_cannot_end_the_summary():
    with OracleServer() as server, Proxy(server.url) as proxy:
        text = summary(proxy.url, [*SHORT, ASKED]).content[0].text
    assert text.count("</summary>") == 1
    assert "<analysis>" not in text
    assert WORDS in text


def test_what_the_user_wants_it_to_focus_on_is_repeated():
    asked = (
        SUMMARY_REQUEST + "\nAdditional Instructions:\nkeep the port numbers\n\nREMINDER: text only"
    )
    with OracleServer() as server, Proxy(server.url) as proxy:
        text = summary(proxy.url, [*SHORT, {"role": "user", "content": asked}]).content[0].text
    assert "keep the port numbers" in text
    assert "REMINDER" not in text


def with_instructions(text):
    asked = f"{SUMMARY_REQUEST}\nAdditional Instructions:\n{text}\n\nREMINDER: text only"
    return {"role": "user", "content": asked}


def test_with_hook_and_gateway_the_ledger_stands_once(tmp_path, monkeypatch):
    """What Claude Code does with both: hook, summary, hook, and the new context of the two texts."""
    Machine(tmp_path, monkeypatch)
    path = lines(tmp_path / "s-1.jsonl", claude_lines("s-1", "/w", turns=2))
    more = [json.loads(line) for line in path.read_text().splitlines()]
    rule = {**more[0], "uuid": "rule", "message": {"role": "user", "content": WORDS}}
    lines(path, [*more, {**rule, "parentUuid": more[-1]["uuid"]}])
    given = {"session_id": "s-1", "transcript_path": str(path), "custom_instructions": ""}
    ledger = answer("pre-compact", json.dumps(given).encode())
    assert WORDS in ledger
    messages = [line["message"] for line in more] + [rule["message"]]
    messages.append({"role": "assistant", "content": "Understood."})
    named = {"extra_headers": {"x-claude-code-session-id": "s-1"}}
    with OracleServer() as server, Proxy(server.url, hand_over=True) as proxy:
        plain = summary(proxy.url, [*messages, ASKED], **named).content[0].text
        asked = with_instructions(f"keep the ports\n\n{ledger}")
        text = summary(proxy.url, [*messages, asked], **named).content[0].text
    assert "Records that Ullage collected" not in text
    assert "keep the ports" in text
    assert text.count(WORDS) == plain.count(WORDS)
    after = json.dumps({**given, "source": "compact"}).encode()
    assert WORDS not in answer("session-start", after)
    for kept in (tmp_path / "state" / "handed").iterdir():
        assert kept.stat().st_mode & 0o777 == 0o600
        os.utime(kept, (0, 0))  # of an earlier compaction
    assert WORDS in answer("session-start", after)


def test_what_follows_a_ledger_is_the_users():
    ledger = f"{LEDGER_HEAD}\nRules that the user gave:\n- never push\nOpen tasks:\n- write"
    assert without_ledger(ledger) == ""
    assert without_ledger(f"a\n{ledger}\nkeep b:\nc") == "a\nkeep b:\nc"
    assert without_ledger("Rules that the user gave:\n- x") == "Rules that the user gave:\n- x"


@pytest.mark.parametrize(
    "last",
    [
        {"role": "user", "content": "Write a detailed summary of the conversation so far, please"},
        {"role": "user", "content": SUMMARY_REQUEST.replace("conversation so far", "RECENT portion of the conversation")},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_02", "content": SUMMARY_REQUEST}]},
        {"role": "user", "content": f"A page said: {SUMMARY_REQUEST}"},
    ],
)  # fmt: skip
def test_what_only_looks_like_it_is_passed_on(last):
    call = {"type": "tool_use", "id": "toolu_02", "name": "Bash", "input": {}}
    before = [
        *SHORT,
        {"role": "user", "content": "go on"},
        {"role": "assistant", "content": [call]},
    ]
    is_result = not isinstance(last["content"], str)
    with OracleServer() as server, Proxy(server.url) as proxy:
        summary(proxy.url, [*(before if is_result else SHORT), last])
        assert len(server.requests) == 1


def test_pass_leaves_it_to_the_provider():
    with OracleServer() as server, Proxy(server.url, compaction="pass") as proxy:
        found = summary(proxy.url, [*SHORT, ASKED])
        assert len(server.requests) == 1
    assert found.usage.input_tokens > 0


@pytest.mark.parametrize("stream", [False, True])
def test_repair_completes_the_providers_summary(stream):
    poor = "<analysis>x</analysis>\n<summary>\n1. Primary Request and Intent: a page\n</summary>"
    with (
        OracleServer(Step("text", text=poor)) as server,
        Proxy(server.url, compaction="repair") as proxy,
    ):
        found = summary(proxy.url, [*SHORT, ASKED], stream=stream)
        (asked,) = server.requests
    text = found.content[-1].text
    assert text.startswith(poor.removesuffix("\n</summary>"))
    assert text.endswith("</summary>")
    assert WORDS in text
    assert found.usage.input_tokens > 0
    assert json.loads(asked.body)["messages"][-1] == ASKED


def test_repair_passes_errors_and_broken_streams_on():
    with OracleServer("overloaded") as server, Proxy(server.url, compaction="repair") as proxy:
        with pytest.raises(anthropic.APIStatusError) as found:
            summary(proxy.url, [*SHORT, ASKED])
        assert found.value.status_code == 529
    with OracleServer("cut_stream") as server, Proxy(server.url, compaction="repair") as proxy:
        with pytest.raises(Exception, match=r"(?i)peer closed|incomplete|read"):
            summary(proxy.url, [*SHORT, ASKED], stream=True)


# ---- Codex -----------------------------------------------------------------------------------

ITEMS = [
    {"type": "message", "role": "user", "content": [{"type": "input_text", "text": WORDS}]},
    {"type": "function_call", "call_id": "call_1", "name": "shell", "arguments": '{"command": "cat a/b.py"}'},
    {"type": "function_call_output", "call_id": "call_1", "output": "def f(): ..." * 400},
    {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Read it.", "annotations": []}]},
    {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Now fix f."}]},
    {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Fixed.", "annotations": []}]},
]  # fmt: skip
NEXT = {
    "type": "message",
    "role": "user",
    "content": [{"type": "input_text", "text": "And the docs?"}],
}


def codex(proxy):
    return openai.OpenAI(base_url=proxy.openai_url, api_key="k", max_retries=0)


def test_codex_gets_an_item_that_later_becomes_legal_messages():
    with OracleServer() as server, Proxy(server.url) as proxy, codex(proxy) as client:
        made = client.responses.compact(model="gpt-5.4", input=ITEMS)
        assert server.requests == []
        assert made.usage.total_tokens == 0
        (item,) = (each.model_dump(exclude_none=True) for each in made.output)
        assert item["type"] == "compaction"
        answered = client.responses.create(model="gpt-5.4", input=[item, NEXT])
        assert answered.status == "completed"
        (asked,) = server.requests
    sent = json.loads(asked.body)["input"]
    assert MARK.encode() not in asked.body
    assert sent[-1] == NEXT
    assert WORDS in json.dumps(sent)
    assert {each["role"] for each in sent} == {"user"}


def test_a_trigger_is_answered_as_a_stream():
    asked = [*ITEMS, {"type": "compaction_trigger"}]
    with OracleServer() as server, Proxy(server.url) as proxy, codex(proxy) as client:
        events = list(client.responses.create(model="gpt-5.4", input=asked, stream=True))
        assert server.requests == []
    assert [each.type for each in events] == [
        "response.created",
        "response.output_item.added",
        "response.output_item.done",
        "response.completed",
    ]
    assert events[2].item.type == "compaction"
    assert events[3].response.usage.total_tokens == 0
    assert events[3].response.output[0].encrypted_content == events[2].item.encrypted_content


def test_a_second_compaction_goes_on_from_the_first(tmp_path):
    store = FolderStore(tmp_path)
    with (
        OracleServer() as server,
        Proxy(server.url, store=store) as proxy,
        codex(proxy) as client,
    ):
        first = client.responses.compact(model="gpt-5.4", input=ITEMS).output[0]
        item = first.model_dump(exclude_none=True)
        more = [item, NEXT, {**ITEMS[3]}]
        second = client.responses.compact(model="gpt-5.4", input=more).output[0]
        assert server.requests == []
    text = json.dumps(HandedOut(store).opened([second.model_dump(exclude_none=True)]))
    assert WORDS in text
    assert "And the docs?" in text


def test_an_item_that_cannot_be_read_is_left_to_the_provider():
    handed_out = HandedOut()
    whole = handed_out.item_of(ITEMS)
    for body in (whole["encrypted_content"][:-9], f"{MARK}!!", "gAAAAtheirs"):
        assert handed_out.opened([{**whole, "encrypted_content": body}]) is None
    assert handed_out.opened(ITEMS) is None
    assert handed_out.opened([NEXT, whole]) == [NEXT, *ITEMS]


def test_an_item_is_opened_after_a_restart_and_only_by_the_gateway_that_made_it(tmp_path):
    item = HandedOut(FolderStore(tmp_path / "a")).item_of(ITEMS)
    assert HandedOut(FolderStore(tmp_path / "a")).opened([item]) == ITEMS
    assert HandedOut(FolderStore(tmp_path / "b")).opened([item]) is None
    assert HandedOut().opened([item]) is None


DEVELOPER = {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "Rules of Codex. " * 40}]}  # fmt: skip


def test_what_codex_sends_again_before_an_item_stands_once():
    """Codex 0.163.0 sends its developer messages and what users wrote again, each under a new id, and then the item."""
    with OracleServer(enforce=False) as server, Proxy(server.url) as proxy, codex(proxy) as client:
        made = client.responses.compact(model="gpt-5.4", input=[DEVELOPER, *ITEMS])
        item = made.output[0].model_dump(exclude_none=True)
        again = [{**each, "id": f"msg_{n}"} for n, each in enumerate([DEVELOPER, ITEMS[0]])]
        client.responses.create(model="gpt-5.4", input=[*again, item, NEXT])
        sent = json.loads(server.requests[-1].body)["input"]
    assert sent[:2] == again
    assert [each["role"] for each in sent] == ["developer", "user", "user", "user"]
    assert "replaced by this summary" in json.dumps(sent[2])


CHECKPOINT = """You are performing a CONTEXT CHECKPOINT COMPACTION. Create a handoff summary for another LLM that will resume the task.

Include:
- Current progress and key decisions made
"""
ASKED_CODEX = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": CHECKPOINT}]}  # fmt: skip
INTRODUCED = "Another language model started to solve this problem and produced a summary of its thinking process. Here it is:\n"


@pytest.mark.parametrize("stream", [False, True])
def test_codexs_request_for_a_summary_is_answered_as_a_message(stream):
    """What it sends to a provider that is not named "OpenAI"."""
    asked = [DEVELOPER, *ITEMS, ASKED_CODEX]
    with OracleServer() as server, Proxy(server.url) as proxy, codex(proxy) as client:
        made = client.responses.create(model="gpt-5.4", input=asked, stream=stream)
        events = list(made) if stream else []
        assert server.requests == []
    final = events[-1].response if stream else made
    assert final.status == "completed"
    assert final.usage.total_tokens == 0
    text = final.output_text
    assert "".join(each.delta for each in events if each.type == "response.output_text.delta") in (text, "")  # fmt: skip
    assert WORDS in text
    assert "Rules of Codex" not in text
    assert "CHECKPOINT" not in text


def test_a_second_summary_of_codex_does_not_hold_the_first_as_the_users_words():
    with OracleServer() as server, Proxy(server.url) as proxy, codex(proxy) as client:
        first = client.responses.create(model="gpt-5.4", input=[*ITEMS, ASKED_CODEX]).output_text
        handed = {**NEXT, "content": [{"type": "input_text", "text": INTRODUCED + first}]}
        again = [ITEMS[0], ITEMS[4], handed, NEXT, ITEMS[5], ASKED_CODEX]
        second = client.responses.create(model="gpt-5.4", input=again).output_text
        assert server.requests == []
    assert "Another language model" not in second
    assert second.count("## 1.") == 1
    assert WORDS in second
    assert "And the docs?" in second


@pytest.mark.parametrize("change", [
    {"tools": [{"type": "function", "name": "f", "parameters": {}}]},
    {"input": [*ITEMS, {**ASKED_CODEX, "content": "Why does it say: " + CHECKPOINT}]},
    {"input": [ASKED_CODEX]},
])  # fmt: skip
def test_what_only_looks_like_codexs_request_is_passed_on(change):
    with OracleServer(enforce=False) as server, Proxy(server.url) as proxy, codex(proxy) as client:
        client.responses.create(**{"model": "gpt-5.4", "input": [*ITEMS, ASKED_CODEX], **change})
        assert len(server.requests) == 1

"""What the drop-in functions do where the libraries that they stand in for are not installed."""

from __future__ import annotations

import subprocess
import sys

import pytest

from ullage.dropin import langchain, litellm
from ullage.exceptions import InvalidPolicy, MissingExtra

PROBE = """
import sys
from ullage.dropin import anthropic, langchain, litellm, tiktoken
langchain.count_tokens_approximately([{"role": "user", "content": "hello"}])
litellm.token_counter("gpt-4o", text="hello")
print(sorted({"anthropic", "langchain_core", "litellm", "tiktoken"} & set(sys.modules)))
"""


def test_none_of_the_libraries_is_imported():
    done = subprocess.run([sys.executable, "-c", PROBE], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_trimming_langchains_messages_needs_langchain(monkeypatch):
    monkeypatch.setitem(sys.modules, "langchain_core.messages", None)
    with pytest.raises(MissingExtra) as caught:
        langchain.trim_messages([{"role": "user", "content": "a"}], max_tokens=1, token_counter=len)
    assert caught.value.extra == "langchain"


def test_calls_of_the_chat_form_are_counted_as_langchain_keeps_them():
    look = {"name": "look", "arguments": '{"path": "cask"}'}
    of_chat = {"id": "c", "type": "function", "function": look}
    of_langchain = {"name": "look", "args": {"path": "cask"}, "id": "c", "type": "tool_call"}
    counts = {
        langchain.count_tokens_approximately(
            [{"role": "assistant", "content": None, "tool_calls": [each]}]
        )
        for each in (of_chat, of_langchain)
    }
    # A token for four characters of call and role, and three for the message.
    assert counts == {-(-(len(repr([of_langchain])) + 9) // 4) + 3}


def test_litellms_results_at_the_end_keep_their_call():
    call = {"id": "c", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    talk = [
        {"role": "user", "content": "word " * 500},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c", "content": "wine"},
    ]
    kept = litellm.trim_messages(talk, "gpt-4o", max_tokens=60)
    assert kept[-2:] == talk[-2:]
    assert litellm.token_counter("gpt-4o", messages=kept) <= 60


def test_an_image_in_high_detail_counts_the_most_and_is_not_fetched():
    image = {"url": "https://example.invalid/cask.png", "detail": "high"}
    message = {"role": "user", "content": [{"type": "image_url", "image_url": image}]}
    assert litellm.token_counter("gpt-4o", messages=[message]) == 3 + 1 + 1445 + 3
    image["detail"] = "best"
    with pytest.raises(InvalidPolicy, match="detail"):
        litellm.token_counter("gpt-4o", messages=[message])


def test_a_suite_of_a_peer_that_cannot_be_collected_is_a_failure(tmp_path):
    from benches import peer_suites

    for name, line, code in (
        ("good", "def test(): assert True\n", 0),
        ("bad", "import none_such\n", 1),
    ):
        source = tmp_path / name
        (source / "tests").mkdir(parents=True)
        (source / "tests" / "test_it.py").write_text(line)
        suite = peer_suites.Suite("pytest", ("tests",))
        assert (
            peer_suites.exit_code(peer_suites._row(suite, source, tmp_path / f"{name}-run")) == code
        )

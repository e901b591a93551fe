"""Where a compaction may cut a list whose responses consist of several items."""

from __future__ import annotations

import pytest

from tests.oracle.legality import assert_legal
from ullage import compact


def call(name):
    given = {"name": "exec_command", "arguments": "{}"}
    return {"type": "function_call", "id": f"fc_{name}", "call_id": name, **given}


def output(name):
    return {"type": "function_call_output", "call_id": name, "output": f"line of {name}\n" * 900}


def responses_of_codex(turns):
    """Items of the Responses API: in each turn reasoning, two calls, words, and what the calls gave."""
    items = [{"type": "message", "role": "user", "content": "Port the parser."}]
    for n in range(turns):
        thought = {"type": "reasoning", "id": f"rs_{n}", "summary": [], "encrypted_content": "x"}
        words = [{"type": "output_text", "text": f"Step {n}.", "annotations": []}]
        said = {"type": "message", "id": f"msg_{n}", "role": "assistant", "content": words}
        calls, outputs = [call(f"a{n}"), call(f"b{n}")], [output(f"a{n}"), output(f"b{n}")]
        items += [thought, *calls, said, *outputs]
    return items


@pytest.mark.parametrize("keep", [None, 2_000, 5_000, 9_000, 20_000])
def test_reasoning_stays_with_the_calls_that_followed_it(keep):
    """Seen with Codex 0.163: the reasoning went into the summary, its calls stayed with their ids."""
    items = responses_of_codex(40)
    result = compact(items, provider="openai_responses", keep=keep)
    assert result.compacted
    assert_legal(
        "openai_responses", result.messages, model="gpt-5", store=False, original=items, window=0
    )
    kept = [item["id"] for item in result.messages if str(item.get("id")).startswith("fc_")]
    assert kept

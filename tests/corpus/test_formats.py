"""Every file of the corpus is recognised, read, and pairs its calls; and survives other shapes."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.kit import with_old_ids
from tests.kit.transcripts import read
from tests.properties import shape_rules as rules
from ullage.providers import (
    anthropic,
    bedrock,
    gemini,
    mistral,
    normal_form,
    openai_chat,
    openai_responses,
)
from ullage.transcript import formats, resume

pytestmark = pytest.mark.corpus

HERE = Path(__file__).parent

FOLDERS = {
    "cc_": "claude_code",
    "codex_": "codex",
    "pi": "pi",
    "cline": "cline",
    "sweagent": "swe_agent",
    "openai_": "tau_bench",
}
OURS = {"A02"}  # blank texts stand in Claude Code's own files; the verifier repairs them


@pytest.fixture(scope="module")
def corpus() -> Path:
    named = os.environ.get("ULLAGE_CORPUS")
    folder = Path(named) if named else HERE.parents[1] / ".corpus"
    if not folder.is_dir():
        pytest.skip("no real sessions here")
    return folder


def expected(path: Path) -> str:
    return next(name for start, name in FOLDERS.items() if path.parent.name.startswith(start))


def segments(entries: list[Any]) -> list[list[Any]]:
    """Messages between boundaries, kept ones left where they were."""
    parts: list[list[Any]] = [[]]
    for entry in entries:
        if entry.get("subtype") == "compact_boundary":
            parts.append([])
        elif "message" in entry and not entry.get("isApiErrorMessage"):
            parts[-1].append(entry["message"])
    return [part for part in parts if part]


def interrupted(messages: list[Any]) -> set[str]:
    """Calls that no result follows: the file ends there, or somebody pressed stop."""
    blocks = [b for m in messages if isinstance(m["content"], list) for b in m["content"]]
    answered = {b["tool_use_id"] for b in blocks if b["type"] == "tool_result"}
    return {b["id"] for b in blocks if b["type"] == "tool_use"} - answered


def remembers_roles(messages: list[Any]) -> bool:
    """Codex's developer messages are user messages here, and developer messages again there."""
    return any("role" in m.get("foreign", {}).get("openai_responses", {}) for m in messages)


def without_calls(messages: list[Any], calls: set[str]) -> list[Any]:
    kept = []
    for message in messages:
        content = message["content"]
        if isinstance(content, list):
            content = [b for b in content if not (b["type"] == "tool_use" and b["id"] in calls)]
        if content:
            kept.append({**message, "content": content})
    return kept


def test_every_file_is_recognised_and_read(corpus_file: Path) -> None:
    assert formats.detect(corpus_file) == expected(corpus_file)
    transcript = read(corpus_file)
    assert transcript.format == expected(corpus_file)
    assert all(session.entries for session in transcript.sessions)


def test_every_conversation_pairs_its_calls(corpus_file: Path) -> None:
    transcript = read(corpus_file)
    for session in transcript.sessions:
        parts = [session.messages]
        if transcript.format != "claude_code":
            parts += segments(session.entries)
        for messages in parts:
            open_calls = interrupted(messages)
            assert len(open_calls) <= 1, "more than an interruption explains"
            sent = anthropic.to_provider(without_calls(messages, open_calls)).parts["messages"]
            assert set(rules.broken_anthropic(sent)) <= OURS, session.id


def test_a_resume_of_the_entries_shows_the_same(corpus_file: Path) -> None:
    """What the readers call the context is what the log's own replay finds in their entries."""
    transcript = read(corpus_file)
    for session in transcript.sessions[:20]:
        assert normal_form(resume(session.entries).messages) == normal_form(session.messages)


def test_usage_stands_on_the_responses_that_it_belongs_to(corpus: Path) -> None:
    for path in sorted(corpus.glob("codex_*/*")):
        said = [e["message"] for e in read(path).entries if e["type"] == "assistant"]
        measured = [m for m in said if "usage" in m]
        assert len(measured) >= 0.85 * len(said)
        for message in measured:
            assert message["usage"]["output_tokens"] > 0
            assert sum(message["usage"].values()) > 1000, "a system prompt alone is larger"


def test_the_compactions_of_the_corpus(corpus: Path) -> None:
    found: Counter[str] = Counter()
    for path in sorted(corpus.glob("*/*")):
        if path.parent.name.startswith("cc_"):
            continue
        for session in read(path).sessions:
            for entry in session.entries:
                if entry.get("subtype") == "compact_boundary":
                    found[path.parent.name.partition("_")[0]] += 1
    assert found == {"codex": 27, "pi": 2, "cline": 1}


def test_one_file_with_many_trajectories_shows_them_all(corpus: Path) -> None:
    transcript = read(corpus / "openai_tau-bench" / "gpt-4o-airline.json")
    assert len(transcript.sessions) == 200
    assert len({session.id for session in transcript.sessions}) == 200
    assert all(session.system for session in transcript.sessions)


SHAPES: dict[str, Any] = {
    "chat": (openai_chat, lambda parts: rules.broken_chat(parts["messages"])),
    "responses": (openai_responses, lambda parts: rules.broken_responses(parts["input"])),
    "gemini": (gemini, lambda parts: rules.broken_gemini(parts["contents"])),
    "bedrock": (bedrock, rules.broken_bedrock),
    "mistral": (mistral, lambda parts: rules.broken_mistral(parts["messages"])),
}


def test_every_conversation_in_every_shape(corpus_file: Path) -> None:
    for session in read(corpus_file).sessions[:5]:
        messages = without_calls(session.messages, interrupted(session.messages))
        for name, (module, broken) in SHAPES.items():
            shaped = module.to_provider(messages, system=session.system)
            assert broken(shaped.parts) == [], name
            back = module.from_provider(shaped.parts)
            # Read back where it is a message of the list.
            system = session.system if back.system is None else back.system
            ours = with_old_ids(back.messages, shaped.ids)
            again = module.to_provider(ours, system=system)
            assert again.parts == shaped.parts, name
            if not shaped.losses and not remembers_roles(messages):
                assert normal_form(ours) == normal_form(messages), name

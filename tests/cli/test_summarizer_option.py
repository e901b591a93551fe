"""`ullage compact --summarizer`: models by name, keys from the environment, clear words without one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.kit import ullage

pytest.importorskip("cyclopts")
pytest.importorskip("rich")
pytest.importorskip("anthropic")
pytest.importorskip("openai")

from tests.kit.transcripts import session_file
from ullage.testing import ScriptedServer, scenario

NO_KEYS = dict.fromkeys(("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "OPENAI_API_KEY"))
KEYS = {**NO_KEYS, "ANTHROPIC_API_KEY": "k", "OPENAI_API_KEY": "k"}


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return session_file(scenario(3, tokens=30_000)).write(tmp_path_factory.mktemp("session"))


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("anthropic:claude-haiku-4-5", "/v1/messages"),
        ("openai:gpt-5-mini", "/v1/chat/completions"),
        ("openai-responses:gpt-5-mini", "/v1/responses"),
    ],
)
def test_a_model_writes_the_summary(session, name, path):
    with ScriptedServer() as server:
        url = server.url if name.startswith("anthropic") else server.openai_url
        words = ("compact", session, "-n", "--summarizer", name, "--base-url", url, "--json")
        done = ullage(*words, env=KEYS)
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["result"]["summarizer"] == name.replace("-responses", "")
        assert [seen.path for seen in server.requests] == [path]


@pytest.mark.parametrize(
    ("name", "variable"),
    [("anthropic:claude-haiku-4-5", "ANTHROPIC_API_KEY"), ("openai:gpt-5-mini", "OPENAI_API_KEY")],
)
def test_without_a_key_it_says_which(session, name, variable):
    done = ullage("compact", session, "-n", "--summarizer", name, env=NO_KEYS)
    assert done.returncode == 2
    assert f"environment variable {variable}: must hold a key" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_name_that_nobody_knows_lists_the_names(session):
    done = ullage("compact", session, "-n", "--summarizer", "gpt-5")
    assert done.returncode == 2
    assert "anthropic:MODEL" in done.stderr


def test_a_failure_of_the_model_changes_nothing(session, tmp_path):
    target = tmp_path / "out.jsonl"
    with ScriptedServer(after="auth") as server:
        words = ("-s", "anthropic:claude-haiku-4-5", "--base-url", server.url, "-o", target)
        done = ullage("compact", session, *words, env=KEYS)
    assert done.returncode == 2
    assert "authentication" in done.stderr.lower()
    assert not target.exists()


def test_a_template_file_replaces_the_prompt(session, tmp_path):
    prompt = tmp_path / "prompt.txt"
    prompt.write_text("Write three lines. {{scope}} {{instructions}}")
    with ScriptedServer() as server:
        words = (
            "-s",
            "anthropic:claude-haiku-4-5",
            "--base-url",
            server.url,
            "-i",
            "mind the zebra",
        )
        done = ullage("compact", session, "-n", *words, "--template", prompt, env=KEYS)
        assert done.returncode == 0, done.stderr
        asked = server.requests[0].json["messages"][-1]["content"]
    assert asked.startswith("Write three lines. Summarise")
    assert asked.endswith("mind the zebra")


def test_secrets_stay_here(tmp_path):
    made = session_file(scenario(3, tokens=30_000))
    key = "ghp_" + "a1B2" * 9
    path = made.write(tmp_path)
    path.write_bytes(path.read_bytes().replace(b"the", b"the " + key.encode()))
    with ScriptedServer() as server:
        words = ("-s", "anthropic:claude-haiku-4-5", "--base-url", server.url, "--redact", "--json")
        done = ullage("compact", path, "-n", *words, "--summary", env=KEYS)
        assert done.returncode == 0, done.stderr
        assert key.encode() not in server.requests[0].body
        assert b"[redacted:github_token]" in server.requests[0].body
    assert key not in json.dumps(json.loads(done.stdout)["result"]["summary"])


def test_a_template_that_is_missing_is_named(session, tmp_path):
    done = ullage("compact", session, "-n", "--template", tmp_path / "none.txt")
    assert done.returncode == 2
    assert "template" in done.stderr

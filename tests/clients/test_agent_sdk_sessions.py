"""Sessions of the Claude Agent SDK in a store: mirrored by the SDK's own transport, and resumed from it by another process."""

from __future__ import annotations

import asyncio
import sys
import uuid
from contextlib import closing
from typing import Any

import pytest

pytest.importorskip("claude_agent_sdk", reason="`make integrations` installs it")

from claude_agent_sdk import (
    ClaudeAgentOptions,
    ResultMessage,
    list_sessions_from_store,
    project_key_for_directory,
    query,
)

from ullage.stores import AgentSessions, FolderStore, SqliteStore

CLIENT = """#!{python}
import json, os, sys
from pathlib import Path

if "-v" in sys.argv:
    sys.exit(print("9.9.9 (Claude Code)"))
given = dict(each.split("=", 1) for each in sys.argv if each.startswith("--") and "=" in each)
session = given.get("--resume") or given["--session-id"]
folder = Path(os.environ.get("CLAUDE_CONFIG_DIR", "{home}"), "projects", "{project}")
own = folder / (session + ".jsonl")
known = own.read_text().splitlines() if own.exists() else []
subagents = sorted(each.name for each in (folder / session / "subagents").glob("*"))


def say(**line):
    print(json.dumps(line), flush=True)


for line in sys.stdin:
    said = json.loads(line)
    if said["type"] == "control_request":
        done = {{"subtype": "success", "request_id": said["request_id"], "response": {{}}}}
        say(type="control_response", response=done)
    elif said["type"] == "user":
        entry = {{"type": "user", "uuid": "u" + str(len(known)), "message": said["message"]}}
        say(type="transcript_mirror", filePath=str(own), entries=[entry])
        other = folder / session / "subagents" / "agent-1.jsonl"
        say(type="transcript_mirror", filePath=str(other), entries=[entry])
        words = [json.loads(each)["message"]["content"] for each in known]
        about = dict(is_error=False, duration_ms=1, duration_api_ms=1, num_turns=1)
        say(type="result", subtype="success", session_id=session, result=str([words, subagents]), **about)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="the client is a script")
@pytest.mark.parametrize("kind", [FolderStore, SqliteStore])
def test_a_session_is_mirrored_and_resumed(tmp_path, kind):
    client, home = tmp_path / "claude", tmp_path / "home"
    project = project_key_for_directory(tmp_path)
    client.write_text(CLIENT.format(python=sys.executable, home=home, project=project))
    client.chmod(0o755)
    session = str(uuid.uuid4())

    async def ask(question: str, store: Any, **more: Any) -> str:
        options = ClaudeAgentOptions(
            cli_path=str(client),
            cwd=tmp_path,
            env={} if "resume" in more else {"CLAUDE_CONFIG_DIR": str(home)},
            session_store=AgentSessions(store),
            **more,
        )
        async for message in query(prompt=question, options=options):
            if isinstance(message, ResultMessage):
                return message.result or ""
        raise AssertionError("no result")

    async def three() -> None:
        with closing(kind(tmp_path / "store")) as store:
            assert await ask("What?", store, session_id=session) == "[[], []]"
        with closing(kind(tmp_path / "store")) as store:  # as another process finds it
            assert await ask("Why?", store, resume=session) == "[['What?'], ['agent-1.jsonl']]"
            assert "['What?', 'Why?']" in await ask("So?", store, resume=session)
            (listed,) = await list_sessions_from_store(AgentSessions(store), str(tmp_path))
            assert listed.session_id == session

    asyncio.run(three())

"""Codex itself, with the gateway and without, against a provider that refuses what providers refuse."""

from __future__ import annotations

import json
import sys

import pytest

from tests.programs.kit import Backend, Codex, Turn
from tests.programs.scenarios import PROMPT, judge, of, outputs, play_out


@pytest.mark.parametrize("gateway", [False, True], ids=["alone", "gateway"])
@pytest.mark.parametrize("scenario", of(Codex), ids=str)
def test_it_lives_through(scenario, gateway, tmp_path):
    result = play_out(scenario, tmp_path, gateway=gateway)
    assert not judge(scenario, result), result


def test_hooks_and_mcp_server_work_in_it(tmp_path):
    """PreCompact archives the session, SessionStart adds records, the MCP server answers."""
    rule = "Never edit the files in generated/."
    play = [
        *outputs(Codex, 1, 1),
        Turn("", (("mcp__ullage.context_usage", {}),)),
        *outputs(Codex, 6, 4),
    ]
    with Backend(*play) as backend:
        program = Codex(tmp_path, backend.url, limit=40_000)
        program.ullage("hooks", "install", "codex", "--yes")
        server = [sys.executable, "-m", "ullage", "mcp"]
        program.call(program.executable, "mcp", "add", "ullage", "--", *server)
        # It begins without a server that is not up yet, unless it must have it.
        settings = program.home / ".codex" / "config.toml"
        section = "[mcp_servers.ullage]\n"
        needed = f"{section}required = true\n"
        settings.write_text(settings.read_text().replace(section, needed))
        ran = program.run(f"{PROMPT} {rule}", "--dangerously-bypass-hook-trust")
        assert ran.code == 0, ran
        assert not backend.play
        outcome = [item for item in backend.of("main")[2].body["input"] if "output" in item][-1]
        assert "tokens" in json.dumps(outcome["output"])
        assert backend.of("compaction")
        archives = list(program.home.glob(".local/state/ullage/archives/*"))
        assert archives
        assert rule in json.dumps(backend.of("main")[-1].body)
        assert not backend.illegal

"""Hooks in Codex' hooks.json and a plugin in OpenCode's folder: put in, run, taken out."""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess

import pytest

from tests.kit import ullage
from tests.machine_kit import IDS, Machine, opencode_export
from ullage.clients.hook import answer
from ullage.clients.installation import (
    CODEX_HOOKS,
    MARK,
    codex_checks,
    other_checks,
    other_install,
    other_uninstall,
)
from ullage.exceptions import InvalidPolicy

NODE = shutil.which("node")


@pytest.fixture
def machine(tmp_path, monkeypatch):
    made = Machine(tmp_path, monkeypatch)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    (tmp_path / "project").mkdir()
    monkeypatch.chdir(tmp_path / "project")
    return made


def carry_out(changes):
    for change in changes:
        if change.changed:
            change.write()


@pytest.mark.parametrize("scope", ["user", "project"])
@pytest.mark.parametrize(
    "text",
    [None, "{}", '{"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "x"}]}]}}\n'],
)
def test_hooks_of_codex_come_and_go(machine, scope, text):
    project = machine.home / "project"
    path = (machine.home / "codex" if scope == "user" else project / ".codex") / "hooks.json"
    if text is not None:
        path.parent.mkdir(parents=True)
        path.write_text(text)
    carry_out(other_install("codex", scope, project))
    hooks = json.loads(path.read_text())["hooks"]
    for event, _, name, _ in CODEX_HOOKS:
        assert shlex.split(hooks[event][-1]["hooks"][0]["command"])[-1] == name
    assert not any(change.changed for change in other_install("codex", scope, project))
    carry_out(other_uninstall("codex", scope, project))
    assert (path.read_text() if path.exists() else None) == text


def test_a_line_of_codex_hooks_runs_in_a_shell(machine):
    (change,) = other_install("codex", "user", machine.home)
    line = json.loads(change.after)["hooks"]["PostToolUse"][0]["hooks"][0]["command"]
    given = {"session_id": "s", "turn_id": "t", "transcript_path": None, "hook_event_name": "PostToolUse",
             "tool_name": "shell", "tool_use_id": "call_1", "tool_response": "x" * 60_000}  # fmt: skip
    done = subprocess.run(
        ["/bin/sh", "-c", line], input=json.dumps(given).encode(), capture_output=True, check=True
    )
    assert "left out here" in json.loads(done.stdout)["hookSpecificOutput"]["updatedToolOutput"]


def trusted(machine, *events):
    """Codex's settings after a user trusted hooks, as Codex 0.163.0 writes them (`config/batchWrite`)."""
    hooks = (machine.home / "codex" / "hooks.json").resolve()
    rows = (
        f'[hooks.state."{hooks}:{event}:0:0"]\ntrusted_hash = "sha256:00"\n' for event in events
    )
    (machine.home / "codex" / "config.toml").write_text('model = "gpt-5"\n' + "\n".join(rows))


def test_codex_hooks_that_are_not_trusted_are_named(machine):
    assert ullage("hooks", "doctor").returncode == 1
    done = ullage("hooks", "install", "codex", "--yes")
    assert done.returncode == 0
    assert "Trust all and continue" in done.stderr
    for known in ((), ("pre_compact", "post_tool_use")):
        trusted(machine, *known)
        checks = {each.what: each for each in codex_checks(machine.home / "project")}
        assert checks["hooks"].ok
        assert not checks["trusted"].ok
        assert "session_start" in checks["trusted"].found
        assert all(event not in checks["trusted"].found for event in known)
    done = ullage("hooks", "doctor")
    assert (done.returncode, "/hooks" in done.stdout) == (1, True)
    trusted(machine, "pre_compact", "session_start", "post_tool_use")
    assert ullage("hooks", "doctor").returncode == 0
    assert "Trust" not in ullage("hooks", "install", "codex", "--yes").stderr
    (machine.home / "codex" / "config.toml").write_text("[hooks\n")
    assert ullage("hooks", "doctor").returncode == 1


def test_codex_without_a_transcript_is_left_alone(machine):
    for event in ("pre-compact", "session-start"):
        given = {"session_id": "s", "transcript_path": None, "source": "compact", "trigger": "auto"}
        assert answer(event, json.dumps(given).encode()) == ""


def test_the_plugin_of_opencode_comes_and_goes(machine):
    path = machine.home / "config" / "opencode" / "plugins" / "ullage.js"
    carry_out(other_install("opencode", "user", machine.home))
    assert path.read_text().startswith(MARK)
    assert "[PROGRAM]" not in path.read_text()
    carry_out(other_uninstall("opencode", "user", machine.home))
    assert not path.exists()


def test_the_doctor_looks_at_the_plugin_of_opencode(machine):
    path = machine.home / "config" / "opencode" / "plugins" / "ullage.js"
    assert ullage("hooks", "install", "opencode", "--yes").returncode == 0
    done = ullage("hooks", "doctor")
    assert (done.returncode, str(path) in done.stdout) == (0, True)
    path.write_text(path.read_text().replace("25000", "20000"))
    done = ullage("hooks", "doctor")
    assert (done.returncode, "another version" in done.stdout) == (1, True)
    assert ullage("hooks", "install", "codex", "--yes").returncode == 0
    assert [check.what for check in other_checks(machine.home)] == ["hooks", "trusted", "plugin"]


def test_a_plugin_of_somebody_else_is_not_replaced(machine):
    path = machine.home / "project" / ".opencode" / "plugins" / "ullage.js"
    path.parent.mkdir(parents=True)
    path.write_text("// mine\n")
    with pytest.raises(InvalidPolicy, match="not written by Ullage"):
        other_install("opencode", "project", machine.home / "project")
    carry_out(other_uninstall("opencode", "project", machine.home / "project"))
    assert path.read_text() == "// mine\n"


def test_what_opencode_hands_over_comes_back_as_records(machine):
    made = opencode_export(IDS["opencode"], "/w", turns=1)
    made["messages"][0]["parts"][0]["text"] = (
        "Never push to main. Always run the linter before a commit."
    )
    said = answer("opencode-compacting", json.dumps({"session_id": "s", "export": made}).encode())
    assert "Never push to main" in json.loads(said)["hookSpecificOutput"]["additionalContext"]


@pytest.mark.skipif(NODE is None, reason="runs the plugin's JavaScript")
def test_the_plugin_runs(machine):
    carry_out(other_install("opencode", "user", machine.home))
    path = machine.home / "config" / "opencode" / "plugins" / "ullage.js"
    made = opencode_export(IDS["opencode"], "/w", turns=1)
    made["messages"][0]["parts"][0]["text"] = (
        "Never push to main. Always run the linter before a commit."
    )
    program = f"""
      import {{ Ullage }} from {json.dumps(path.as_uri())};
      const made = {json.dumps(made)};
      const session = {{ get: async () => ({{ data: made.info }}), messages: async () => ({{ data: made.messages }}) }};
      const hooks = await Ullage({{ client: {{ session }} }});
      const compacting = {{ context: [] }};
      await hooks["experimental.session.compacting"]({{ sessionID: "ses_1" }}, compacting);
      const long = {{ title: "t", output: "y".repeat(60000), metadata: {{}} }}, short = {{ output: "ok" }};
      await hooks["tool.execute.after"]({{ tool: "bash", sessionID: "ses_1", callID: "c1" }}, long);
      await hooks["tool.execute.after"]({{ tool: "bash", sessionID: "ses_1", callID: "c2" }}, short);
      const failing = await Ullage({{ client: {{ session: {{ get: async () => {{ throw new Error("no") }} }} }} }});
      await failing["tool.execute.after"]({{}}, {{ output: 7 }});
      console.log(JSON.stringify({{ context: compacting.context, long: long.output, short: short.output }}));
    """
    script = machine.home / "run.mjs"
    script.write_text(program)
    done = subprocess.run(
        [str(NODE), str(script)], capture_output=True, text=True, check=True, timeout=90
    )
    found = json.loads(done.stdout)
    assert "Never push to main" in found["context"][0]
    assert "left out here" in found["long"]
    assert found["short"] == "ok"


def test_the_commands(machine):
    pytest.importorskip("cyclopts")
    for client in ("codex", "opencode"):
        assert "nothing written" in ullage("hooks", "install", client, "--dry-run").stdout
        assert ullage("hooks", "install", client, "--yes").returncode == 0
        assert "installed already" in ullage("hooks", "install", client).stdout
        assert ullage("hooks", "uninstall", client, "--yes").returncode == 0
        assert "not installed here" in ullage("hooks", "uninstall", client).stdout
    assert not list((machine.home / "config").rglob("*.js"))

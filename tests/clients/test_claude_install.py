"""Hooks in Claude Code's settings: put in, taken out, and every foreign byte as it was."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib import util
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from tests.kit import report, ullage
from tests.machine_kit import Machine
from ullage.clients.installation import (
    HOOKS,
    install_changes,
    mcp_path,
    settings_path,
    uninstall_changes,
    write_plugin,
)
from ullage.clients.settings_file import JsonText, is_ours, without_ours
from ullage.exceptions import InvalidPolicy, StoreError

FOREIGN = [
    "{}",
    "{ }\n",
    '{"model": "opus"}',
    '{\n  "model": "opus"\n}\n',
    '{\n\t"permissions": {"allow": ["Bash(ls:*)"]},\n\t"z": 1e5\n}',
    '{"hooks": {}}',
    '{"hooks": {"PreCompact": []}}',
    '{\r\n  "hooks": {\r\n    "PostToolUse": [\r\n      {"matcher": "Edit", "hooks": [{"type": "command", "command": "fmt"}]}\r\n    ]\r\n  }\r\n}\r\n',
    '\ufeff{\n    "statusLine": {"type": "command", "command": "mine"},\n    "ünï": "\\u00fc \\ud83d\\ude00"\n}\n',
    '{"a": [1, 2, {"b": "}{][\\""}], "hooks": {"SessionStart": [{"hooks": []}]}}',
]  # fmt: skip


@pytest.fixture
def machine(tmp_path, monkeypatch):
    made = Machine(tmp_path, monkeypatch)
    (tmp_path / "project").mkdir()
    monkeypatch.chdir(tmp_path / "project")
    # How long a start takes depends on what else the machine does.
    monkeypatch.setattr("ullage.clients.installation._SLOW_MS", 60_000)
    return made


@pytest.mark.parametrize(
    ("named", "place"), [(None, "."), (".claude", ".claude"), ("other", "other")]
)
def test_servers_stand_where_claude_code_reads_them(tmp_path, monkeypatch, named, place):
    """2.1.330 reads `.claude.json` in the folder that CLAUDE_CONFIG_DIR names, whatever its name."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("CLAUDE_CONFIG_DIR", raising=False)
    if named:
        monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / named))
    assert mcp_path("user", tmp_path) == tmp_path / place / ".claude.json"


def install(machine, scope="user", **more):
    for change in install_changes(scope, machine.home / "project", **more):
        if change.changed:
            change.write()


def uninstall(machine, scope="user"):
    for change in uninstall_changes(scope, machine.home / "project"):
        if change.changed:
            change.write()


@pytest.mark.parametrize("text", FOREIGN)
@pytest.mark.parametrize("scope", ["user", "project", "local"])
def test_foreign_settings_are_the_same_bytes_afterwards(machine, text, scope):
    path = settings_path(scope, machine.home / "project")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode())
    path.chmod(0o640)
    install(machine, scope, mcp=True)
    now = json.loads(path.read_text(encoding="utf-8-sig"))
    before = json.loads(text.removeprefix("\ufeff"))
    for key in before.keys() - {"hooks"}:
        assert now[key] == before[key]
    for event, _, name, _ in HOOKS:
        foreign = before.get("hooks", {}).get(event, [])
        assert now["hooks"][event][: len(foreign)] == foreign
        (hook,) = now["hooks"][event][-1]["hooks"]
        assert hook["args"][-1] == name
        assert hook["command"] == sys.executable
    assert path.stat().st_mode & 0o777 == 0o640
    uninstall(machine, scope)
    assert path.read_bytes() == text.encode()


@pytest.mark.parametrize("text", FOREIGN)
def test_what_a_user_changed_since_stays_and_only_ours_goes(machine, text):
    path = settings_path("user", machine.home)
    path.parent.mkdir(parents=True)
    path.write_bytes(text.encode())
    install(machine)
    edited = (
        JsonText(path.read_text(encoding="utf-8-sig"))
        .added(("mine",), {"x": 1}, into_list=False)
        .text
    )
    path.write_text(edited)
    uninstall(machine)
    now = json.loads(path.read_text())
    assert now.pop("mine") == {"x": 1}
    before = json.loads(text.removeprefix("\ufeff"))
    for empty in [key for key, value in before.get("hooks", {}).items() if not value]:
        del before["hooks"][empty]
    if not before.get("hooks", True):
        del before["hooks"]
    assert now == before
    assert "ullage" not in path.read_text()


def test_a_file_that_was_not_there_is_removed_again(machine):
    install(machine, mcp=True)
    path = settings_path("user", machine.home)
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.read_text().startswith('{\n  "hooks": {\n')
    uninstall(machine)
    assert not path.exists()


SECRET = '{"env": {"ANTHROPIC_API_KEY": "sk-ant-secret"}}\n'


@pytest.mark.parametrize("since", [None, '{"env": {"ANTHROPIC_API_KEY": "sk-ant-secret"}}', "gone"])
def test_no_copy_of_the_settings_stays_after_uninstalling(machine, since):
    """Also where the user changed the file since, took the entries out by hand, or removed it."""
    path = settings_path("user", machine.home / "project")
    path.parent.mkdir(parents=True)
    path.write_text(SECRET)
    install(machine)
    kept = machine.home / "state" / "installed"
    assert b"sk-ant-secret" in next(kept.iterdir()).read_bytes()
    if since == "gone":
        path.unlink()
    elif since is not None:
        path.write_text(since)
    assert ullage("claude", "uninstall", "--dry-run").returncode in (0, 1)
    assert list(kept.iterdir())
    assert ullage("claude", "uninstall", "--yes").returncode == 0
    assert list(kept.iterdir()) == []
    if since is None:
        assert path.read_text() == SECRET


def test_a_copy_stays_where_uninstalling_fails(machine):
    path = settings_path("user", machine.home / "project")
    path.parent.mkdir(parents=True)
    path.write_text(SECRET)
    install(machine)
    (change, _) = uninstall_changes("user", machine.home / "project")
    path.write_text("{}")
    with pytest.raises(StoreError, match="another program"):
        change.write()
    assert list((machine.home / "state" / "installed").iterdir())


@pytest.mark.parametrize("others", [False, True])
def test_an_empty_folder_of_a_project_is_not_left(machine, others):
    path = settings_path("project", machine.home / "project")
    install(machine, scope="project")
    if others:
        (path.parent / "notes.md").write_text("mine")
    uninstall(machine, scope="project")
    assert path.parent.exists() == others


def test_twice_is_once(machine):
    install(machine)
    data = settings_path("user", machine.home).read_bytes()
    assert not any(change.changed for change in install_changes("user", machine.home / "project"))
    install(machine, mcp=True)
    assert settings_path("user", machine.home).read_bytes() == data
    uninstall(machine)
    uninstall(machine)
    assert not settings_path("user", machine.home).exists()


def test_another_python_takes_the_place_of_the_old_one(machine, monkeypatch):
    install(machine)
    monkeypatch.setattr(sys, "executable", "/opt/new/python")
    install(machine)
    found = json.loads(settings_path("user", machine.home).read_text())
    assert [len(found["hooks"][event]) for event, *_ in HOOKS] == [1, 1, 1]
    assert found["hooks"]["PreCompact"][0]["hooks"][0]["command"] == "/opt/new/python"
    assert found["statusLine"]["command"].startswith("/opt/new/python")
    uninstall(machine)
    assert not settings_path("user", machine.home).exists()


def test_a_status_line_of_somebody_else_stays(machine):
    path = settings_path("user", machine.home)
    path.parent.mkdir(parents=True)
    path.write_text('{"statusLine": {"type": "command", "command": "mine"}}')
    (change,) = install_changes("user", machine.home)
    assert "statusLine is set to something else and was left alone" in change.notes
    assert json.loads(change.after)["statusLine"]["command"] == "mine"


def test_a_link_stays_a_link(machine, tmp_path):
    target = tmp_path / "dotfiles.json"
    target.write_text("{}")
    path = settings_path("user", machine.home)
    path.parent.mkdir(parents=True)
    path.symlink_to(target)
    install(machine)
    assert path.is_symlink()
    assert "hooks" in target.read_text()
    uninstall(machine)
    assert target.read_text() == "{}"


@pytest.mark.parametrize(
    "text",
    ['{"a": 1,}', "// no\n{}", "[]", '{"hooks": []}', '{"hooks": {"PreCompact": {}}}', "\xff"],
)
def test_what_is_not_settings_is_left_alone(machine, text):
    path = settings_path("user", machine.home)
    path.parent.mkdir(parents=True)
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(InvalidPolicy, match="settings"):
        install_changes("user", machine.home)
    assert path.read_bytes() == text.encode("latin-1")


def test_a_file_that_another_program_changed_meanwhile_is_not_written(machine):
    path = settings_path("user", machine.home)
    (change,) = install_changes("user", machine.home)
    path.parent.mkdir(parents=True)
    path.write_text('{"new": 1}')
    with pytest.raises(StoreError, match="another program"):
        change.write()
    assert path.read_text() == '{"new": 1}'


def test_entries_of_others_are_not_taken_for_ours():
    ours = {"hooks": [{"type": "command", "command": "ullage-hook", "args": ["pre-compact"]}]}
    assert is_ours(ours)
    assert not is_ours({"hooks": [*ours["hooks"], {"type": "command", "command": "mine"}]})
    assert not is_ours({"hooks": []})
    assert not is_ours({"command": ["ullage-hook"], "args": 7})
    assert not is_ours("ullage-hook")


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=12,
)
objects = st.dictionaries(st.text(max_size=5), values, max_size=4)
layouts = st.sampled_from(
    [
        {},
        {"indent": 2},
        {"indent": "\t"},
        {"separators": (",", ":")},
        {"indent": 4, "ensure_ascii": False},
    ]
)


@settings(max_examples=150, deadline=None)
@given(
    objects, layouts, st.lists(st.text(max_size=5), min_size=1, max_size=3), values, st.booleans()
)
def test_taking_out_what_was_put_in_gives_the_same_bytes(document, layout, path, item, into_list):
    text = json.dumps(document, **layout)
    try:
        now = JsonText(text).added(path, item, into_list=into_list)
    except ValueError:
        return
    there = now.value
    for key in path:
        there = there[key]
    assert (there[-1] if into_list else there) == item
    made = (
        next(at for at in range(1, len(path) + 1) if _get(document, path[:at]) is _NONE)
        if _get(document, path) is _NONE
        else 0
    )
    gone = [*path[:made]] if made else [*path, len(there) - 1]
    back = now.removed(gone)
    assert back.value == document
    if all(_get(document, path[:at]) not in ({}, []) for at in range(len(path) + 1)):
        assert back.text == text


_NONE = object()


def _get(value, path):
    for key in path:
        if not isinstance(value, dict) or key not in value:
            return _NONE
        value = value[key]
    return value


# ---- the command --------------------------------------------------------------------------------


def test_the_command_shows_the_change_and_asks(machine):
    pytest.importorskip("cyclopts")
    path = settings_path("user", machine.home)
    path.parent.mkdir(parents=True)
    path.write_text('{\n  "model": "opus"\n}\n')
    done = ullage("claude", "install", "--dry-run")
    assert (done.returncode, '+  "hooks": {' in done.stdout) == (1, True)
    assert '-  "model"' in done.stdout or '   "model"' in done.stdout
    asked = ullage("claude", "install")
    assert (asked.returncode, "--yes" in asked.stderr) == (2, True)
    assert path.read_text() == '{\n  "model": "opus"\n}\n'
    assert ullage("claude", "install", "--yes").returncode == 0
    assert "installed already" in ullage("claude", "install").stdout
    found = report("claude", "doctor")
    assert {check["what"]: check["ok"] for check in found["checks"]} == {
        "hooks": True, "program": True, "a hook runs": True, "log": True, "model table": True
    }  # fmt: skip
    assert ullage("claude", "uninstall", "-y").returncode == 0
    assert path.read_text() == '{\n  "model": "opus"\n}\n'
    assert ullage("claude", "doctor").returncode == 1


def test_a_doctor_finds_what_is_wrong(machine):
    pytest.importorskip("cyclopts")
    install(machine)
    install(machine, "local")
    path = settings_path("user", machine.home)
    path.write_text(path.read_text().replace(sys.executable, "/gone/python"))
    state = machine.home / "state"
    (state / "hooks.log").write_text("2026-01-01 pre-compact: OSError: no\n")
    wrong = {c["what"] for c in report("claude", "doctor", code=1)["checks"] if not c["ok"]}
    assert wrong == {"scopes", "program", "log"}


def test_the_plugin_folder_is_whole(machine):
    from ullage import __version__

    folder = machine.home / "my plugin"
    (folder / "hooks").mkdir(parents=True)
    (folder / "hooks" / "mine.json").write_text("{}")
    write_plugin(folder)
    manifest = json.loads((folder / ".claude-plugin" / "plugin.json").read_text())
    assert (manifest["name"], manifest["version"]) == ("ullage", __version__)
    hooks = json.loads((folder / "hooks" / "hooks.json").read_text())["hooks"]
    assert {event: entries[0]["hooks"][0]["args"] for event, entries in hooks.items()} == {
        event: [name] for event, _, name, _ in HOOKS
    }
    servers = json.loads((folder / ".mcp.json").read_text())["mcpServers"]
    assert servers["ullage"]["command"] == "ullage-mcp"
    assert (folder / "hooks" / "mine.json").read_text() == "{}"


def test_the_plugin_folder_holds_what_the_directory_of_plugins_asks_for(machine):
    """By `claude plugin validate --profile directory --strict` of 2.1.330: a README of 40 words, a square PNG of 512 to 2048 pixels."""
    made = write_plugin(machine.home / "plugin")
    assert len((made / "README.md").read_text().split()) >= 40
    icon = (made / ".claude-plugin" / "icon.png").read_bytes()
    assert icon.startswith(b"\x89PNG\r\n\x1a\n")
    width, height = (int.from_bytes(icon[at : at + 4], "big") for at in (16, 20))
    assert width == height >= 512
    assert json.loads((made / ".claude-plugin" / "plugin.json").read_text())["author"]["name"]


CLAUDE = util.find_spec("claude_agent_sdk")


@pytest.mark.skipif(CLAUDE is None, reason="needs claude-agent-sdk, which brings Claude Code")
def test_claude_code_itself_finds_nothing_to_report(machine):
    made = write_plugin(machine.home / "plugin")
    program = Path(CLAUDE.origin).parent / "_bundled" / "claude"
    words = [str(program), "plugin", "validate", "--profile", "directory", "--strict", str(made)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout


def test_the_plugin_command_prints_how_to_use_it(machine):
    pytest.importorskip("cyclopts")
    done = ullage("claude", "plugin")
    place = machine.home / "state" / "claude-plugin"
    assert done.stdout == f"claude --plugin-dir {place}\n"
    assert (place / ".claude-plugin" / "plugin.json").exists()


def test_nothing_is_undone_where_nothing_was_done(machine):
    assert not without_ours(machine.home / "nowhere.json").changed
    assert [each.name for each in machine.home.iterdir()] == ["project"]

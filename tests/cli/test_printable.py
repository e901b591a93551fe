"""What is printed steers no terminal: not at one, not in a pipe, not in errors, not in JSON."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import unicodedata
from pathlib import Path

import pytest

pytest.importorskip("cyclopts")
pytest.importorskip("rich")

from ullage.cli import main
from ullage.cli.output import json_printable
from ullage.recall.text import visible
from ullage.transcript import TranscriptLog

BIDI = "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
BREAKS = "\u2028\u2029"
CONTROLS = [chr(code) for code in (*range(0x20), *range(0x7F, 0xA0))]
EVERY = "".join(CONTROLS) + BIDI + BREAKS
NASTY = "\x1b]52;c;ZQ==\x07" + "\x9b31m" + "\x7f\r" + "\u202egnp.exe\u2066"
WRONG = re.compile(f"[{re.escape(''.join(set(EVERY) - set(chr(10) + chr(9))))}]")


def session(folder: Path, name: str = "s.jsonl") -> Path:
    """Each place of a log that anything prints, with a terminal's own words in it."""
    path = folder / name
    usage = {"input_tokens": 900, "output_tokens": 9}
    call = {"type": "tool_use", "id": "t1", "name": "Ba" + NASTY}
    call["input"] = {"file_path": "/w/" + NASTY, "command": NASTY}
    result = {"type": "tool_result", "tool_use_id": "t1", "content": NASTY * 9, "is_error": True}
    answer = {"role": "assistant", "content": [{"type": "text", "text": "on it" + NASTY}, call]}
    with TranscriptLog.open(path) as log:
        log.extend(
            {"role": role, "content": f"{at} {NASTY} " + "word " * 200}
            for at in range(10)
            for role in ("user", "assistant")
        )
        log.append({"role": "user", "content": "please " + NASTY + EVERY})
        log.append({**answer, "id": "m1", "model": "model" + NASTY, "usage": usage})
        log.append({"role": "user", "content": [result]})
        log.append({"role": "assistant", "content": "done"})
    with path.open("a") as file:
        file.write(json.dumps({"type": "custom-title", "customTitle": NASTY}) + "\n")
        file.write(f"not json {NASTY!r}\n")
    return path


COMMANDS = [
    ("inspect",),
    ("inspect", "--all"),
    ("inspect", "--json"),
    ("compact", "--dry-run", "--summary", "--keep", "100"),
    ("compact", "--dry-run", "--summary", "--keep", "100", "--json"),
    ("resume",),
    ("resume", "--json"),
    ("resume", "--lines"),
    ("resume", "--body"),
    ("resume", "--provider", "gemini"),
    ("validate",),
    ("validate", "--json"),
    ("replay",),
    ("replay", "--json"),
    ("batch", "inspect"),
    ("batch", "inspect", "--json"),
    ("session-memory", "update"),
    ("session-memory", "show"),
]
NAMES = ["s.jsonl", "s\x1b]52;c;ZQ==\x07\x9b\u202e.jsonl"]


def said(*arguments: str) -> tuple[int, str]:
    command = [sys.executable, "-m", "ullage", *arguments]
    environment = {**os.environ, "PYTHONIOENCODING": "utf-8"}
    done = subprocess.run(command, capture_output=True, timeout=120, env=environment, check=False)
    return done.returncode, (done.stdout + done.stderr).decode()


@pytest.mark.parametrize("name", NAMES if sys.platform != "win32" else NAMES[:1], ids=ascii)
@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_no_command_prints_a_control_character_of_a_log(command, name, tmp_path, capsys):
    path = session(tmp_path, name)
    code = main([*command, str(path)])
    printed = capsys.readouterr()
    assert code in (0, 1)
    assert printed.out + printed.err
    assert WRONG.findall(printed.out + printed.err) == []
    if "--json" in command:
        json.loads(printed.out)


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX terminals")
@pytest.mark.parametrize("command", [("inspect",), ("resume",), ("validate",)], ids=" ".join)
def test_a_terminal_gets_colours_and_nothing_else(command, tmp_path):
    import pty

    path = session(tmp_path)
    ours, theirs = pty.openpty()
    arguments = [sys.executable, "-m", "ullage", *command, str(path)]
    environment = {**os.environ, "TERM": "xterm", "PYTHONIOENCODING": "utf-8"}
    with subprocess.Popen(
        arguments, stdout=theirs, stderr=subprocess.DEVNULL, env=environment
    ) as done:
        os.close(theirs)
        data = b""
        try:
            while part := os.read(ours, 1 << 16):
                data += part
        except OSError:  # the terminal ended with its last writer
            pass
    os.close(ours)
    assert done.returncode in (0, 1)
    text = re.sub(r"\x1b\[[0-9;]*m", "", data.decode()).replace("\r\n", "\n")
    assert "x1b]52" in text or command == ("validate",)
    assert WRONG.findall(text) == []


@pytest.mark.parametrize("command", ["inspect", "compact", "resume", "validate", "replay"])
def test_errors_and_wrong_usage_print_none_either(command, tmp_path, capsys):
    missing = tmp_path / ("no" + NASTY.replace("/", ""))
    odd = tmp_path / "odd.jsonl"
    odd.write_text(json.dumps({"kind" + NASTY: NASTY, "type": NASTY}) + "\n")
    for arguments in (
        [command, str(missing)],
        [command, str(odd)],
        [command, str(odd), "--model", NASTY],
        [command, "--" + NASTY, str(odd)],
        [command, str(odd), "--conversation", NASTY],
        [NASTY],
    ):
        assert main(arguments) != 0
        printed = capsys.readouterr()
        assert printed.out + printed.err
        assert WRONG.findall(printed.out + printed.err) == []


def test_what_json_holds_is_what_was_in_the_log(tmp_path, capsys):
    path = session(tmp_path)
    assert main(["resume", "--json", str(path)]) == 0
    assert NASTY in json.dumps(json.loads(capsys.readouterr().out), ensure_ascii=False).replace(
        "\\u001b", "\x1b"
    ).replace("\\u0007", "\x07").replace("\\r", "\r")


def test_every_character_that_steers_is_escaped_and_no_other():
    for code in range(0x3000):
        char = chr(code)
        steers = unicodedata.category(char) == "Cc" or char in BIDI + BREAKS
        shown = visible(char)
        if steers and char not in "\n\t":
            assert shown.isascii()
            assert shown.startswith("\\")
        else:
            assert shown == char
        assert json.loads(json_printable(json.dumps(char, ensure_ascii=False))) == char
    assert visible("a\r\nb") == "a\nb"

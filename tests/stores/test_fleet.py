"""Processes that share conversations and are killed: nothing is lost, nothing is doubled."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from benches import fleet

import ullage
from tests.stores.relay import Relay

ROOT = Path(__file__).parents[2]


def checked(store: str, tmp_path: Path, size: str, restart=None) -> dict[str, object]:
    given = ["--store", store, "--times", str(tmp_path / "times"), "--lease", "1", *size.split()]
    found = fleet.main(given, restart)
    assert (found["wrong"], found["failed workers"]) == ([], [])
    return found


@pytest.fixture(autouse=True)
def _sources(monkeypatch):
    """The workers import what this process does."""
    paths = [str(ROOT), str(Path(ullage.__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, paths)))
    monkeypatch.chdir(ROOT)


@pytest.mark.parametrize("more", ["", "--at-end"], ids=["each-call", "at-end"])
def test_workers_that_are_killed_lose_and_double_nothing(tmp_path, more):
    size = f"--workers 3 --conversations 4 --turns 6 --kills 3 --delay 0.1 {more}"
    assert checked(f"sqlite:{tmp_path / 'fleet.db'}", tmp_path, size)["kills"] == 3


@pytest.mark.parametrize("kind", ["postgres", "redis", "buckets"])
def test_a_server_that_is_killed_loses_and_doubles_nothing(tmp_path, kind, request, monkeypatch):
    server = request.getfixturevalue(kind)

    def restart():
        server.kill()
        server.start()

    relay = Relay(server.port, delay=0.0005, cuts=0.002)
    for name, value in server.environment(relay.port).items():
        monkeypatch.setenv(name, value)
    size = "--workers 2 --conversations 4 --turns 8 --kills 5 --delay 0.2"
    try:
        found = checked(server.address_at(relay.port), tmp_path, size, restart)
    finally:
        relay.close()
    assert found["server kills"] == 1


@pytest.mark.slow
def test_many_workers_in_a_folder(tmp_path):
    size = "--workers 4 --conversations 30 --turns 8 --kills 8 --delay 0.05"
    assert checked(str(tmp_path / "fleet"), tmp_path, size)["kills"] == 8

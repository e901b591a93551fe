"""What the gateway keeps on disk: for how long, how much, and what two lines of one conversation keep at once."""

from __future__ import annotations

import json
import os
import threading

import pytest

pytest.importorskip("uvicorn")
pytest.importorskip("aiohttp")
pytest.importorskip("starlette")
pytest.importorskip("cyclopts")

from tests.kit import ullage
from tests.oracle.server import OracleServer
from tests.proxy.kit import Proxy
from tests.proxy.test_client_compaction import ITEMS
from tests.proxy.test_levels_through import HEADERS, WINDOW, ask, talk
from ullage.manager import ContextManager
from ullage.proxy.client_calls import ClientLine
from ullage.proxy.compaction_answers import HandedOut
from ullage.proxy.fitter import LineStates, forget_old
from ullage.proxy.proxy_settings import ProxySettings
from ullage.stores import FolderStore

DAY = 86_400


def line(name, number):
    return ClientLine(name, number, ContextManager(model="gpt-4-32k"), None)


def kept(store, name):
    found = store.load(name, "proxy-lines")
    return None if found is None else list(json.loads(found.data))


def states_in(store):
    """States that are kept for ever."""
    return LineStates(ProxySettings(store=store, state_days=0, state_bytes=0))


def test_two_lines_of_one_name_that_save_at_once_are_both_kept(tmp_path, caplog):
    """The second has read the document when the first writes it."""
    store, meanwhile = FolderStore(tmp_path), []
    read = store.load

    def load(conversation, document):
        found = read(conversation, document)
        if not meanwhile:
            meanwhile.append(states_in(FolderStore(tmp_path)))
            meanwhile[0].save(line("0" * 16, 1))
        return found

    store.load = load
    states_in(store).save(line("0" * 16, 2))
    assert kept(FolderStore(tmp_path), "0" * 16) == ["1", "2"]
    assert caplog.records == []


def test_many_lines_at_once_lose_nothing_in_silence(tmp_path, caplog):
    """Three clients in parallel, as seen: a conflict is read again once, and whatever is still not kept is reported."""
    states = [states_in(FolderStore(tmp_path)) for _ in range(3)]
    work = [threading.Thread(target=each.save, args=(line("1" * 16, n),)) for n, each in enumerate(states)]  # fmt: skip
    for each in work:
        each.start()
    for each in work:
        each.join()
    assert len(kept(FolderStore(tmp_path), "1" * 16)) + len(caplog.records) == 3
    assert len(kept(FolderStore(tmp_path), "1" * 16)) >= 2


@pytest.fixture
def filled(tmp_path):
    """A folder with states of 40, 20 and 1 days, the key of items, and a conversation of somebody else's."""
    store = FolderStore(tmp_path)
    for name, age in (("a" * 16, 40), ("b" * 16, 20), ("c" * 16, 1)):
        states_in(store).save(line(name, 1))
        for path in store._of(name).iterdir():
            then = path.stat().st_mtime - age * DAY
            os.utime(path, (then, then))
    store.append("d" * 16, b"{}\n", at=0, write_id="w")
    store.save("my own chat", "notes", b"x", after=0)
    assert HandedOut(store).item_of(ITEMS)
    return store


def names(store):
    return {name[:1] if len(name) == 16 else name for name in store.conversations()}


OTHERS = {"d", "my own chat", "ullage-gateway"}


def test_old_states_are_removed_and_nothing_else(filled):
    forget_old(filled, days=30, most_bytes=0)
    assert names(filled) == OTHERS | {"b", "c"}
    forget_old(filled, days=0, most_bytes=0)
    assert names(filled) == OTHERS | {"b", "c"}


def test_the_oldest_go_first_where_they_are_too_much(filled):
    one = filled.usage("c" * 16)[1]
    forget_old(filled, days=0, most_bytes=one * 2 + one // 2)
    assert names(filled) == OTHERS | {"b", "c"}
    forget_old(filled, days=0, most_bytes=one)
    assert names(filled) == OTHERS | {"c"}


def test_a_gateway_that_starts_removes_what_is_old(filled):
    with OracleServer() as server, Proxy(server.url, store=filled):
        assert names(filled) == OTHERS | {"b", "c"}
    with OracleServer() as server, Proxy(server.url, store=filled, state_days=10):
        assert names(filled) == OTHERS | {"c"}


def test_forget_removes_all_states_and_leaves_the_key(filled, tmp_path):
    item = HandedOut(filled).item_of(ITEMS)
    done = ullage("proxy", "--state", tmp_path, "--forget")
    assert done.returncode == 0
    assert "3 conversations removed" in done.stdout
    assert names(filled) == OTHERS
    assert HandedOut(FolderStore(tmp_path)).opened([item]) == ITEMS
    assert "0 conversations removed" in ullage("proxy", "--state", tmp_path, "--forget").stdout


def test_what_is_kept_is_for_the_owner_alone_and_is_forgotten_whole(tmp_path):
    """It holds excerpts of results and summaries, as docs/proxy.md says."""
    with (
        OracleServer(window=WINDOW) as server,
        Proxy(server.url, store=FolderStore(tmp_path)) as proxy,
    ):
        assert ask(proxy, "anthropic", talk(), headers=HEADERS)[0] == 200
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert files
    assert {path.stat().st_mode & 0o77 for path in files} == {0}
    assert "1 conversation removed" in ullage("proxy", "--state", tmp_path, "--forget").stdout
    assert not [path for path in tmp_path.rglob("*proxy-lines*") if path.is_file()]


def test_no_text_is_kept_unless_it_is_asked_for(filled, tmp_path):
    """After a restart the levels decide again; states of an earlier version still grow old."""
    items = talk()
    with OracleServer(window=WINDOW) as server:
        for _ in range(2):
            with Proxy(server.url, store=filled, keep_text=False, state_days=10) as proxy:
                assert ask(proxy, "anthropic", items, headers=HEADERS)[0] == 200
    assert len(server.requests[-1].body) < len(json.dumps(items))
    assert names(filled) == OTHERS | {"c"}


def test_the_command_keeps_no_text_by_itself(monkeypatch, tmp_path):
    seen = []
    monkeypatch.setattr(
        "ullage.proxy.gateway.serve", lambda settings, started: seen.append(settings)
    )
    for words in ((), ("--keep-text",)):
        assert ullage("proxy", "--state", tmp_path, *words).returncode == 0
    assert [each.keep_text for each in seen] == [False, True]

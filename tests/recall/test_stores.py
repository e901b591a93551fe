"""Stores of large results: no text is ever given for another, whoever shares the store and however ids repeat (BUD-6)."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from ullage import ContextManager, FileStore, MemoryStore
from ullage.exceptions import UnknownHandle

IDS = ("call_0", "functions.bash:0", "call_00000000", "", "../x", "A", "a", "nul")
SIZE = 60_000


class Shared:
    """A store that sessions share; `opened` is what a process has after a restart."""

    def __init__(self, folder: Path | None) -> None:
        self.folder, self.memory = folder, MemoryStore()

    def opened(self) -> FileStore | MemoryStore:
        return self.memory if self.folder is None else FileStore(self.folder)


def read(store: FileStore | MemoryStore, place: str) -> str | None:
    if isinstance(store, FileStore):
        return Path(place).read_text("utf-8")
    return store.get(place)


@pytest.fixture(params=["files", "memory"])
def shared(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[], Shared]:
    def fresh() -> Shared:
        return Shared(tmp_path_factory.mktemp("store") if request.param == "files" else None)

    return fresh


@given(
    puts=st.lists(st.tuples(st.sampled_from(IDS), st.text(max_size=8)), min_size=1, max_size=30),
    data=st.data(),
)
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
def test_a_place_names_its_text_for_ever_and_an_id_never_another(
    shared: Callable[[], Shared], puts: list[tuple[str, str]], data: st.DataObject
) -> None:
    common = shared()
    places: dict[str, str] = {}
    under: dict[str, set[str]] = {}
    store = common.opened()
    for name, text in puts:
        if data.draw(st.booleans()):
            store = common.opened()
        place = store.put(name, text)
        assert places.setdefault(place, text) == text
        under.setdefault(name, set()).add(text)
    for place, text in places.items():
        assert store.get(place) == text
    for name, texts in under.items():
        assert store.get(name) == (next(iter(texts)) if len(texts) == 1 else None)


def result_of(tenant: str, number: int) -> str:
    return f"{tenant}-{number} " * (SIZE // 5)


def called(provider: str, name: str) -> dict[str, object]:
    if provider == "openai_chat":
        function = {"name": "run_shell", "arguments": "{}"}
        return {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": name, "type": "function", "function": function}],
        }
    if provider == "gemini":
        return {"role": "model", "parts": [{"functionCall": {"name": "run_shell", "args": {}}}]}
    use = {"type": "tool_use", "id": name, "name": "run_shell", "input": {}}
    return {"role": "assistant", "content": [use]}


def answered(provider: str, name: str, text: str) -> dict[str, object]:
    if provider == "openai_chat":
        return {"role": "tool", "tool_call_id": name, "content": text}
    if provider == "gemini":
        return {
            "role": "user",
            "parts": [{"functionResponse": {"name": "run_shell", "response": {"result": text}}}],
        }
    return {
        "role": "user",
        "content": [{"type": "tool_result", "tool_use_id": name, "content": text}],
    }


def started(provider: str, store: FileStore | MemoryStore) -> ContextManager:
    manager = ContextManager(
        model="gpt-4o" if provider == "openai_chat" else "claude-opus-4-5",
        provider=provider,
        store=store,
    )
    first = (
        {"role": "user", "parts": [{"text": "go"}]}
        if provider == "gemini"
        else {"role": "user", "content": "go"}
    )
    manager.add(first)
    return manager


@pytest.mark.parametrize("provider", ["anthropic", "openai_chat", "gemini"])
@pytest.mark.parametrize("repeated", [True, False], ids=["one id", "numbered"])
def test_two_tenants_over_restarts_see_their_own_results_only(
    shared: Callable[[], Shared], provider: str, repeated: bool
) -> None:
    common = shared()
    tenants = {name: started(provider, common.opened()) for name in ("alice", "bob")}
    for number in range(4):
        for tenant, manager in list(tenants.items()):
            name = "call_0" if repeated else f"call_{number}"
            manager.add(called(provider, name))
            manager.add(answered(provider, name, result_of(tenant, number)))
            sent = json.dumps(manager.prepare().messages)
            other = "bob" if tenant == "alice" else "alice"
            assert other not in sent
            places = re.findall(r"It lies in: ([^\\\s\"]+)", sent)
            assert len(set(places)) == number + 1
            store = common.opened()
            kept = [read(store, place) for place in places]
            for at, text in enumerate(kept):
                assert text is not None
                assert f"{tenant}-{at}" in text
                assert other not in text
            if number == 1:  # the process ends, and another goes on
                saved = json.loads(json.dumps(manager.save(history=True)))
                tenants[tenant] = ContextManager.restore(saved, store=common.opened())


def test_a_model_cannot_recall_another_conversations_text_by_its_id(
    shared: Callable[[], Shared],
) -> None:
    common = shared()
    first = started("anthropic", common.opened())
    first.add(called("anthropic", "call_7"))
    first.add(answered("anthropic", "call_7", result_of("alice", 7)))
    first.prepare()
    second = started("anthropic", common.opened())
    with pytest.raises(UnknownHandle):
        second.recall.get("call_7")
    assert "alice" not in second.answer("recall", {"handle": "call_7"}).text


def test_results_under_one_id_keep_their_own_decisions_and_handles() -> None:
    manager = started("openai_chat", MemoryStore())
    for number in range(3):
        manager.add(called("openai_chat", "call_0"))
        manager.add(answered("openai_chat", "call_0", result_of("alice", number)))
    sent = manager.prepare().messages
    ids = [each["tool_call_id"] for each in sent if each["role"] == "tool"]
    assert len(set(ids)) == 3
    assert [each["tool_calls"][0]["id"] for each in sent if each["role"] == "assistant"] == ids
    for number, name in enumerate(ids):
        assert manager.recall.get(name).text == result_of("alice", number)


def test_a_cut_or_changed_file_is_not_given_and_is_written_again(tmp_path: Path) -> None:
    store = FileStore(tmp_path)
    place = Path(store.put("t1", "the whole text"))
    place.write_text("the who")
    assert store.get(str(place)) is None
    assert store.put("t1", "the whole text") == str(place)
    assert place.read_text() == "the whole text"

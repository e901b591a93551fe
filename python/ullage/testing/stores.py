"""What a store for conversations must do, as checks for a store of your own.

    import pytest
    from ullage.testing.stores import STORE_CHECKS

    @pytest.mark.parametrize("check", STORE_CHECKS, ids=lambda check: check.__name__)
    def test_my_store(check):
        check(lambda: MyStore("my-database"))

Each check opens as many stores as it has workers, closes them, and uses names of its own, so that all may share a database.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager

from ullage.exceptions import InvalidPolicy, LeaseExpired, LeaseHeld, LogConflict, UllageError
from ullage.stores import ConversationStore, OffloadedResults, Worker

__all__ = ["STORE_CHECKS"]

StoreMaker = Callable[[], ConversationStore]
"""Opens the store once more: the same data, as another process would see it."""

StoreCheck = Callable[[StoreMaker], None]

ODD_NAMES = ("a", "A", "a/b", "a%2fb", "..", "con", "ünï 名", " ", "x" * 200, "a.b", "a\\b", "*")


def _name(odd: str = "c") -> str:
    return f"{uuid.uuid4().hex[:12]}-{odd}"


def _append(store: ConversationStore, name: str, data: bytes, at: int) -> int:
    return store.append(name, data, at=at, write_id=uuid.uuid4().hex)


@contextmanager
def _refused(kind: type[UllageError]) -> Iterator[None]:
    try:
        yield
    except kind:
        return
    raise AssertionError(f"nothing was raised where {kind.__name__} was due")


def a_log_holds_what_was_appended(make: StoreMaker) -> None:
    """Bytes come back as they were, through another store too; offsets are sums of lengths."""
    name, data = _name(), bytes(range(256)) * 4 + b"\r\n\n"
    with closing(make()) as one, closing(make()) as two:
        assert (one.read(name), one.end(name)) == (b"", 0)
        first = _append(one, name, data, 0)
        assert first == len(data) == two.end(name)
        second = _append(two, name, b"{}\n", first)
        assert one.read(name) == data + b"{}\n"
        assert one.read(name, first) == b"{}\n"
        assert one.end(name) == second
        large = b"x" * 3_000_000 + b"\n"
        assert _append(one, name, large, second) == second + len(large)
        assert two.read(name, second) == large


def an_append_at_another_place_is_refused(make: StoreMaker) -> None:
    """Neither before nor after the end; nothing is written."""
    name = _name()
    with closing(make()) as store:
        end = _append(store, name, b"one\n", 0)
        for at in (0, 1, end + 1):
            with _refused(LogConflict):
                _append(store, name, b"two\n", at)
        assert store.read(name) == b"one\n"
        with _refused(LogConflict):
            _append(store, _name(), b"one\n", 5)


def a_repeated_append_is_written_once(make: StoreMaker) -> None:
    """Under the same id, from another connection, also after its lease was lost."""
    name = _name()
    with closing(make()) as one, closing(make()) as two:
        lease = one.acquire(name, "one", 60)
        end = one.append(name, b"one\n", at=0, write_id="w", lease=lease)
        assert two.append(name, b"one\n", at=0, write_id="w", lease=lease) == end
        one.release(lease)
        two.acquire(name, "two", 60)
        assert two.append(name, b"one\n", at=0, write_id="w", lease=lease) == end
        assert one.read(name) == b"one\n"


def of_appends_at_one_place_one_is_written(make: StoreMaker) -> None:
    """Whatever happens at the same time, each round has one winner, and the log is the winners'."""
    name, workers, rounds = _name(), 4, 5
    won: list[list[bytes]] = [[] for _ in range(rounds)]
    ends = [0]
    gate = threading.Barrier(workers)

    def work(number: int) -> None:
        with closing(make()) as store:
            for turn in range(rounds):
                gate.wait(60)
                line = b"%d of %d\n" % (number, turn)
                try:
                    end = _append(store, name, line, ends[turn])
                except LogConflict:
                    pass
                else:
                    won[turn].append(line)
                    ends.append(end)
                gate.wait(60)

    def tell(number: int) -> BaseException | None:
        try:
            work(number)
        except BaseException as exc:
            gate.abort()  # the others wait no longer
            return exc
        return None

    with ThreadPoolExecutor(workers) as pool:
        failed = [exc for exc in pool.map(tell, range(workers)) if exc is not None]
    for exc in sorted(failed, key=lambda exc: isinstance(exc, threading.BrokenBarrierError)):
        raise exc
    assert [len(lines) for lines in won] == [1] * rounds
    with closing(make()) as store:
        assert store.read(name) == b"".join(lines[0] for lines in won)


def a_lease_keeps_others_out(make: StoreMaker) -> None:
    """Until it is given back; its owner may take it again, and then only the newer one counts."""
    name = _name()
    with closing(make()) as one, closing(make()) as two:
        lease = one.acquire(name, "one", 60)
        with _refused(LeaseHeld):
            two.acquire(name, "two", 60)
        again = one.acquire(name, "one", 60)
        assert again.token > lease.token
        with _refused(LeaseExpired):
            one.append(name, b"x\n", at=0, write_id="w", lease=lease)
        assert one.renew(again, 60).token == again.token
        one.release(lease)  # not the newest: nothing happens
        with _refused(LeaseHeld):
            two.acquire(name, "two", 60)
        one.release(again)
        assert two.acquire(name, "two", 60).token > again.token


def a_lease_that_is_over_cannot_write(make: StoreMaker) -> None:
    """As soon as another worker has the conversation, though nothing else was written."""
    name = _name()
    with closing(make()) as one, closing(make()) as two:
        old = one.acquire(name, "one", 0.2)
        end = one.append(name, b"one\n", at=0, write_id="w1", lease=old)
        time.sleep(0.4)
        new = two.acquire(name, "two", 60)
        at = two.end(name)  # a store may have marked the change of hands
        for place in {end, at}:
            with _refused(LogConflict):
                one.append(name, b"late\n", at=place, write_id="w2", lease=old)
        with _refused(LeaseExpired):
            one.renew(old, 60)
        one.release(old)
        two.append(name, b"two\n", at=at, write_id="w3", lease=new)
        assert [line for line in two.read(name).split(b"\n") if line] == [b"one", b"two"]


def a_document_is_replaced_by_version(make: StoreMaker) -> None:
    """Only by who saw the newest; increments of many workers are all there."""
    name, workers, rounds = _name(), 4, 5
    with closing(make()) as store:
        assert store.load(name, "state") is None
        assert store.save(name, "state", b"", after=0) == 1
        for after in (0, 2):
            with _refused(LogConflict):
                store.save(name, "state", b"x", after=after)
        assert store.load(name, "other") is None

    def count(_: int) -> None:
        with closing(make()) as store:
            done = 0
            while done < rounds:
                document = store.load(name, "state")
                assert document is not None
                number = int(document.data or b"0") + 1
                try:
                    store.save(name, "state", b"%d" % number, after=document.version)
                except LogConflict:
                    continue
                done += 1

    with ThreadPoolExecutor(workers) as pool:
        list(pool.map(count, range(workers)))
    with closing(make()) as store:
        document = store.load(name, "state")
        assert document is not None
        assert (document.data, document.version) == (
            b"%d" % (workers * rounds),
            1 + workers * rounds,
        )


def blobs_are_kept_while_referred_to(make: StoreMaker) -> None:
    """Once for equal bytes; until the last conversation is forgotten."""
    one, two, data = _name(), _name(), uuid.uuid4().bytes * 100
    with closing(make()) as store:
        digest = store.put_blob(one, data)
        assert store.put_blob(two, data) == digest
        assert store.blob(digest) == data
        assert store.blob("0" * 64) is None
        store.forget(one)
        store.collect(unused_seconds=0)
        assert store.blob(digest) == data
        store.forget(two)
        store.collect(unused_seconds=3600)
        assert store.blob(digest) == data
        assert store.collect(unused_seconds=0) >= 1
        assert store.blob(digest) is None


def any_name_is_its_own(make: StoreMaker) -> None:
    """Names that differ in one byte are different; what no store can hold is refused."""
    stem = uuid.uuid4().hex[:8]
    names = [f"{stem}{odd}"[:200] for odd in ODD_NAMES]
    with closing(make()) as store:
        for name in names:
            _append(store, name, f"{name}\n".encode(), 0)
            store.save(name, name, name.encode(), after=0)
        for name in names:
            assert store.read(name) == f"{name}\n".encode()
            document = store.load(name, name)
            assert document is not None
            assert document.data == name.encode()
        assert set(names) <= set(store.conversations())
        for name in ("", "x" * 201, "a\0b", "\ud800"):
            with _refused(InvalidPolicy):
                _append(store, name, b"x\n", 0)


def a_forgotten_conversation_begins_again(make: StoreMaker) -> None:
    """Nothing of it is left, and an old lease is worth nothing for the new one."""
    name = _name()
    with closing(make()) as store:
        lease = store.acquire(name, "one", 60)
        store.append(name, b"one\n", at=0, write_id="w", lease=lease)
        store.save(name, "state", b"x", after=0)
        store.forget(name)
        assert (store.read(name), store.end(name)) == (b"", 0)
        assert store.load(name, "state") is None
        assert name not in set(store.conversations())
        store.forget(name)
        store.acquire(name, "two", 60)
        with _refused(LogConflict):
            store.append(name, b"late\n", at=store.end(name), write_id="w2", lease=lease)


def workers_take_turns(make: StoreMaker) -> None:
    """Two workers on one conversation: a delivery that comes twice counts once, results are everybody's."""
    name = _name()
    with closing(make()) as one, closing(make()) as two:
        workers = [Worker(store, model="claude-opus-4-5") for store in (one, two)]
        for number in range(6):
            with workers[number % 2].checkout(name, at_end=number % 3 == 0) as held:
                key = f"d{number // 2}"
                assert held.add({"role": "user", "content": key}, key=key) is (number % 2 == 0)
                if not held.answered:
                    assert held.manager.prepare().messages
                    held.observe({"role": "assistant", "content": f"to {key}"})
        with workers[0].checkout(name) as held:
            contents = [item["content"] for item in held.manager.history]
        assert contents == [text for at in range(3) for text in (f"d{at}", f"to d{at}")]
        place = OffloadedResults(one, name).put("call", "a text")
        assert OffloadedResults(two, name).get(place) == "a text"
        assert OffloadedResults(two, name).get("call") == "a text"
        for worker in workers:
            worker.close()


STORE_CHECKS: tuple[StoreCheck, ...] = (
    a_log_holds_what_was_appended,
    an_append_at_another_place_is_refused,
    a_repeated_append_is_written_once,
    of_appends_at_one_place_one_is_written,
    a_lease_keeps_others_out,
    a_lease_that_is_over_cannot_write,
    a_document_is_replaced_by_version,
    blobs_are_kept_while_referred_to,
    any_name_is_its_own,
    a_forgotten_conversation_begins_again,
    workers_take_turns,
)
"""Every check; each takes what opens the store, and raises `AssertionError` or what the store raised."""

"""A ledger shared between threads, and one that is asked while it lets go of its items."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from tests.kit import user
from ullage.exceptions import InvalidMessage


def test_threads_see_whole_messages(engine: Any) -> None:
    ledger, failures = engine.Ledger(), []

    def work(name: int) -> None:
        try:
            for _ in range(60):
                ledger.append(user("word"))
                ledger.extend([user("word"), user("word")])
                assert ledger.tokens() <= len(ledger)
                assert ledger.message(-1).tokens == 1
                # An error is made of Python objects: other threads may run meanwhile.
                with pytest.raises(InvalidMessage):
                    ledger.extend([user("gone"), {"role": f"robot {name}"}])
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(name,)) for name in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert not failures
    assert not any(thread.is_alive() for thread in threads)
    assert (len(ledger), ledger.tokens()) == (720, 720)


class Asking(dict):  # type: ignore[type-arg]
    """A message that asks its ledger when nobody holds it any more."""

    def __init__(self, ledger: Any, answers: list[int]) -> None:
        super().__init__(user("word"))
        self.ledger, self.answers = ledger, answers

    def __del__(self) -> None:
        self.answers.append(self.ledger.tokens())


@pytest.mark.parametrize("change", ["truncate", "replace", "sync"])
def test_an_item_may_ask_while_it_is_dropped(engine: Any, change: str) -> None:
    answers: list[int] = []
    ledger = engine.Ledger(None, [user("word")])
    ledger.append(Asking(ledger, answers))
    arguments = {"truncate": (1,), "replace": (1, user("")), "sync": ([user("word")],)}
    getattr(ledger, change)(*arguments[change])
    assert answers == [1]

"""One message as the rules see it."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from ullage._reference.digest import BlockDigest, MessageDigest

__all__ = ["LedgerLike", "View"]


class LedgerLike(Protocol):
    """What the rules ask of a ledger."""

    @property
    def version(self) -> int: ...
    def __len__(self) -> int: ...
    def message(self, index: int) -> MessageDigest: ...
    def blocks(self, index: int) -> list[BlockDigest]: ...
    def string(self, ref: int) -> str: ...
    def tokens(self, start: int = 0, stop: int | None = None) -> int: ...
    def changed_since(self, version: int) -> int: ...


class View(NamedTuple):
    """A message's digest, its blocks, and the ledger for its strings."""

    message: MessageDigest
    blocks: list[BlockDigest]
    ledger: LedgerLike

    def string(self, ref: int) -> str:
        return self.ledger.string(ref)

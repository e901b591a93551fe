"""Large tool results in a store that workers share: an `OffloadStore` over its blobs."""

from __future__ import annotations

from ullage.exceptions import LogConflict, StoreError
from ullage.recall.store import digest_of
from ullage.stores.store_protocols import ConversationStore, checked_name

__all__ = ["OffloadedResults"]

_PREFIX = "blob:"
_TRIES = 16


class OffloadedResults:
    """A conversation's results, each text stored once however many conversations have it; any worker reads them.

    Args:
        store: Where they go; its `forget` and `collect` delete what only this conversation refers to.
        conversation: Its name.

    Example:
        >>> import tempfile
        >>> from ullage.stores import FolderStore
        >>> results = OffloadedResults(FolderStore(tempfile.mkdtemp()), "one")
        >>> results.get(results.put("call_1", "a long text"))
        'a long text'
    """

    def __init__(self, store: ConversationStore, conversation: str) -> None:
        self._store, self._conversation = store, checked_name(conversation)

    def put(self, name: str, text: str, *, suffix: str = ".txt") -> str:
        """Keep a text; returns its place. The suffix has no meaning here.

        Raises:
            StoreError: The store fails; the text may be stored without a reference by its id.
        """
        del suffix
        digest = self._store.put_blob(self._conversation, text.encode("utf-8", "surrogatepass"))
        self._note(name, digest)
        return _PREFIX + digest

    def get(self, name: str) -> str | None:
        """The text at a place that `put` returned, or under an id that has only one text. Else `None`.

        Raises:
            StoreError: The store fails.
        """
        if name.startswith(_PREFIX):
            return self._text(name.removeprefix(_PREFIX))
        found = self._store.load(self._conversation, _document(name))
        digests = found.data.decode().split() if found is not None else []
        return self._text(digests[0]) if len(digests) == 1 else None

    def _text(self, digest: str) -> str | None:
        data = self._store.blob(digest)
        return None if data is None else data.decode("utf-8", "surrogatepass")

    def _note(self, name: str, digest: str) -> None:
        """Texts under an id, one digest a line; another worker may add one at the same time."""
        for _ in range(_TRIES):
            found = self._store.load(self._conversation, _document(name))
            digests = found.data.decode().split() if found is not None else []
            if digest in digests:
                return
            listed = "\n".join([*digests, digest]).encode()
            after = found.version if found is not None else 0
            try:
                self._store.save(self._conversation, _document(name), listed, after=after)
            except LogConflict:
                continue
            return
        raise StoreError(f"result {name!r}: other workers replaced its list {_TRIES} times")


def _document(name: str) -> str:
    return f"result-{digest_of(name)}"

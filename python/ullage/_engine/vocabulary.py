"""The packed vocabularies of the exact counter, as both engines read them.

Made by `benches/python/pack_bpe.py`; the form is described in `rust/core/src/bpe/packed.rs`.
"""

from __future__ import annotations

import pkgutil

from ullage.exceptions import StoreError

__all__ = ["damaged", "read"]


def read(name: str) -> bytes:
    """The bytes of one packed vocabulary.

    Raises:
        StoreError: The file is not there.
    """
    try:
        data = pkgutil.get_data("ullage", f"data/{name}.bpe")
    except OSError:
        data = None
    if data is None:
        raise damaged(name, "cannot be read")
    return data


def damaged(name: str, reason: str) -> StoreError:
    """The error for a vocabulary that is not what it should be."""
    return StoreError(reason, path=f"ullage/data/{name}.bpe", hint="reinstall ullage")

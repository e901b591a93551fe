"""The name that somebody most likely meant."""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["nearest"]


def nearest(name: object, known: Iterable[str]) -> str:
    """A hint that names the most similar of the known names; empty: none is similar.

    Example:
        >>> nearest("modell", ["model", "tools"])
        "did you mean 'model'?"
    """
    import difflib  # only errors need it

    found = difflib.get_close_matches(str(name), list(known), n=1, cutoff=0.6)
    return f"did you mean {found[0]!r}?" if found else ""

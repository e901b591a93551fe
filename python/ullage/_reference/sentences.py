"""The sentences of a text (parts between line breaks, and blanks after a full stop, question or exclamation mark), and texts in another.

Twin of `rust/core/src/sentences.rs`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from ullage._reference.stored import stored_text, valid_text

__all__ = ["contained", "split_sentences"]

_BREAK = re.compile(r"\s(?:(?<=\n)|(?<=[.!?]\s))")  # begins with what is looked for quickly


def split_sentences(text: str, least: int, most: int) -> list[str]:
    """The sentences in order, without blanks around them.

    Args:
        text: Any.
        least: Characters of the shortest that is wanted.
        most: Of the longest.
    """
    found = (part.strip() for part in _BREAK.split(valid_text(stored_text(text))))
    return [part for part in found if least <= len(part) <= most]


def contained(texts: Sequence[str], whole: str) -> list[bool]:
    """For each of some texts whether it stands in another.

    Args:
        texts: Any.
        whole: In which they are looked for.
    """
    whole = valid_text(stored_text(whole))
    return [valid_text(stored_text(text)) in whole for text in texts]

"""Who wrote a message, or a part of it: the user, the host, another agent, or an earlier compaction."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ullage.facts.reading import TEXT_TYPES, blocks_of, clean, text_of
from ullage.facts.sections import looks_like_summary
from ullage.facts.words import (
    OPENERS,
    Kind,
    Words,
    is_command,
    others_in,
    pieces_of,
    standing_parts,
    words_of,
)
from ullage.messages import BlockView, Item, is_summary, message_of, role_of

__all__ = [
    "Standing",
    "author_of",
    "has_host_text",
    "host_share",
    "host_texts",
    "is_hidden",
    "is_host_only",
    "is_standing",
    "is_user_input",
    "own_words",
    "standing_in",
    "standing_left",
    "summary_text",
    "without_host_text",
]

_NO_WORDS = Words("", Kind.NONE)


def is_user_input(item: object) -> bool:
    """Whether the user wrote (part of) this message."""
    return bool(_user_words(item).text)


def is_host_only(item: Any) -> bool:
    """Whether a user message is all host text: the user wrote none of it, and sent no image or document with it."""
    if role_of(item) != "user" or (own_words(item).text and own_words(item).kind is not Kind.HOST):
        return False
    return all(block.get("type") in TEXT_TYPES for block in blocks_of(item)) and bool(_texts(item))


def _user_words(item: Any) -> Words:
    if role_of(item) != "user" or is_hidden(item) or author_of(item):
        return _NO_WORDS
    return own_words(item)


def author_of(item: Mapping[str, Any]) -> str:
    """The author of a user entry other than the user, as the host recorded it; empty: the user, or unknown."""
    origin = item.get("origin")
    kind = origin.get("kind") if isinstance(origin, Mapping) else None
    return clean(kind, 80) if isinstance(kind, str) and kind not in ("", "human", "user") else ""


def is_hidden(item: Any) -> bool:
    """Whether the host wrote this entry for the model, or another part of it holds the conversation."""
    if type(item) is not dict and not isinstance(item, Mapping):
        return False
    return is_summary(item) or item.get("isMeta") is True or item.get("isSidechain") is True


def _texts(item: Any) -> list[str]:
    """The text blocks of a user message that are not empty."""
    content = (message_of(item) or {}).get("content")
    if type(content) is str:
        return [clean(content)]
    texts = [clean(b.get("text")) for b in blocks_of(item) if b.get("type") in TEXT_TYPES]
    return [text for text in texts if text and not text.isspace()]


def own_words(item: Any) -> Words:
    """The user's words in a user message, block by block: without host text, expansions of commands and a summary."""
    texts = _texts(item)
    if len(texts) == 1:
        return _NO_WORDS if _is_summary_text(texts[0]) else words_of(texts[0])
    summary, told, expanded = summary_text(item), list[Words](), False
    for text in texts:
        words = _NO_WORDS if expanded or text == summary else words_of(text)
        expanded = is_command(text)
        told.append(words)
    return _joined(told)


def _joined(told: Sequence[Words]) -> Words:
    said = [words for words in told if words.text and words.kind is not Kind.HOST]
    if len(said) == 1:
        return said[0]
    if said:
        return Words("\n\n".join(words.text for words in said), Kind.PROMPT)
    kinds = [words.kind for words in told]
    if Kind.INTERRUPT in kinds:
        return Words("", Kind.INTERRUPT)
    host = [words.text for words in told if words.kind is Kind.HOST]
    return Words("\n\n".join(host), Kind.HOST) if host else _NO_WORDS


def without_host_text(message: Item) -> Item | None:
    """A bare message without what hosts wrote into it, but with what others answered; the same object if it has none, `None`: nothing is left."""
    if role_of(message) == "system":
        return None
    if role_of(message) != "user" or not has_host_text(message):
        return message
    content: list[BlockView] = []
    for block in blocks_of(message):
        text = block.get("text") if block.get("type") in TEXT_TYPES else None
        if not isinstance(text, str) or not host_share(text):
            content.append(block)
            continue
        pieces = (p.text for p in pieces_of(text) if not p.host or others_in(p.text))
        kept = "".join(pieces).strip()
        content += [{**block, "text": kept}] if kept else []
    return {**message, "content": content} if content else None


# ---- summaries -------------------------------------------------------------------------------


def summary_text(item: Any) -> str:
    """The text of an earlier compaction's summary in a message; empty: it holds none.

    A bare message has no mark: the summary is its first block that a host did not write.
    """
    if is_summary(item):
        return text_of(item)
    if role_of(item) != "user" or is_hidden(item):
        return ""
    for text in _texts(item):
        if _is_summary_text(text):
            return text
        if words_of(text).kind not in (Kind.NONE, Kind.HOST):
            return ""
    return ""


def _is_summary_text(text: str) -> bool:
    if looks_like_summary(text):
        return True
    if not text.lstrip().startswith("<"):
        return False
    own = next((piece.text for piece in pieces_of(text) if not piece.host), "")
    return looks_like_summary(own)


# ---- what stands -----------------------------------------------------------------------------


class Standing(NamedTuple):
    """A text that the host put into the conversation to stand.

    Attributes:
        about: What it says, by names: a newer text with all of them replaces it.
        block: The text, as a block; the very same where it is one by itself.
    """

    about: frozenset[str]
    block: BlockView


def standing_in(item: Any) -> list[Standing]:
    """The texts in a message that the host put there to stand; of a message of the system's role all of it is one."""
    role = role_of(item)
    if is_hidden(item):
        return []  # of a log, whose client puts such texts in again by itself
    if role == "system":
        text = text_of(item)
        pieces = [piece for piece in pieces_of(text) if piece.text.strip()]
        named = [name for piece in pieces for name in piece.about if all(p.about for p in pieces)]
        about = frozenset(named or standing_parts(text) or [text])
        return [Standing(about, {"type": "text", "text": text})] if text.strip() else []
    if role != "user":
        return []
    return list(_standing_blocks(item))


def is_standing(item: Any) -> bool:
    """Whether a message holds nothing but what a host put there to stand."""
    return bool(standing_in(item)) and (role_of(item) == "system" or is_host_only(item))


def _standing_blocks(item: Item) -> Iterator[Standing]:
    for block in blocks_of(item):
        text = block.get("text") if block.get("type") in TEXT_TYPES else None
        if not isinstance(text, str) or ("<" not in text and "#" not in text[:80]):
            continue
        for piece in pieces_of(text):
            if piece.about:
                same = piece.text.strip() == text.strip()
                yield Standing(
                    piece.about, block if same else {"type": "text", "text": piece.text.strip()}
                )


def standing_left(
    items: Sequence[Item], gone: Collection[int], made: Sequence[Item] = ()
) -> list[tuple[int, Item]]:
    """What has to be put back of the messages that go: their standing texts, each in its newest version.

    Args:
        items: Messages, oldest first.
        gone: Positions of those that go.
        made: What stands in their place: what it holds is not put back.

    Returns:
        For each such message its position, and the message itself where it holds nothing else, else one that holds the rest.
    """
    newer = [each.about for item in made for each in standing_in(item)]
    left: list[tuple[int, Item]] = []
    for at in reversed(range(len(items))):
        found = standing_in(items[at])
        fresh = [each for each in found if not any(each.about <= known for known in newer)]
        newer += [each.about for each in fresh]
        if fresh and at in gone:
            left.append((at, _alone(items[at], fresh, whole=len(fresh) == len(found))))
    return left[::-1]


def _alone(item: Item, texts: Sequence[Standing], *, whole: bool) -> Item:
    message = message_of(item) or {}
    if message.get("role") != "user":
        return item
    blocks = list(blocks_of(item))
    if whole and len(blocks) == len(texts) and is_host_only(item):
        return item
    return {"role": "user", "content": [dict(each.block) for each in texts]}


def has_host_text(item: Any) -> bool:
    """Whether a host wrote any part of the texts of a user message."""
    return any(host_share(text) for text in _texts(item))


def host_texts(item: Any) -> list[str]:
    """What hosts wrote into a user message, in pieces."""
    texts = (text for text in _texts(item) if host_share(text))
    return [piece.text for text in texts for piece in pieces_of(text) if piece.host]


def host_share(text: str) -> int:
    """Characters of a user message's text that a host wrote."""
    if "<" not in text and not text.lstrip().startswith(OPENERS):
        return 0
    return sum(len(piece.text) for piece in pieces_of(text) if piece.host)

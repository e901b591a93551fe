"""`tiktoken.core`: an encoding on Ullage's tokenizer."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Collection, Iterable, Sequence, Set as AbstractSet
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Literal, TypeVar

from ullage._start import extra_module, table
from ullage.counting import bytes_of_tokens, count_tokens_exact, encode_exact, special_tokens
from ullage.dropin import stands_in_for
from ullage.exceptions import MissingExtra

Allowed = Literal["all"] | AbstractSet[str]
Disallowed = Literal["all"] | Collection[str]
_NONE: frozenset[str] = frozenset()
_Input = TypeVar("_Input")
_Result = TypeVar("_Result")


class Encoding:
    """One of tiktoken's encodings; made by `get_encoding`.

    With a custom vocabulary (`pat_str`, `mergeable_ranks`, …) the constructor returns tiktoken's own class. Missing methods, such as
    `encode_to_numpy`, come from tiktoken's class with the same vocabulary.

    Attributes:
        name: Such as `o200k_base`.
    """

    def __new__(
        cls,
        name: str,
        *,
        pat_str: str | None = None,
        mergeable_ranks: dict[bytes, int] | None = None,
        special_tokens: dict[str, int] | None = None,
        explicit_n_vocab: int | None = None,
    ) -> Encoding:
        """See the class.

        Raises:
            MissingExtra: A custom vocabulary without tiktoken.
            ValueError: No vocabulary, and none of tiktoken's encodings has this name.
        """
        if mergeable_ranks is None:
            return super().__new__(cls)
        encoding: Encoding = extra_module("tiktoken", "tiktoken").Encoding(
            name,
            pat_str=pat_str,
            mergeable_ranks=mergeable_ranks,
            special_tokens=special_tokens or {},
            explicit_n_vocab=explicit_n_vocab,
        )
        return encoding

    def __init__(self, name: str) -> None:
        self.name = name
        self._special_tokens = dict(special_tokens(name))

    def __getattr__(self, name: str) -> object:
        if name.startswith("__") or name in ("name", "_special_tokens"):
            raise AttributeError(name)
        try:
            library = _of_library(self.name)
        except MissingExtra as exc:
            reason = f"Encoding has no {name!r} of its own, and tiktoken is not installed"
            raise AttributeError(reason) from exc
        return getattr(library, name)

    def __repr__(self) -> str:
        return f"<Encoding {self.name!r}>"

    def __reduce__(self) -> tuple[Callable[[str], Encoding], tuple[str]]:
        from ullage.dropin.tiktoken.registry import get_encoding

        return get_encoding, (self.name,)

    def count(self, text: str) -> int:
        """The number of tokens of a text, special tokens as ordinary text: `len(encode_ordinary(text))` without the list."""
        return count_tokens_exact(text, encoding=self.name)

    def encode_ordinary(self, text: str) -> list[int]:
        """Token ids of a text; special tokens are ordinary text."""
        return encode_exact(text, encoding=self.name)

    def encode(
        self,
        text: str,
        *,
        allowed_special: Allowed = _NONE,
        disallowed_special: Disallowed = "all",
    ) -> list[int]:
        """Token ids of a text.

        Args:
            text: Any string.
            allowed_special: Special tokens that become one id; `"all"`: all of the encoding.
            disallowed_special: Texts that raise an error; `"all"`: every special token that is not allowed, `()`: none.

        Raises:
            ValueError: The text holds a disallowed special token.

        Example:
            >>> Encoding("gpt2").encode("hello world")
            [31373, 995]
        """
        every = self.special_tokens_set
        allowed = every if allowed_special == "all" else allowed_special
        refused = every - allowed if disallowed_special == "all" else disallowed_special
        if refused and (match := _any_of(frozenset(refused)).search(text)):
            raise ValueError(_REFUSED.format(repr(match[0])))
        return encode_exact(text, encoding=self.name, special=every & allowed)

    def encode_ordinary_batch(self, text: list[str], *, num_threads: int = 8) -> list[list[int]]:
        """`encode_ordinary` of each text, on threads."""
        return _map_on_threads(self.encode_ordinary, text, num_threads)

    def encode_batch(
        self,
        text: list[str],
        *,
        num_threads: int = 8,
        allowed_special: Allowed = _NONE,
        disallowed_special: Disallowed = "all",
    ) -> list[list[int]]:
        """`encode` of each text, on threads."""
        encode = functools.partial(
            self.encode, allowed_special=allowed_special, disallowed_special=disallowed_special
        )
        return _map_on_threads(encode, text, num_threads)

    def encode_single_token(self, text_or_bytes: str | bytes) -> int:
        """The id of a text that is one token, special ones included.

        Raises:
            KeyError: It is not one token.
        """
        data = text_or_bytes.encode() if isinstance(text_or_bytes, str) else text_or_bytes
        return _ids(self.name)[data]

    def decode_bytes(self, tokens: Sequence[int]) -> bytes:
        """The bytes of token ids.

        Raises:
            KeyError: The encoding has no such token.
        """
        return b"".join(self.decode_tokens_bytes(tokens))

    def decode(self, tokens: Sequence[int], errors: str = "replace") -> str:
        """The text of token ids; `errors` as in `bytes.decode`.

        Raises:
            KeyError: The encoding has no such token.

        Example:
            >>> Encoding("gpt2").decode([31373, 995])
            'hello world'
        """
        return self.decode_bytes(tokens).decode("utf-8", errors)

    def decode_single_token_bytes(self, token: int) -> bytes:
        """The bytes of one token.

        Raises:
            KeyError: The encoding has no such token.
        """
        return bytes_of_tokens(self.name)[token]

    def decode_tokens_bytes(self, tokens: Sequence[int]) -> list[bytes]:
        """The bytes of each token.

        Raises:
            KeyError: The encoding has no such token.
        """
        table = bytes_of_tokens(self.name)
        return [table[token] for token in tokens]

    def decode_with_offsets(self, tokens: Sequence[int]) -> tuple[str, list[int]]:
        """The text, and for each token the index of the first character that it has a byte of.

        Raises:
            KeyError: The encoding has no such token.
            UnicodeDecodeError: The bytes are not UTF-8.
        """
        at, offsets = 0, []
        parts = self.decode_tokens_bytes(tokens)
        for part in parts:
            offsets.append(max(0, at - _continues(part[0])))
            at += sum(not _continues(byte) for byte in part)
        return b"".join(parts).decode(), offsets

    def decode_batch(
        self, batch: Sequence[Sequence[int]], *, errors: str = "replace", num_threads: int = 8
    ) -> list[str]:
        """`decode` of each list."""
        return _map_on_threads(functools.partial(self.decode, errors=errors), batch, num_threads)

    def decode_bytes_batch(
        self, batch: Sequence[Sequence[int]], *, num_threads: int = 8
    ) -> list[bytes]:
        """`decode_bytes` of each list."""
        return _map_on_threads(self.decode_bytes, batch, num_threads)

    def token_byte_values(self) -> list[bytes]:
        """The bytes of every token that is not special, sorted."""
        special = set(self._special_tokens.values())
        table = bytes_of_tokens(self.name)
        return sorted(data for token, data in table.items() if token not in special)

    @property
    def _mergeable_ranks(self) -> dict[bytes, int]:
        """The id of each token that is not special, for custom encodings as in tiktoken's README."""
        special = set(self._special_tokens.values())
        return {data: token for data, token in _ids(self.name).items() if token not in special}

    @property
    def _pat_str(self) -> str:
        pattern: str = table(__file__, "encodings.toml")["patterns"][self.name]
        return pattern

    @property
    def eot_token(self) -> int:
        """The id of `<|endoftext|>`."""
        return self._special_tokens["<|endoftext|>"]

    @property
    def special_tokens_set(self) -> set[str]:
        """The special tokens."""
        return set(self._special_tokens)

    def is_special_token(self, token: int) -> bool:
        """Whether the id is that of a special token."""
        return token in self._special_tokens.values()

    @property
    def max_token_value(self) -> int:
        """The highest id."""
        return max(bytes_of_tokens(self.name))

    @property
    def n_vocab(self) -> int:
        """The highest id plus one."""
        return self.max_token_value + 1


@functools.cache
def _of_library(name: str) -> Any:
    """Tiktoken's own encoding, from the vocabulary that comes with Ullage: nothing is downloaded."""
    ours = Encoding(name)
    return extra_module("tiktoken", "tiktoken").Encoding(
        name,
        pat_str=ours._pat_str,
        mergeable_ranks=ours._mergeable_ranks,
        special_tokens=ours._special_tokens,
    )


_REFUSED = (
    "Encountered text corresponding to disallowed special token {0}.\n"
    "Pass it to `allowed_special` to encode it as one token, or `disallowed_special=()` to encode it as ordinary text."
)


@functools.lru_cache(maxsize=128)
def _any_of(tokens: frozenset[str]) -> re.Pattern[str]:
    return re.compile("|".join(map(re.escape, sorted(tokens))))


@functools.cache
def _ids(name: str) -> dict[bytes, int]:
    return {data: token for token, data in bytes_of_tokens(name).items()}


def _continues(byte: int) -> bool:
    """Whether a byte of UTF-8 continues a character."""
    return 0x80 <= byte < 0xC0


def _map_on_threads(
    work: Callable[[_Input], _Result], inputs: Iterable[_Input], threads: int
) -> list[_Result]:
    # The Rust engine releases the interpreter lock while it encodes.
    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(work, inputs))


stands_in_for(__name__, "tiktoken.core")

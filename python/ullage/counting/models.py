"""The model table: window, output limit, image rule, prices, cache rules, what the API accepts.

The numbers are data, in `models.toml`; a file of the same form can override them. A table is immutable:
learning or overriding something returns a new one.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, Final, Self

from ullage._late import pathlib, pattern
from ullage.counting.model_rows import (
    CacheRule,
    ImageRule,
    Model,
    Prices,
    close_names,
    document,
    sections,
)
from ullage.exceptions import InvalidPolicy, UnknownModel

__all__ = [
    "CacheRule",
    "ImageRule",
    "Model",
    "ModelTable",
    "Prices",
    "UnknownModelWarning",
    "lookup",
]

UNKNOWN_CONTEXT_WINDOW: Final = 200_000
"""Tokens; WIN-7. The smallest window among current models of the large vendors."""

UNKNOWN_MAX_OUTPUT: Final = 32_000
"""Tokens; WIN-7."""


LARGE_CONTEXT_WINDOW: Final = 1_000_000
"""Tokens; the window that `[1m]` after a name requests, as Claude Code writes it."""


class UnknownModelWarning(UserWarning):
    """No row of the table matches a model name; conservative defaults are used."""


@dataclass(frozen=True, slots=True)
class ModelTable:
    """Rows by name, other names of rows, and rows to guess from.

    Example:
        >>> ModelTable.builtin().lookup("us.anthropic.claude-opus-4-5-20251101-v1:0").context_window
        200000
    """

    rows: Mapping[str, Model] = field(repr=False)
    aliases: Mapping[str, str] = field(repr=False)
    guesses: Mapping[str, str] = field(repr=False)
    version: str = ""

    @staticmethod
    def builtin() -> ModelTable:
        """The table that comes with Ullage."""
        return _builtin()

    @classmethod
    def load(cls, *paths: str | pathlib.Path) -> ModelTable:
        """The built-in table with overrides from files, later ones over earlier.

        Args:
            *paths: TOML files of the form of `models.toml`. A row with a known name changes only the
                values that it states.

        Raises:
            InvalidPolicy: A value of the wrong type or sign, a key or a `like` that does not exist.
            OSError: A file cannot be read.
        """
        return _merged([_builtin_document(), *(document(pathlib.Path(path)) for path in paths)])

    def find(self, name: str) -> Model | None:
        """The row for a name, or `None`.

        Case, provider prefixes (`anthropic/`, `us.anthropic.`), dates and version suffixes (`-20251101`,
        `@20251101`, `-v1:0`, `-latest`) do not matter. A longer name fits the longest row that it
        continues with a word (`gpt-5-codex` fits `gpt-5`), never with a number.
        """
        key = _key(name)
        exact = self.aliases.get(_bare(name))  # a preview by its date, which is a model of its own
        if exact is not None:
            return self.rows.get(exact)
        if key.endswith(_LARGE):
            return self._row(key) or self._enlarged(key.removesuffix(_LARGE))
        return next(filter(None, map(self._row, _prefixes(key))), None)

    def _row(self, key: str) -> Model | None:
        return self.rows.get(self.aliases.get(key, key))

    def _enlarged(self, key: str) -> Model | None:
        row = self.find(key)
        if row is None or row.context_window >= LARGE_CONTEXT_WINDOW:
            return row
        return replace(row, context_window=LARGE_CONTEXT_WINDOW)

    def lookup(self, name: str) -> Model:
        """The row for a name; for an unknown name 200 000 and 32 000 tokens, and one warning.

        Args:
            name: As an API or a transcript states it.

        Returns:
            The model; `known` tells whether a row was found.
        """
        return self._lookup(name)

    def _lookup(self, name: str) -> Model:
        row = self.find(name)
        if row is not None:
            return row
        _warn_unknown(name, self)
        return self._guess(name)

    def near(self, name: str) -> str:
        """A sentence with the known name that this one is nearly; empty if there is none."""
        known = dict.fromkeys((*self.rows, *self.aliases))
        found = close_names(_key(name), known, 1, cutoff=0.85)
        return f"did you mean {found[0]!r}?" if found else ""

    def stated(
        self, name: str, *, context_window: int | None = None, max_output_tokens: int | None = None
    ) -> Model:
        """`lookup`, with stated values that override those of the row.

        Args:
            name: See `lookup`; an unknown name causes no warning if the window is stated.
            context_window: Tokens of prompt and response together; `None`: as in the table.
            max_output_tokens: The longest response, in tokens; `None`: as in the table.

        Raises:
            InvalidPolicy: A value is not a number or not positive, or the output is larger than the window. Names the argument.

        Example:
            >>> ModelTable.builtin().stated("my-local-model", context_window=8_192)
            Model('my-local-model', window=8,192)
        """
        for what, tokens in (
            ("context_window", context_window),
            ("max_output_tokens", max_output_tokens),
        ):
            _positive(what, tokens)
        if context_window is None:
            row = self._lookup(name)
        else:
            row = self.find(name) or self._guess(name)
            row = replace(row, context_window=context_window, input_limit=0, known=True)
        most = row.context_window if context_window is None else context_window
        if max_output_tokens is not None and max_output_tokens > most:
            limit = f"must not be above the window ({most:,})"
            raise InvalidPolicy("max_output_tokens", max_output_tokens, limit)
        return replace(row, max_output_tokens=max_output_tokens or min(row.max_output_tokens, most))

    def require(self, name: str) -> Model:
        """The row for a name.

        Raises:
            UnknownModel: No row fits.
        """
        row = self.find(name)
        if row is None:
            raise UnknownModel(
                f"no model is named {name!r}",
                hint=self.near(name) or "add the model with a file: ModelTable.load(path)",
            )
        return row

    def learned(self, name: str, limit: int) -> Self:
        """A table in which a model's window is what a provider's error named (WIN-6).

        Args:
            name: The model that refused.
            limit: The maximum in tokens that the error names.

        Returns:
            A new table; this one is unchanged.

        Raises:
            InvalidPolicy: `limit` is not positive.
        """
        if limit <= 0:
            raise InvalidPolicy("limit", limit, "must be positive")
        base = self.find(name) or self._guess(name)
        output = min(base.max_output_tokens, limit)
        row = replace(
            base, context_window=limit, input_limit=0, max_output_tokens=output, known=True
        )
        key = _key(name)
        aliases = {alias: row for alias, row in self.aliases.items() if alias != key}
        return replace(self, rows={**self.rows, key: row}, aliases=aliases)

    def _guess(self, name: str) -> Model:
        key = _key(name)
        known = (prefix for prefix in self.guesses if key.startswith(prefix))
        base = self.rows[self.guesses[max(known, key=len)]]
        return replace(
            base,
            name=name,
            context_window=UNKNOWN_CONTEXT_WINDOW,
            max_output_tokens=UNKNOWN_MAX_OUTPUT,
            input_limit=0,
            prices=None,
            long_context=None,
            known=False,
        )


def _positive(name: str, given: object) -> None:
    if given is None:
        return
    if isinstance(given, bool) or not isinstance(given, int) or given < 1:
        raise InvalidPolicy(name, given, "must be a number of tokens, at least 1")


def lookup(name: str) -> Model:
    """The built-in row for a model name; see `ModelTable.lookup`.

    Example:
        >>> lookup("claude-sonnet-4-5-20250929").max_output_tokens
        64000
    """
    return _builtin()._lookup(name)


def _warn_unknown(name: str, table: ModelTable) -> None:
    # Python's own registry shows a warning once per place and text: once per name.
    named = f"no model is named {name!r}" if name else "no model is given"
    near = table.near(name) if name else ""
    warnings.warn(
        f"{named}: {UNKNOWN_CONTEXT_WINDOW:,} tokens of context and "
        f"{UNKNOWN_MAX_OUTPUT:,} of output are assumed{near and '; ' + near}",
        UnknownModelWarning,
        stacklevel=4,
    )


# ---- names -----------------------------------------------------------------------------------

_PREFIX: Final = pattern(r"^(?:(?:us|eu|apac|jp|au|ca|global|us-gov)\.)?(?:[a-z0-9]+\.)?(?=[a-z])")
_SUFFIX: Final = pattern(
    r"(?:@[\w-]+|-v\d+(?::\d+)*(?::\w+)?|:[\w.-]+|-latest|-preview|-20\d{6}|-20\d\d-\d\d-\d\d|-\d\d-20\d\d|-\d\d-\d\d|-\d{4})$"
)
_SIZE: Final = pattern(r"-\d{1,4}(?:\.\d+)?(?:x\d+)?[bm]")
"""What names of open models say of their size: `llama-3.1-8b-instruct`."""

_LARGE: Final = "[1m]"


def _bare(name: str) -> str:
    """A name without the folders before it."""
    return name.strip().lower().rsplit("/", 1)[-1]


def _key(name: str) -> str:
    """A name without provider, region, date and version."""
    key = _bare(name)
    large = _LARGE if key.endswith(_LARGE) else ""
    key = key.removesuffix(_LARGE)
    if "." in key and (found := _PREFIX.match(key)) and found.end():
        # Only vendor names come before a dot and a letter: `anthropic.claude`, not `gpt-5.4`.
        key = key[found.end() :]
    while (shorter := _SUFFIX.sub("", key)) != key and shorter:
        key = shorter
    if key.startswith("claude"):
        key = key.replace(".", "-")
    return key + large


def _prefixes(key: str) -> Iterable[str]:
    """The key, then what it continues with a word or a size: `gpt-5-codex-max`, `gpt-5-codex`, `gpt-5`."""
    yield key
    while (at := key.rfind("-")) > 0:
        if not (key[at + 1 : at + 2].isalpha() or _SIZE.fullmatch(key, at)):
            return
        key = key[:at]
        yield key


# ---- the built-in file ------------------------------------------------------------------------


@cache
def _builtin_document() -> Mapping[str, Any]:
    return document(pathlib.Path(__file__).with_name("models.toml"))


@cache
def _builtin() -> ModelTable:
    return _merged([_builtin_document()])


def _merged(documents: Iterable[Mapping[str, Any]]) -> ModelTable:
    rows, aliases, guesses, version = sections(documents)
    own = {_key(name): row for name, row in rows.items()}
    return ModelTable(
        own,
        # Where a name without its date is a row's, only the whole name is another's.
        {
            _bare(name) if _key(name) in own else _key(name): _key(row)
            for name, row in aliases.items()
        },
        {name: _key(row) for name, row in guesses.items()},
        version,
    )

"""The model table: window, output limit, image rule, prices, cache rules, what the API accepts.

The numbers are data, in `models.toml`; a file of the same form can override them. A table is immutable:
learning or overriding something returns a new one.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import field, fields, replace
from functools import cache, partial
from itertools import filterfalse
from typing import Any, Final, Self

from ullage._start import Frozen, NamedTuple, decimal, pathlib, pattern
from ullage.exceptions import InvalidPolicy, UnknownModel


class ImageRule(NamedTuple):
    """How an image becomes tokens: one per patch, after scaling down to the edge and to the most tokens."""

    patch_px: int
    max_edge_px: int
    max_tokens: int
    default_tokens: int  # where the size cannot be read


class CacheRule(NamedTuple):
    """What a prompt cache keeps. `breakpoints` 0: the provider chooses the prefix itself."""

    min_tokens: int
    ttl_seconds: tuple[int, ...]
    breakpoints: int


class Prices(Frozen, kw_only=True):
    """US dollars per million tokens. `above_tokens`: prompts above it cost these prices (long context)."""

    input: decimal.Decimal
    output: decimal.Decimal
    cache_write_5m: decimal.Decimal
    cache_write_1h: decimal.Decimal
    cache_read: decimal.Decimal
    above_tokens: int = 0

    def __repr__(self) -> str:
        return f"Prices(input=${self.input}, output=${self.output}, cache_read=${self.cache_read})"


class Model(Frozen, kw_only=True):
    """One model. `known` False: no row matches its name, and the window is a conservative guess.

    Attributes:
        name: The row's name, or for an unknown model the name asked for.
        context_window: Tokens of prompt and response together.
        input_limit: Tokens of the prompt alone; 0: no limit but the window.
        max_output_tokens: The longest response, in tokens.
        family: The weights that estimate its text.
        encoding: The vocabulary that counts its text exactly; "" if none is public.
        prices: `None`: not known.
        long_context: Prices of prompts above `long_context.above_tokens`; `None`: the same.
        prefill: Accepts an assistant message at the end.
        mid_system: Accepts system messages inside the conversation.
        bound_thinking: A thinking block is valid only after exactly the prefix for which it was generated.
        output_in_window: The API refuses input + `max_tokens` above the window.
        thinking: Values of `thinking.type` that it accepts.
        many_images: Above this many images no side may exceed `many_images_px`; 0: no such rule.
    """

    name: str
    provider: str
    context_window: int
    max_output_tokens: int
    family: str
    image: ImageRule
    cache: CacheRule
    input_limit: int = 0
    encoding: str = ""
    prices: Prices | None = None
    long_context: Prices | None = None
    prefill: bool = False
    mid_system: bool = False
    bound_thinking: bool = False
    output_in_window: bool = False
    thinking: tuple[str, ...] = ()
    max_images: int = 0
    many_images: int = 0
    many_images_px: int = 0
    max_image_px: int = 0
    max_pdf_pages: int = 0
    max_request_bytes: int = 0
    known: bool = True

    def __repr__(self) -> str:
        note = "" if self.known else ", known=False"
        return f"Model({self.name!r}, window={self.context_window:,}{note})"

    def facts(self) -> dict[str, int | bool]:
        """The model's properties that the API's rules depend on, by the names of `Facts`."""
        limits = {
            "window": self.context_window,
            "max_output": self.max_output_tokens,
            "image_limit": self.max_images,
            "page_limit": self.max_pdf_pages,
            "body_limit": self.max_request_bytes,
        }
        return {name: limit for name, limit in limits.items() if limit} | {
            "prefill_ok": self.prefill,
            "mid_system_ok": self.mid_system,
            "output_in_window": self.output_in_window,
        }

    def prices_at(self, prompt_tokens: int) -> Prices | None:
        """The prices for a request with a prompt of this size; `None`: unknown."""
        long = self.long_context
        return long if long is not None and prompt_tokens > long.above_tokens else self.prices


# ---- the file --------------------------------------------------------------------------------


def document(path: pathlib.Path) -> Mapping[str, Any]:
    """Reads a TOML file; decimal numbers stay exact.

    Raises:
        InvalidPolicy: The file cannot be read, or is not TOML.
    """
    import tomllib

    try:
        return _parsed(path.read_text("utf-8"))
    except OSError as error:
        raise InvalidPolicy("models", str(path), f"cannot be read: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidPolicy("models", str(path), f"is not TOML: {error}") from error


def _parsed(text: str) -> dict[str, Any]:
    import tomllib  # slow to import, and many processes only import

    return tomllib.loads(text, parse_float=decimal.Decimal)


_PARTS_OF_A_DOCUMENT: Final = ("models", "aliases", "guesses", "version")


def _merged(documents: Iterable[Mapping[str, Any]]) -> ModelTable:
    """A table of documents, later ones over earlier.

    Raises:
        InvalidPolicy: A value of the wrong type or sign, a key or a `like` that does not exist.
    """
    raw: dict[str, dict[str, Any]] = {}
    aliases: dict[str, str] = {}
    guesses: dict[str, str] = {}
    version = ""
    for document in documents:
        for part in filterfalse(_PARTS_OF_A_DOCUMENT.__contains__, document):
            from ullage.policy import nearest

            near = nearest(part, _PARTS_OF_A_DOCUMENT)
            hint = f'a row is a table [models."NAME"]{near and "; "}{near}'
            limit = f"is not a part of a model file: {', '.join(_PARTS_OF_A_DOCUMENT)}"
            raise InvalidPolicy(part, type(document[part]).__name__, limit, hint=hint)
        for name in _table(document, "models"):
            raw.setdefault(name, {}).update(_table(document["models"], name))
        aliases |= _table(document, "aliases")
        guesses |= _table(document, "guesses")
        version = str(document.get("version", version))
    # What a row states is read once, however many rows are like it.
    stated = {
        name: {key: _value(f"models.{name}.{key}", key, value) for key, value in row.items()}
        for name, row in raw.items()
    }
    rows = {name: _row(name, _inherited(name, stated)) for name in stated}
    keys = {name: _key(name) for name in rows}
    by_key = {keys[name]: row for name, row in rows.items()}
    return _named(by_key, keys, aliases, guesses, version)


def _named(
    rows: Mapping[str, Model],
    keys: Mapping[str, str],
    aliases: Mapping[str, str],
    guesses: Mapping[str, str],
    version: str,
) -> ModelTable:
    """A table of rows by key, with other names of them; `keys`: those of the rows, by their names in the files."""
    for kind, names in (("aliases", aliases), ("guesses", guesses)):
        for name, row in names.items():
            _expect(f"{kind}.{name}", row, str, "must be a string")
            if row not in keys:
                raise InvalidPolicy(f"{kind}.{name}", row, "names no row")
    own = {*keys.values()}
    # Where a name without its date is a row's, only the whole name is another's.
    others = {
        _bare(name) if (key := _key(name)) in own else key: keys[row]
        for name, row in aliases.items()
    }
    return ModelTable(rows, others, {name: keys[row] for name, row in guesses.items()}, version)


def _table(section: Mapping[str, Any], name: str) -> dict[str, Any]:
    table = section.get(name, {})
    if not isinstance(table, dict):
        raise InvalidPolicy(name, table, "must be a table")
    return table


def _inherited(name: str, raw: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    chain: list[str] = []
    at: str | None = name
    while at is not None:
        if at not in raw or at in chain:
            raise InvalidPolicy(f"models.{chain[-1]}.like", at, "must name a row, without a cycle")
        chain.append(at)
        at = raw[at].get("like")
    values: dict[str, Any] = {}
    for link in reversed(chain):
        if "prices" in raw[link]:
            # Prices of long prompts belong to the prices in the same table.
            values.pop("long_context", None)
        values |= raw[link]
    values.pop("like", None)
    return values


_NEEDED: Final = ("provider", "context_window", "max_output_tokens", "family", "image", "cache")


def _row(name: str, values: Mapping[str, Any]) -> Model:
    for needed in _NEEDED:
        if needed not in values:
            raise InvalidPolicy(f"models.{name}.{needed}", None, "is missing: state it, or `like`")
    row = Model(name=name, **values)
    for key in ("context_window", "max_output_tokens"):
        if getattr(row, key) == 0:
            raise InvalidPolicy(f"models.{name}.{key}", 0, "must be positive")
    return row


def _value(place: str, key: str, value: Any) -> Any:
    if key in _STATED:
        return _READERS[_STATED[key]](place, value)
    from ullage.policy import nearest

    hint = nearest(key, [item.name for item in fields(Model)])
    raise InvalidPolicy(place, value, "is not a field of a model", hint=hint)


def _expect(place: str, value: Any, kind: type, limit: str) -> Any:
    if not isinstance(value, kind):
        raise InvalidPolicy(place, value, limit)
    return value


def _number(place: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise InvalidPolicy(place, value, "must be a whole number, 0 or more")
    return value


def _dollars(place: str, value: Any) -> decimal.Decimal:
    exact = decimal.Decimal
    number = exact(value if isinstance(value, int | exact) else "nan")
    if isinstance(value, bool) or not number.is_finite() or number < 0:
        raise InvalidPolicy(place, value, "must be a number of dollars, 0 or more")
    return number


def _list(read: Callable[[str, Any], Any], place: str, value: Any) -> tuple[Any, ...]:
    return tuple(read(place, item) for item in _expect(place, value, list, "must be a list"))


def _record(
    kind: Callable[..., Any],
    types: Mapping[str, Any],
    usual: Mapping[str, Any],
    place: str,
    value: Any,
) -> Any:
    """A table with a value for each name, or the usual one."""
    section = {**usual, **_expect(place, value, dict, "must be a table")}
    if section.keys() != types.keys():
        raise InvalidPolicy(place, sorted(section), f"must have {', '.join(types)}")
    return kind(**{key: _READERS[types[key]](f"{place}.{key}", section[key]) for key in types})


_CACHE: Final = {"min_tokens": "int", "ttl_seconds": "tuple[int, ...]", "breakpoints": "int"}
_PRICES: Final = {item.name: item.type for item in fields(Prices)}
_READERS: Final[Mapping[str, Callable[[str, Any], Any]]] = {
    "int": _number,
    "bool": partial(_expect, kind=bool, limit="must be true or false"),
    "str": partial(_expect, kind=str, limit="must be a string"),
    "tuple[str, ...]": partial(_list, partial(_expect, kind=str, limit="must be strings")),
    "tuple[int, ...]": partial(_list, _number),
    "decimal.Decimal": _dollars,
    "ImageRule": partial(_record, ImageRule, dict.fromkeys(ImageRule._fields, "int"), {}),
    "CacheRule": partial(_record, CacheRule, _CACHE, {}),
    "Prices | None": partial(_record, Prices, _PRICES, {"above_tokens": 0}),
}
"""How a value is read, by its type."""

_STATED: Final[Mapping[str, Any]] = {
    "like": "str",
    **{item.name: item.type for item in fields(Model) if item.name not in ("name", "known")},
}
"""What a row may state, with the type of the value."""


UNKNOWN_CONTEXT_WINDOW: Final = 200_000
"""Tokens; WIN-7. The smallest window among current models of the large vendors."""

UNKNOWN_MAX_OUTPUT: Final = 32_000
"""Tokens; WIN-7."""


LARGE_CONTEXT_WINDOW: Final = 1_000_000
"""Tokens; the window that `[1m]` after a name requests, as Claude Code writes it."""


class UnknownModelWarning(UserWarning):
    """No row of the table matches a model name; conservative defaults are used."""


class ModelTable(Frozen):
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
            InvalidPolicy: A file cannot be read; a value of the wrong type or sign, a key or a `like` that does not exist.
        """
        others = [document(pathlib.Path(path)) for path in paths]
        return _merged([_parsed(_builtin_text()), *others]) if others else _builtin()

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
            if (row := self._row(key)) is not None:
                return row
            row = self.find(key.removesuffix(_LARGE))
            if row is None or row.context_window >= LARGE_CONTEXT_WINDOW:
                return row
            return replace(row, context_window=LARGE_CONTEXT_WINDOW)
        return next(filter(None, map(self._row, _prefixes(key))), None)

    def _row(self, key: str) -> Model | None:
        return self.rows.get(self.aliases.get(key, key))

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
        # Python's own registry shows a warning once per place and text: once per name.
        named = f"no model is named {name!r}" if name else "no model is given"
        near = self.near(name) if name else ""
        warnings.warn(
            f"{named}: {UNKNOWN_CONTEXT_WINDOW:,} tokens of context and "
            f"{UNKNOWN_MAX_OUTPUT:,} of output are assumed{near and '; ' + near}",
            UnknownModelWarning,
            stacklevel=3,
        )
        return self._guess(name)

    def near(self, name: str) -> str:
        """A sentence with the known name that this one is nearly; empty if there is none."""
        from ullage.policy import nearest

        return nearest(_key(name), dict.fromkeys((*self.rows, *self.aliases)), cutoff=0.85)

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
        stated = {"context_window": context_window, "max_output_tokens": max_output_tokens}
        for what, tokens in stated.items():
            value: Any = tokens
            whole = isinstance(value, int) and not isinstance(value, bool)
            if value is not None and (not whole or value < 1):
                raise InvalidPolicy(what, tokens, "must be a number of tokens, at least 1")
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
        prefixes = (prefix for prefix in self.guesses if key.startswith(prefix))
        base = self.rows[self.guesses[max(prefixes, key=len)]]
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


def lookup(name: str) -> Model:
    """The built-in row for a model name; see `ModelTable.lookup`.

    Example:
        >>> lookup("claude-sonnet-4-5-20250929").max_output_tokens
        64000
    """
    return _builtin()._lookup(name)


# ---- names -----------------------------------------------------------------------------------

# Bedrock puts a region and a vendor before a name (`us.anthropic.claude-…`).
_PREFIX: Final = pattern(r"^(?:(?:us|eu|apac|jp|au|ca|global|us-gov)\.)?(?:[a-z0-9]+\.)?(?=[a-z])")
_SUFFIX: Final = pattern(
    r"(?:@[\w-]+|-v\d+(?::\d+)*(?::\w+)?|:[\w.-]+|-latest|-preview|-20\d{6}|-20\d\d-\d\d-\d\d|-\d\d-20\d\d|-\d\d-\d\d|-\d{4})$"
)
_SIZE: Final = pattern(r"-\d{1,4}(?:\.\d+)?(?:x\d+)?[bm]")
"""What names of open models say of their size: `llama-3.1-8b-instruct`."""

# Claude Code writes the long window into the name of the model.
_LARGE: Final = "[1m]"


def _bare(name: str) -> str:
    """A name without the folders before it."""
    return name.strip().lower().rsplit("/", 1)[-1]


def _key(name: str) -> str:
    """A name without provider, region, date and version."""
    key = _bare(name)
    large = _LARGE if key.endswith(_LARGE) else ""
    key = key.removesuffix(_LARGE)
    if "." in key and (prefix := _PREFIX.match(key)) and prefix.end():
        # Only vendor names come before a dot and a letter: `anthropic.claude`, not `gpt-5.4`.
        key = key[prefix.end() :]
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


class _BuiltinRows(Mapping[str, Model]):
    """The rows of `models.toml` by key, each read when it is asked for: most processes need one of 150, and all take 20 ms."""

    def __init__(self, sections: Iterable[str]) -> None:
        # A section begins after `[models.`.
        heads = ((text.partition("\n")[0], text) for text in sections)
        self._texts = {head.rpartition("]")[0].strip('"'): text for head, text in heads}
        self.keys_by_name = {name: _key(name) for name in self._texts}
        self._names = {key: name for name, key in self.keys_by_name.items()}
        self._rows: dict[str, Model] = {}

    def __getitem__(self, key: str) -> Model:
        if key not in self._rows:
            name, chain = self._names[key], dict[str, dict[str, Any]]()
            while name:
                chain |= _parsed(f"[models.{self._texts[name]}")["models"]
                name = chain[name].get("like", "")
            self._rows |= _merged([{"models": chain}]).rows
        return self._rows[key]

    def __iter__(self) -> Iterator[str]:
        if len(self._rows) < len(self._names):  # whoever wants all of them reads them at once
            self._rows = {**_merged([_parsed(_builtin_text())]).rows, **self._rows}
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._names)


def _builtin_text() -> str:
    return pathlib.Path(__file__).with_name("models.toml").read_text("utf-8")


@cache
def _builtin() -> ModelTable:
    models, begin, names = _builtin_text().partition("[aliases]\n")
    head, *sections = models.split("\n[models.")
    other, rows = _parsed(f"{head}\n{begin}{names}"), _BuiltinRows(sections)
    return _named(rows, rows.keys_by_name, other["aliases"], other["guesses"], other["version"])

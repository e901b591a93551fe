"""Rows of the model table, and their reader for TOML documents."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any, Final, NamedTuple

from ullage._late import decimal, pathlib
from ullage.exceptions import InvalidPolicy

__all__ = [
    "CacheRule",
    "ImageRule",
    "Model",
    "Prices",
    "Sections",
    "close_names",
    "document",
    "sections",
]


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Prices:
    """US dollars per million tokens. `above_tokens`: prompts above it cost these prices (long context)."""

    input: decimal.Decimal
    output: decimal.Decimal
    cache_write_5m: decimal.Decimal
    cache_write_1h: decimal.Decimal
    cache_read: decimal.Decimal
    above_tokens: int = 0

    def __repr__(self) -> str:
        return f"Prices(input=${self.input}, output=${self.output}, cache_read=${self.cache_read})"


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Model:
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
        known = "" if self.known else ", known=False"
        return f"Model({self.name!r}, window={self.context_window:,}{known})"

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
        InvalidPolicy: The file is not TOML.
        OSError: It cannot be read.
    """
    import tomllib  # slow to import, and many processes only import

    try:
        return tomllib.loads(path.read_text("utf-8"), parse_float=decimal.Decimal)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidPolicy("models", str(path), f"is not TOML: {error}") from error


class Sections(NamedTuple):
    """The parts of merged documents, by the names that stand in them."""

    rows: dict[str, Model]
    aliases: dict[str, str]
    guesses: dict[str, str]
    version: str


def sections(documents: Iterable[Mapping[str, Any]]) -> Sections:
    """Merges documents, later ones over earlier, and makes their rows.

    Raises:
        InvalidPolicy: A value of the wrong type or sign, a key or a `like` that does not exist.
    """
    raw: dict[str, dict[str, Any]] = {}
    aliases: dict[str, str] = {}
    guesses: dict[str, str] = {}
    version = ""
    for given in documents:
        _only_known(given)
        for name in _table(given, "models"):
            raw.setdefault(name, {}).update(_table(given["models"], name))
        aliases |= _table(given, "aliases")
        guesses |= _table(given, "guesses")
        version = str(given.get("version", version))
    rows = {name: _row(name, _inherited(name, raw)) for name in raw}
    for kind, names in (("aliases", aliases), ("guesses", guesses)):
        for name, row in names.items():
            _expect(f"{kind}.{name}", row, str, "must be a string")
            if row not in rows:
                raise InvalidPolicy(f"{kind}.{name}", row, "names no row")
    return Sections(rows, aliases, guesses, version)


_PARTS_OF_A_DOCUMENT: Final = ("models", "aliases", "guesses", "version")


def _only_known(given: Mapping[str, Any]) -> None:
    """Refuse unknown parts of a model file, which would have no effect."""
    for name in given:
        if name not in _PARTS_OF_A_DOCUMENT:
            near = close_names(name, _PARTS_OF_A_DOCUMENT, 1)
            hint = 'a row is a table [models."NAME"]' + (
                f"; did you mean {near[0]!r}?" if near else ""
            )
            limit = f"is not a part of a model file: {', '.join(_PARTS_OF_A_DOCUMENT)}"
            raise InvalidPolicy(name, type(given[name]).__name__, limit, hint=hint)


def _table(given: Mapping[str, Any], name: str) -> dict[str, Any]:
    found = given.get(name, {})
    if not isinstance(found, dict):
        raise InvalidPolicy(name, found, "must be a table")
    return found


def _inherited(name: str, raw: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    chain: list[str] = []
    at: str | None = name
    while at is not None:
        if at not in raw or at in chain:
            raise InvalidPolicy(f"models.{chain[-1]}.like", at, "must name a row, without a cycle")
        chain.append(at)
        at = raw[at].get("like")
        if at is not None:
            _expect(f"models.{chain[-1]}.like", at, str, "must be a string")
    values: dict[str, Any] = {}
    for link in reversed(chain):
        if "prices" in raw[link]:
            # Prices of long prompts belong to the prices in the same table.
            values.pop("long_context", None)
        values |= raw[link]
    values.pop("like", None)
    return values


_NUMBERS: Final = frozenset(item.name for item in fields(Model) if item.type == "int")
_FLAGS: Final = frozenset(item.name for item in fields(Model) if item.type == "bool")
_STRINGS: Final = frozenset({"provider", "family", "encoding"})
_NEEDED: Final = ("provider", "context_window", "max_output_tokens", "family", "image", "cache")


def _row(name: str, values: Mapping[str, Any]) -> Model:
    for needed in _NEEDED:
        if needed not in values:
            raise InvalidPolicy(f"models.{name}.{needed}", None, "is missing: state it, or `like`")
    read = {key: _value(f"models.{name}.{key}", key, value) for key, value in values.items()}
    row = Model(name=name, **read)
    for key in ("context_window", "max_output_tokens"):
        if getattr(row, key) == 0:
            raise InvalidPolicy(f"models.{name}.{key}", 0, "must be positive")
    return row


def _value(place: str, key: str, value: Any) -> Any:
    if key in _NUMBERS:
        return _number(place, value)
    if key in _FLAGS and key != "known":
        return _expect(place, value, bool, "must be true or false")
    if key in _STRINGS:
        return _expect(place, value, str, "must be a string")
    if key == "thinking":
        return tuple(_expect(place, item, str, "must be strings") for item in _list(place, value))
    reader = _PARTS.get(key)
    if reader is None:
        near = close_names(key, [item.name for item in fields(Model)], 1)
        hint = f"did you mean {near[0]!r}?" if near else ""
        raise InvalidPolicy(place, value, "is not a field of a model", hint=hint)
    return reader(place, _expect(place, value, dict, "must be a table"))


def _expect(place: str, value: Any, kind: type, limit: str) -> Any:
    if not isinstance(value, kind):
        raise InvalidPolicy(place, value, limit)
    return value


def _number(place: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise InvalidPolicy(place, value, "must be a whole number, 0 or more")
    return value


def _list(place: str, value: Any) -> list[Any]:
    return list(_expect(place, value, list, "must be a list"))


def _exactly(place: str, given: Mapping[str, Any], names: Iterable[str]) -> None:
    if given.keys() != set(names):
        raise InvalidPolicy(place, sorted(given), f"must have {', '.join(names)}")


def _image(place: str, given: Mapping[str, Any]) -> ImageRule:
    _exactly(place, given, ImageRule._fields)
    return ImageRule(**{name: _number(f"{place}.{name}", value) for name, value in given.items()})


def _cache(place: str, given: Mapping[str, Any]) -> CacheRule:
    _exactly(place, given, CacheRule._fields)
    seconds = _list(f"{place}.ttl_seconds", given["ttl_seconds"])
    return CacheRule(
        _number(f"{place}.min_tokens", given["min_tokens"]),
        tuple(_number(f"{place}.ttl_seconds", value) for value in seconds),
        _number(f"{place}.breakpoints", given["breakpoints"]),
    )


def _prices(place: str, given: Mapping[str, Any]) -> Prices:
    names = [item.name for item in fields(Prices) if item.type == "decimal.Decimal"]
    _exactly(place, {**given, "above_tokens": 0}, [*names, "above_tokens"])
    above = _number(f"{place}.above_tokens", given.get("above_tokens", 0))
    dollars = {name: _dollars(f"{place}.{name}", given[name]) for name in names}
    return Prices(**dollars, above_tokens=above)


def _dollars(place: str, value: Any) -> decimal.Decimal:
    exact = decimal.Decimal
    number = exact(value if isinstance(value, int | exact) else "nan")
    if isinstance(value, bool) or not number.is_finite() or number < 0:
        raise InvalidPolicy(place, value, "must be a number of dollars, 0 or more")
    return number


_PARTS: Final = {"image": _image, "cache": _cache, "prices": _prices, "long_context": _prices}


def close_names(name: str, known: Iterable[str], most: int, *, cutoff: float = 0.6) -> list[str]:
    """The known names that are most like this one, at most so many; `cutoff`: how like, from 0 to 1."""
    from difflib import get_close_matches  # rarely needed, and slow to import

    return get_close_matches(name, list(known), most, cutoff)

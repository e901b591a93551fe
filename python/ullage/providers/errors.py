"""Tells what a provider's error, or a suspicious success, means for the conversation.

The texts are data (`errors.toml`); this module reads what came back, and decides. Vetoes go first: a throttled request is never
taken for a full window.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import date
from functools import cache
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, TypeAlias, cast, get_args

from ullage._start import Frozen, pattern
from ullage.exceptions import InvalidPolicy
from ullage.providers.registry import AnyProvider, provider_of

# Collects what an error or a response says, by duck typing: no SDK is imported.
#
# Every reader here answers with less rather than raise: it runs in the middle of error handling.


_MAX_TEXT = 20_000
"""Characters of one text that are looked at: an error names its reason early, an echo of the prompt
does not get to choose the class."""

# A gateway wraps the error of the server that it calls two or three times; what is deeper is an echo of the request.
_MAX_DEPTH = 8
_MAX_CHAIN = 6
"""Links of `__cause__` that are followed: frameworks wrap an SDK's error two or three times."""

_ESCAPE = pattern(r"\\+u(?![dD][89a-fA-F])([0-9a-fA-F]{4})")
"""A character as JSON escapes it, half a pair excepted."""
_LEADING_STATUS = pattern(
    r"^\W*(?:error code:?|http(?:/[\d.]+)?(?: error)?:?|status(?:[ _]code)?:?|<title>)?"
    r"\s*([45]\d\d)\b",
    re.IGNORECASE,
)
_INNER_STATUS = pattern(
    r"(?:\bhttp(?:/[\d.]+)? ?|\bstatus(?:[ _]?code)?\W{1,4}|\berror code:? "
    r"|[\"']code[\"']\s*:\s*|<title>\s*)([45]\d\d)\b",
    re.IGNORECASE,
)
_RESPONSE_KEYS = (
    "choices candidates output stop_reason stopReason content delta usage usageMetadata "
    "prompt_eval_count"
).split()
_MESSAGE_KEYS = "message msg detail error error_description Error Message title".split()
_STATUS_KEYS = "status_code status http_status code statusCode HTTPStatusCode".split()


class Evidence(NamedTuple):
    """What was found."""

    status: int | None = None
    texts: tuple[str, ...] = ()  # one line each, the most telling first; empty for a success
    headers: Mapping[str, str] = {}  # by their names in lower case
    response: Any = None  # the successful response or its body
    origin: str = ""  # top-level package of the exception's class, such as `anthropic`


def get(value: Any, key: str) -> Any:
    """A key of a mapping or an attribute of an object; `None` if it has neither or raises."""
    try:
        if isinstance(value, Mapping):
            return value.get(key)
        return getattr(value, key, None)
    except Exception:  # a foreign property may raise anything, such as httpx.ResponseNotRead
        return None


def gather(source: Any) -> Evidence:
    """Reads an exception, response, pair, event, body or text."""
    if isinstance(source, tuple) and len(source) >= 2 and _status(source[0]) is not None:
        headers = _headers(source[2]) if len(source) > 2 else {}
        return _from_body(source[1], _status(source[0]), headers)
    if isinstance(source, BaseException):
        return _from_exception(source)
    if source is None or isinstance(source, str | bytes | bytearray | Mapping):
        return _from_body(source, None, {})
    return _from_object(source)


def _from_body(body: Any, status: int | None, headers: Mapping[str, str]) -> Evidence:
    """A body as a mapping or a text; anything else is read as text."""
    if body is None:
        return Evidence(status=status, headers=headers)
    if not isinstance(body, Mapping):
        text = _decode(body) if isinstance(body, str | bytes | bytearray) else str(body)
        stripped = text.strip()
        body = _parsed(stripped) if stripped.startswith("{") else None
        if not isinstance(body, Mapping):
            if status is None:
                status = _status_in(stripped)
            elif status < 400:
                return Evidence(status=status, headers=headers)
            return Evidence(status=status, texts=_normalised([text]), headers=headers)
    inner = body.get("response")
    if isinstance(inner, Mapping) and str(body.get("type")).startswith("response."):
        return _from_body(inner, status, headers)
    error = _error_in(body)
    failed = status is not None and status >= 400
    answers = status is not None or any(key in body for key in _RESPONSE_KEYS)
    if error is None and not failed and answers:
        return Evidence(status=status, headers=headers, response=body)
    fields = body if error is None else error
    if status is None or status < 400:
        status = _status_of(fields) or _status_of(body) or status
    return Evidence(status=status, texts=_normalised(_texts(fields)), headers=headers)


def _error_in(body: Mapping[str, Any]) -> Any:
    """The part of a body that reports an error, or `None` if it reports none."""
    for key in ("error", "Error", "errors"):
        if body.get(key):
            return body
    if body.get("isApiErrorMessage"):
        return get(body, "message") or body
    choices = body.get("choices")
    if isinstance(choices, list):
        return next((choice for choice in choices if get(choice, "error")), None)
    named = body.get("type") == "error" or "__type" in body or "error_code" in body
    return body if named else None


def _from_exception(error: BaseException) -> Evidence:
    texts: list[str] = []
    status: int | None = None
    headers: dict[str, str] = {}
    for link in _chain(error):
        texts.extend(_exception_texts(link))
        response = get(link, "response")
        metadata = get(response, "ResponseMetadata")
        if status is None:
            places = (link, response, metadata, get(link, "body"))
            statuses = map(_status_of, places)
            status = next((one for one in statuses if one is not None), None)
        if not headers:
            named = (
                get(response, "headers"),
                get(metadata, "HTTPHeaders"),
                get(link, "headers"),
                get(link, "litellm_response_headers"),
            )
            headers = next(filter(None, map(_headers, named)), {})
    if status is None and texts:
        status = _status_in(texts[0])
    origin = type(error).__module__.partition(".")[0]
    return Evidence(status=status, texts=_normalised(texts), headers=headers, origin=origin)


def _chain(error: BaseException) -> Iterator[BaseException]:
    seen: set[int] = set()
    link: BaseException | None = error
    while link is not None and id(link) not in seen and len(seen) < _MAX_CHAIN:
        seen.add(id(link))
        yield link
        if isinstance(link, BaseExceptionGroup):
            yield from link.exceptions[:_MAX_CHAIN]
        link = link.__cause__ or (None if link.__suppress_context__ else link.__context__)


def _exception_texts(error: BaseException) -> Iterator[str]:
    for name in ("message", "body", "details", "response"):
        yield from _texts(get(error, name))
    yield from _texts([get(error, "code"), get(error, "type")])
    try:
        yield str(error)
    except Exception:  # a broken __str__ must not hide the rest
        return


def _from_object(source: Any) -> Evidence:
    """An HTTP response (httpx, requests, aiohttp), an SDK's result or event, or a stray object."""
    status, text = _status_of(source), get(source, "text")
    if status is not None and (get(source, "headers") is not None or text is not None):
        content = get(source, "content")
        body = text if isinstance(text, str) else content if isinstance(content, bytes) else ""
        return _from_body(body, status, _headers(get(source, "headers")))
    nested = get(source, "error") or get(get(source, "response"), "error")
    if nested:
        return Evidence(status=_status_of(nested), texts=_normalised(_texts(nested)))
    if any(get(source, key) is not None for key in _RESPONSE_KEYS):
        return Evidence(response=source)
    return Evidence(status=status, texts=_normalised(_texts(get(source, "message"))))


def _texts(value: Any, depth: int = 0) -> Iterator[str]:
    """Strings that a body says, its messages first, then the whole as compact JSON."""
    if isinstance(value, str | bytes | bytearray):
        text = _decode(value)
        yield text
        if depth < _MAX_DEPTH and text.lstrip().startswith("{"):
            yield from _texts(_parsed(text), depth + 1)
        return
    if isinstance(value, Mapping):
        for key in _MESSAGE_KEYS:
            if depth < _MAX_DEPTH:
                yield from _texts(value.get(key), depth + 1)
        yield from _texts(value.get("content"), depth + 1) if depth == 0 else ()
        if depth == 0:
            with suppress(TypeError, ValueError, RecursionError):
                yield json.dumps(value, ensure_ascii=False, default=repr)
    elif isinstance(value, list | tuple) and depth < _MAX_DEPTH:
        for item in value[:16]:
            yield from _texts(get(item, "text") if get(item, "type") == "text" else item, depth + 1)
    elif value is not None and depth == 0 and hasattr(value, "__dict__"):
        yield from _texts({key: get(value, key) for key in ("message", "code", "type")}, 1)
        yield " ".join(str(get(value, key)) for key in ("code", "type"))


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _decode(value: str | bytes | bytearray) -> str:
    return value if isinstance(value, str) else bytes(value).decode("utf-8", "replace")


def _normalised(texts: Iterable[str]) -> tuple[str, ...]:
    """One line each, in order and without repeats; escapes of embedded JSON and HTML resolved."""
    return tuple(filter(None, dict.fromkeys(map(_line, texts))))


def _line(text: str) -> str:
    text = text[:_MAX_TEXT]
    if "\\" in text:
        text = _ESCAPE.sub(lambda hit: chr(int(hit[1], 16)), text)
        text = re.sub(r"\\+[nrt]", " ", text)
        text = re.sub(r"\\+([\"'/`])", r"\1", text)
    if "&" in text:
        import html

        text = html.unescape(text)
    text = text.translate({0x2018: "'", 0x2019: "'", 0xA0: " "})
    return " ".join(text.split())


def _status(value: Any) -> int | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) == 3:
        value = int(value)
    return value if isinstance(value, int) and 100 <= value <= 599 else None


def _status_of(value: Any) -> int | None:
    """The HTTP status that an object or a body names, also one level down in its `error`."""
    if value is None or isinstance(value, str | bytes):
        return None
    for key in _STATUS_KEYS:
        status = _status(get(value, key))
        if status is not None:
            return int(status)
    inner = get(value, "error")
    return _status_of(inner) if isinstance(inner, Mapping) else None


def _status_in(text: str) -> int | None:
    hit = _LEADING_STATUS.match(text) or _INNER_STATUS.search(text[:_MAX_TEXT])
    return int(hit[1]) if hit else None


def _headers(value: Any) -> dict[str, str]:
    try:
        return {str(name).lower(): str(item) for name, item in dict(value or {}).items()}
    except (TypeError, ValueError):
        return {}


_WAIT = pattern(
    r"(?:try again|retry|retrydelay|retry_after|retry-after)\W{1,4}(?:in |after )?"
    r"(?:(?P<minutes>\d+)m(?!s))?(?P<value>\d+(?:\.\d+)?)\s?(?P<unit>ms|s|sec|seconds)?\b",
    re.IGNORECASE,
)


def retry_after(evidence: Evidence) -> float | None:
    """Seconds to wait, from the headers or from the text; `None` if neither says."""
    milliseconds = _number(evidence.headers.get("retry-after-ms"))
    if milliseconds is not None:
        return milliseconds / 1000
    header = evidence.headers.get("retry-after")
    if header:
        seconds = _number(header)
        return seconds if seconds is not None else _until(header, evidence.headers.get("date"))
    for text in evidence.texts:
        if (hit := _WAIT.search(text)) is not None:
            value = float(hit["value"]) / (1000 if (hit["unit"] or "").lower() == "ms" else 1)
            return value + 60 * int(hit["minutes"] or 0)
    return None


def _number(text: str | None) -> float | None:
    try:
        value = float(text) if text else None
    except ValueError:
        return None
    return value if value is not None and 0 <= value < 1e9 else None


def _until(moment: str, now: str | None) -> float | None:
    """A date counts only against the server's own clock: the answer depends on nothing else."""
    from email.utils import parsedate_to_datetime

    try:
        gap = parsedate_to_datetime(moment) - parsedate_to_datetime(now or "")
    except (TypeError, ValueError):
        return None
    return max(0.0, gap.total_seconds())


# Wordings of providers' errors: what a row is, and how a TOML file becomes rows. The data is `errors.toml`.


ErrorKind: TypeAlias = Literal[
    "overflow_tokens",
    "overflow_bytes",
    "silent_overflow",
    "output_budget",
    "thinking_binding",
    "tool_pairing",
    "malformed_history",
    "rate_limit",
    "overloaded",
    "auth",
    "none",
    "unknown",
]

_FIGURE: Final = r"\d[\d,_]*"
"""A figure as messages write it; `{N}` in a pattern."""


class ErrorRow(NamedTuple):
    """One wording: what it means, who says it, how it looks."""

    name: str
    kind: ErrorKind
    provider: str
    pattern: re.Pattern[str]


class ErrorTable(NamedTuple):
    """The rows of a file in their order, vetoes apart; packages that speak to one provider only."""

    vetoes: tuple[ErrorRow, ...]
    rows: tuple[ErrorRow, ...]
    packages: Mapping[str, str]


def built_in() -> ErrorTable:
    """The wordings that come with the library."""
    return read_errors(str(Path(__file__).with_name("errors.toml")))


@cache
def read_errors(path: str) -> ErrorTable:
    """A file of the form of `errors.toml`, read once in a process; `InvalidPolicy` names the place of what is not of the form."""
    text = Path(path).read_text(encoding="utf-8")
    return parsed(text, Path(path).name)


def parsed(text: str, name: str) -> ErrorTable:
    """The table that a TOML text holds; `name` is what errors call the file."""
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as exc:
        raise InvalidPolicy(name, str(exc), "must be TOML") from exc
    vetoes: list[ErrorRow] = []
    rows: list[ErrorRow] = []
    for at, group in enumerate(document.get("groups", [])):
        listed = vetoes if group.get("veto") else rows
        listed.extend(_rows(group, f"{name}: groups[{at}]"))
    return ErrorTable(tuple(vetoes), tuple(rows), document.get("packages", {}))


def _rows(group: Mapping[str, object], place: str) -> Iterator[ErrorRow]:
    absent = sorted({"name", "source", "read", "rows"} - group.keys())
    if absent or not isinstance(group["read"], date) or not group["source"]:
        limit = "must have name, source (text), read (the date when it was looked at) and rows"
        raise InvalidPolicy(place, ", ".join(absent) or group.get("read"), limit)
    for number, row in enumerate(cast("list[object]", group["rows"])):
        here = f"{place}.rows[{number}]"
        if not isinstance(row, list) or len(row) != 4 or not all(isinstance(x, str) for x in row):
            raise InvalidPolicy(here, row, "must be [name, kind, provider, pattern], all text")
        name, kind, provider, text = row
        if kind not in get_args(ErrorKind):
            raise InvalidPolicy(here, kind, f"must be one of {', '.join(get_args(ErrorKind))}")
        try:
            compiled = re.compile(text.replace("{N}", _FIGURE), re.IGNORECASE)
        except re.error as exc:
            raise InvalidPolicy(here, text, f"must be a regular expression ({exc})") from exc
        yield ErrorRow(name, kind, provider, compiled)


_OVERFLOWS = frozenset({"overflow_tokens", "overflow_bytes", "silent_overflow"})

_SMALLEST_WINDOW = 512
"""A smaller figure in an error is no window of any model: it is not learned."""

# A hundred times the largest window there is; a larger figure is an id or a time stamp.
_LARGEST_WINDOW = 1_000_000_000


class Classified(Frozen):
    """What an answer means.

    Attributes:
        kind: `overflow_tokens` and `overflow_bytes`: refused, too much. `silent_overflow`:
            accepted, but cut. `output_budget`: prompt and asked-for output together are too much, or
            the output alone is. `thinking_binding`: signed reasoning no longer fits its place.
            `tool_pairing`, `malformed_history`: the messages break a rule. `rate_limit`,
            `overloaded`, `auth`: not about the messages. `none`: no error. `unknown`: an error that
            no row knows.
        used_tokens: Tokens of the prompt as the provider counted them; `None` if it did not say.
        limit_tokens: The window it named; `None` if it named none.
        gap_tokens: By how much the request was too large; `None` if unknown.
        provider: Whose wording it is; empty if many share it.
        matched: Name of the row, or `status` or `usage`; empty if nothing matched.
        retry_after_seconds: What the provider asks to wait; `None` if it does not say.
        learned_limit: `limit_tokens` where it may be remembered as the model's window; else `None`.
        output_tokens: Output that was asked for, where the error repeats it.
        output_limit_tokens: The model's maximum output, where that was exceeded.
        status: HTTP status, or `None`.
    """

    kind: ErrorKind
    used_tokens: int | None = None
    limit_tokens: int | None = None
    gap_tokens: int | None = None
    provider: str = ""
    matched: str = ""
    retry_after_seconds: float | None = None
    learned_limit: int | None = None
    output_tokens: int | None = None
    output_limit_tokens: int | None = None
    status: int | None = None

    @property
    def is_overflow(self) -> bool:
        """Whether making room in the conversation would help."""
        if self.kind == "output_budget":
            return self.output_limit_tokens is None
        return self.kind in _OVERFLOWS

    def __repr__(self) -> str:
        shown = {
            "used": self.used_tokens,
            "limit": self.limit_tokens,
            "gap": self.gap_tokens,
            "by": self.matched or None,
            "status": self.status,
        }
        fields = (f"{name}={value}" for name, value in shown.items() if value is not None)
        return f"Classified({', '.join((self.kind, *fields))})"


def classify(
    error_or_response: object,
    *,
    model: str | None = None,
    window_tokens: int | None = None,
    provider: AnyProvider | None = None,
) -> Classified:
    """Says what an error, or a response, means for the conversation.

    Never raises and imports no SDK: exceptions, HTTP responses, `(status, body)` or
    `(status, body, headers)` tuples, texts, bodies, stream events and successful responses are
    read by what they look like.

    Args:
        error_or_response: What came back. `None` counts as no error.
        model: The model that was asked. A limit in an answer that names another is not learned.
        window_tokens: The model's context window. With it, a successful response whose usage is
            larger is a `silent_overflow`. `None`: not checked.
        provider: Who was asked, where its row names wordings of its own; they are tried first. `None`: the common ones.

    Returns:
        The class with the figures that the answer names.

    Example:
        >>> classify("prompt is too long: 213462 tokens > 200000 maximum").gap_tokens
        13462
    """
    evidence = gather(error_or_response)
    if evidence.response is not None:
        return _of_response(evidence, window_tokens)
    if not evidence.texts and (evidence.status is None or evidence.status < 400):
        return Classified("none" if error_or_response is None or evidence.status else "unknown")
    own = "" if provider is None else provider_of(provider).errors
    tables = [*([read_errors(own)] if own else ()), built_in()]
    hit = _search([row for table in tables for row in table.vetoes], evidence)
    if hit is None and evidence.status not in (429, 529):  # which decide by themselves
        hit = _search([row for table in tables for row in table.rows], evidence)
    classified = _by_status(evidence) if hit is None else _from_hit(*hit, evidence)
    other = _other_model(get(error_or_response, "model"), model)
    return replace(classified, learned_limit=None) if other else classified


_STATUS_KINDS: dict[int, ErrorKind] = {
    **dict.fromkeys((401, 402, 403), "auth"),
    413: "overflow_bytes",
    429: "rate_limit",
    **dict.fromkeys((502, 503, 504, 529), "overloaded"),
}


def _by_status(evidence: Evidence) -> Classified:
    kind = _STATUS_KINDS.get(evidence.status or 0, "unknown")
    return Classified(
        kind,
        matched="" if kind == "unknown" else "status",
        retry_after_seconds=retry_after(evidence),
        provider=_known_origin(evidence.origin),
        status=evidence.status,
    )


def _search(rows: Sequence[ErrorRow], evidence: Evidence) -> tuple[ErrorRow, re.Match[str]] | None:
    """The first row that matches, and of its matches the one that tells most figures."""
    for row in rows:
        hits = [hit for text in evidence.texts if (hit := row.pattern.search(text)) is not None]
        if hits:
            return row, max(hits, key=_stated_tokens)
    return None


def _stated_tokens(hit: re.Match[str]) -> int:
    return sum(figure is not None for figure in hit.groupdict().values())


def _from_hit(row: ErrorRow, hit: re.Match[str], evidence: Evidence) -> Classified:
    figures = {
        name: int(text.replace(",", "").replace("_", ""))
        for name, text in hit.groupdict().items()
        if text
    }
    used, limit, output = (figures.get(name) for name in ("used", "limit", "output"))
    budget, kind = row.kind == "output_budget", row.kind
    if budget and used is not None and limit is not None and used >= limit:
        # Where the prompt alone already is too much, no smaller output would help.
        kind = "overflow_tokens"
    plausible = limit is not None and _SMALLEST_WINDOW <= limit <= _LARGEST_WINDOW
    return Classified(
        kind,
        used_tokens=used,
        limit_tokens=limit,
        gap_tokens=figures.get("gap") or _gap(used, output if budget else None, limit),
        provider=row.provider or _known_origin(evidence.origin),
        matched=row.name,
        retry_after_seconds=retry_after(evidence),
        learned_limit=limit if plausible else None,
        output_tokens=output,
        output_limit_tokens=figures.get("cap"),
        status=evidence.status,
    )


def _gap(used: int | None, output: int | None, limit: int | None) -> int | None:
    if used is None or limit is None:
        return None
    gap = used + (output or 0) - limit
    return gap if gap > 0 else None


def _known_origin(origin: str) -> str:
    return built_in().packages.get(origin, "")


def _other_model(named: Any, model: str | None) -> bool:
    """Whether the answer names a model that is not ours; dated snapshots of one name are one."""
    if model is None or not isinstance(named, str) or not named:
        return False
    ours, theirs = (name.rpartition("/")[2].lower() for name in (model, named))
    return not (ours.startswith(theirs) or theirs.startswith(ours))


# ---- successes that are none ---------------------------------------------------------------------

_WINDOW_STOP = "model_context_window_exceeded"


def _of_response(evidence: Evidence, window_tokens: int | None) -> Classified:
    body, usage, matched = evidence.response, _usage(evidence.response), ""
    used = _first_count(usage, _PROMPT_KEYS)
    if used is not None:
        used += sum(_count(get(usage, key)) or 0 for key in _CACHE_KEYS)
    reason = _stop_reason(body)
    if reason == _WINDOW_STOP:
        matched = "stop_reason"
    elif reason == "length" and _first_count(usage, _OUTPUT_KEYS) == 0:
        matched = "empty_length_stop"
    elif window_tokens is not None and used is not None:
        # Ollama cuts the prompt to exactly its window and says nothing: there the rim is too much.
        cuts = get(body, "prompt_eval_count") is not None
        if used > window_tokens or (cuts and used == window_tokens):
            matched = "usage"
    if not matched:
        return Classified("none", used_tokens=used, status=evidence.status)
    return Classified(
        "silent_overflow",
        used_tokens=used,
        limit_tokens=window_tokens,
        gap_tokens=_gap(used, None, window_tokens),
        matched=matched,
        status=evidence.status,
    )


def _stop_reason(body: Any) -> str:
    choice = _first(get(body, "choices")) or _first(get(body, "candidates"))
    for place, key in (
        (body, "stop_reason"),
        (body, "stopReason"),
        (choice, "native_finish_reason"),
        (choice, "finish_reason"),
        (choice, "finishReason"),
        (body, "done_reason"),
        (get(body, "delta"), "stop_reason"),
    ):
        reason = get(place, key)
        if reason == _WINDOW_STOP or (isinstance(reason, str) and "native" not in key):
            return str(reason).lower()
    return ""


def _first(value: Any) -> Any:
    return value[0] if isinstance(value, list | tuple) and value else None


_PROMPT_KEYS = (
    "input_tokens prompt_tokens inputTokens promptTokenCount prompt_token_count prompt_eval_count"
).split()
_OUTPUT_KEYS = (
    "output_tokens completion_tokens outputTokens candidatesTokenCount eval_count"
).split()
_CACHE_KEYS = (
    "cache_read_input_tokens cache_creation_input_tokens cacheReadInputTokens cacheWriteInputTokens"
).split()


def _usage(body: Any) -> Any:
    usage = get(body, "usage") or get(body, "usageMetadata") or get(body, "usage_metadata") or body
    iterations = get(usage, "iterations")
    if isinstance(iterations, list | tuple):
        # Compaction passes are billed apart; the last message pass says how full the window was.
        messages = [one for one in iterations if get(one, "type") == "message"]
        return messages[-1] if messages else usage
    return usage


def _first_count(usage: Any, keys: Iterable[str]) -> int | None:
    counts = (_count(get(usage, key)) for key in keys)
    return next((count for count in counts if count is not None), None)


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None

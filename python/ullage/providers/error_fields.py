"""Collects what an error or a response says, by duck typing: no SDK is imported.

Every reader here answers with less rather than raise: it runs in the middle of error handling.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

__all__ = ["Evidence", "gather", "get"]

_MAX_TEXT = 20_000
"""Characters of one text that are looked at: an error names its reason early, an echo of the prompt
does not get to choose the class."""

_MAX_DEPTH = 8
_MAX_CHAIN = 6
"""Links of `__cause__` that are followed: frameworks wrap an SDK's error two or three times."""

_ESCAPE = re.compile(r"\\+u(?![dD][89a-fA-F])([0-9a-fA-F]{4})")
"""A character as JSON escapes it, half a pair excepted."""
_LEADING_STATUS = re.compile(
    r"^\W*(?:error code:?|http(?:/[\d.]+)?(?: error)?:?|status(?:[ _]code)?:?|<title>)?"
    r"\s*([45]\d\d)\b",
    re.IGNORECASE,
)
_INNER_STATUS = re.compile(
    r"(?:\bhttp(?:/[\d.]+)? ?|\bstatus(?:[ _]?code)?\W{1,4}|\berror code:? "
    r"|[\"']code[\"']\s*:\s*|<title>\s*)([45]\d\d)\b",
    re.IGNORECASE,
)
_RESPONSE_KEYS = (
    "choices",
    "candidates",
    "output",
    "stop_reason",
    "stopReason",
    "content",
    "delta",
    "usage",
    "usageMetadata",
    "prompt_eval_count",
)
_MESSAGE_KEYS = (
    "message",
    "msg",
    "detail",
    "error",
    "error_description",
    "Error",
    "Message",
    "title",
)
_STATUS_KEYS = ("status_code", "status", "http_status", "code", "statusCode", "HTTPStatusCode")


@dataclass(frozen=True, slots=True)
class Evidence:
    """What was found.

    Attributes:
        status: HTTP status, or `None`.
        texts: Normalised lines, most telling first; empty for a success.
        headers: Lower-case names.
        response: The successful response or its body, or `None` for an error.
        origin: Top-level package of the exception's class, such as `anthropic`; else empty.
    """

    status: int | None = None
    texts: tuple[str, ...] = ()
    headers: Mapping[str, str] = field(default_factory=dict)
    response: Any = None
    origin: str = ""


def get(value: Any, key: str) -> Any:
    """A key of a mapping or an attribute of an object; `None` if it has neither or raises."""
    try:
        if isinstance(value, Mapping):
            return value.get(key)
        return getattr(value, key, None)
    except (
        Exception
    ):  # a property of a foreign class may raise anything, such as httpx.ResponseNotRead
        return None


def gather(source: Any) -> Evidence:
    """Reads an exception, response, pair, event, body or text."""
    if source is None:
        return Evidence()
    if isinstance(source, tuple) and len(source) >= 2 and _status(source[0]) is not None:
        return _from_pair(source)
    if isinstance(source, BaseException):
        return _from_exception(source)
    if isinstance(source, str | bytes | bytearray):
        return _from_text(_decode(source), None, {})
    if isinstance(source, Mapping):
        return _from_body(source, None, {})
    return _from_object(source)


def _from_pair(pair: tuple[Any, ...]) -> Evidence:
    headers = _headers(pair[2]) if len(pair) > 2 else {}
    return _from_any(pair[1], _status(pair[0]), headers)


def _from_any(body: Any, status: int | None, headers: Mapping[str, str]) -> Evidence:
    if isinstance(body, str | bytes | bytearray):
        return _from_text(_decode(body), status, headers)
    if isinstance(body, Mapping):
        return _from_body(body, status, headers)
    if body is None:
        return Evidence(status=status, headers=headers)
    return _from_text(str(body), status, headers)


def _from_text(text: str, status: int | None, headers: Mapping[str, str]) -> Evidence:
    stripped = text.strip()
    if stripped.startswith("{"):
        body = _parsed(stripped)
        if isinstance(body, Mapping):
            return _from_body(body, status, headers)
    if status is None:
        status = _status_in(stripped)
    elif status < 400:
        return Evidence(status=status, headers=headers)
    return Evidence(status=status, texts=_normalised([text]), headers=headers)


def _from_body(body: Mapping[str, Any], status: int | None, headers: Mapping[str, str]) -> Evidence:
    inner = body.get("response")
    if isinstance(inner, Mapping) and str(body.get("type")).startswith("response."):
        return _from_body(inner, status, headers)
    found = _error_in(body)
    failed = status is not None and status >= 400
    if (
        found is None
        and not failed
        and (status is not None or any(key in body for key in _RESPONSE_KEYS))
    ):
        return Evidence(status=status, headers=headers, response=body)
    told = body if found is None else found
    if status is None or status < 400:
        status = _status_of(told) or _status_of(body) or status
    return Evidence(status=status, texts=_normalised(_texts(told)), headers=headers)


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
    chain = list(_chain(error))
    texts: list[str] = []
    status: int | None = None
    headers: dict[str, str] = {}
    for link in chain:
        texts.extend(_exception_texts(link))
        status = status if status is not None else _exception_status(link)
        headers = headers or _exception_headers(link)
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


def _exception_status(error: BaseException) -> int | None:
    response = get(error, "response")
    places = (error, response, get(response, "ResponseMetadata"), get(error, "body"))
    return next((status for place in places if (status := _status_of(place)) is not None), None)


def _exception_headers(error: BaseException) -> dict[str, str]:
    response = get(error, "response")
    for value in (
        get(response, "headers"),
        get(get(response, "ResponseMetadata"), "HTTPHeaders"),
        get(error, "headers"),
        get(error, "litellm_response_headers"),
    ):
        if headers := _headers(value):
            return headers
    return {}


def _from_object(source: Any) -> Evidence:
    """An HTTP response (httpx, requests, aiohttp), an SDK's result or event, or a stray object."""
    status = _status_of(source)
    if status is not None and (
        get(source, "headers") is not None or get(source, "text") is not None
    ):
        return _from_any(_http_body(source), status, _headers(get(source, "headers")))
    nested = get(source, "error") or get(get(source, "response"), "error")
    if nested:
        return Evidence(status=_status_of(nested), texts=_normalised(_texts(nested)))
    if any(get(source, key) is not None for key in _RESPONSE_KEYS):
        return Evidence(response=source)
    return Evidence(status=status, texts=_normalised(_texts(get(source, "message"))))


def _http_body(response: Any) -> Any:
    text = get(response, "text")
    if isinstance(text, str):
        return text
    return get(response, "content") if isinstance(get(response, "content"), bytes) else ""


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
            yield _dumped(value)
    elif isinstance(value, list | tuple) and depth < _MAX_DEPTH:
        for item in value[:16]:
            yield from _texts(get(item, "text") if get(item, "type") == "text" else item, depth + 1)
    elif value is not None and depth == 0 and hasattr(value, "__dict__"):
        yield from _texts({key: get(value, key) for key in ("message", "code", "type")}, 1)
        yield " ".join(str(get(value, key)) for key in ("code", "type"))


def _dumped(value: Mapping[str, Any]) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, default=repr)
    except (TypeError, ValueError, RecursionError):
        return ""


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _decode(value: str | bytes | bytearray) -> str:
    return value if isinstance(value, str) else bytes(value).decode("utf-8", "replace")


def _normalised(texts: Any) -> tuple[str, ...]:
    """One line each, in order and without repeats; escapes of embedded JSON and HTML resolved."""
    seen: dict[str, None] = {}
    for text in texts:
        line = _line(text)
        if line:
            seen.setdefault(line)
    return tuple(seen)


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


_WAIT = re.compile(
    r"(?:try again|retry|retrydelay|retry_after|retry-after)\W{1,4}(?:in |after )?"
    r"(?:(?P<minutes>\d+)m(?!s))?(?P<value>\d+(?:\.\d+)?)\s?(?P<unit>ms|s|sec|seconds)?\b",
    re.IGNORECASE,
)


def retry_after(evidence: Evidence) -> float | None:
    """Seconds to wait, from the headers or from the text; `None` if neither says."""
    milliseconds = _number(evidence.headers.get("retry-after-ms"))
    if milliseconds is not None:
        return milliseconds / 1000
    told = evidence.headers.get("retry-after")
    if told:
        seconds = _number(told)
        return seconds if seconds is not None else _until(told, evidence.headers.get("date"))
    return next((wait for text in evidence.texts if (wait := _told_wait(text)) is not None), None)


def _told_wait(text: str) -> float | None:
    hit = _WAIT.search(text)
    if hit is None:
        return None
    value = float(hit["value"]) / (1000 if (hit["unit"] or "").lower() == "ms" else 1)
    return value + 60 * int(hit["minutes"] or 0)


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

"""Finds secrets in text and removes them before the text leaves the process for a summary or becomes one.

It recognises forms: keys with a known prefix, key blocks, tokens in headers and URLs, assignments to
names that contain password or secret. It cannot recognise a secret without such a form (a word that happens to
be a password); a host that can adds a pattern or a function.
"""

from __future__ import annotations

import bisect
import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from ullage.exceptions import InvalidPolicy

__all__ = ["PATTERNS", "Redactor", "Secret"]

# Every repetition has a bound, and no two of them can match the same text: time is linear in the length.
PATTERNS: Mapping[str, str] = {
    "private_key": r"-----BEGIN (?:[A-Z]{2,10} ){0,2}PRIVATE KEY-----(?:[A-Za-z0-9+/=\s:,.]|-(?!-)){0,20000}+-----END (?:[A-Z]{2,10} ){0,2}PRIVATE KEY-----",
    "anthropic_key": r"\bsk-ant-[A-Za-z0-9_-]{20,200}",
    "openai_key": r"\bsk-(?:proj-|svcacct-|admin-)?[A-Za-z0-9_-]{20,200}",
    "github_token": r"\b(?:gh[pousr]_[A-Za-z0-9]{36,255}|github_pat_[A-Za-z0-9_]{22,255})",
    "gitlab_token": r"\bglpat-[A-Za-z0-9_-]{20,64}",
    "slack_token": r"\bxox[abeoprs]-[A-Za-z0-9-]{10,200}",
    "aws_key": r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b",
    "google_key": r"\bAIza[A-Za-z0-9_-]{35}",
    "stripe_key": r"\b[rs]k_(?:live|test)_[A-Za-z0-9]{16,200}",
    "npm_token": r"\bnpm_[A-Za-z0-9]{36}\b",
    "pypi_token": r"\bpypi-[A-Za-z0-9_-]{50,300}",
    "jwt": r"\beyJ[A-Za-z0-9_-]{8,2000}\.eyJ[A-Za-z0-9_-]{8,4000}\.[A-Za-z0-9_-]{8,2000}",
    "bearer": r"(?i:\bbearer )(?P<secret>[A-Za-z0-9._~+/-]{16,2000}=*)",
    "url_password": r"\b[a-z][a-z0-9+.-]{1,20}://[^\s:/@]{0,100}:(?P<secret>[^\s:/@]{1,200})@",
    "assignment": r"(?i:\b[A-Z0-9_-]{0,40}(?:password|passwd|secret|api_?key|access_?key|auth_?token)\b[\"']?\s{0,3}[:=]\s{0,3})(?P<quote>[\"']?)(?P<secret>[^\s\"',;{}$<>()\[\]]{8,200}+)(?P=quote)(?![\[(])",
}
"""Kinds of secrets and their forms; where only a part is secret, it is the group `secret`."""


class Secret(NamedTuple):
    """One secret: its kind and its position in the text."""

    kind: str
    start: int
    stop: int


class Redactor:
    """A function from text to text, for `redact=` of a compaction.

    Args:
        extra: More forms by kind, as regular expressions; one with a known kind replaces it.
        only: Kinds to look for; `None`: all.

    Raises:
        InvalidPolicy: A pattern that does not compile, or an unknown kind.

    Example:
        >>> Redactor()("export API_KEY=s3cr3t-value-1")
        'export API_KEY=[redacted:assignment]'
    """

    def __init__(
        self, *, extra: Mapping[str, str] | None = None, only: Iterable[str] | None = None
    ) -> None:
        forms = {**PATTERNS, **(extra or {})}
        kinds = tuple(forms) if only is None else tuple(only)
        unknown = [kind for kind in kinds if kind not in forms]
        if unknown:
            raise InvalidPolicy("only", unknown[0], f"must be one of {', '.join(forms)}")
        self._forms = tuple((kind, _compiled(kind, forms[kind])) for kind in kinds)
        self.kinds = kinds

    def find(self, text: str) -> list[Secret]:
        """The secrets of a text in order; of two that overlap, the one of the first kind is kept."""
        found: list[tuple[int, int, str]] = []
        for kind, form in self._forms:
            for hit in form.finditer(text):
                start, stop = hit.span("secret" if "secret" in form.groupindex else 0)
                at = bisect.bisect(found, (start, stop, ""))
                free = (at == 0 or found[at - 1][1] <= start) and (
                    at == len(found) or stop <= found[at][0]
                )
                if free:
                    found.insert(at, (start, stop, kind))
        return [Secret(kind, start, stop) for start, stop, kind in found]

    def __call__(self, text: str) -> str:
        """The text with each secret replaced by `[redacted:kind]`; the same object if it has none."""
        found = self.find(text)
        if not found:
            return text
        parts, at = [], 0
        for one in found:
            parts += [text[at : one.start], f"[redacted:{one.kind}]"]
            at = one.stop
        return "".join([*parts, text[at:]])

    def __repr__(self) -> str:
        return f"Redactor({len(self.kinds)} kinds)"


def _compiled(kind: str, pattern: str) -> re.Pattern[str]:
    try:
        return re.compile(pattern)
    except re.error as exc:
        raise InvalidPolicy(
            f"extra[{kind!r}]", pattern, f"must be a regular expression: {exc}"
        ) from exc

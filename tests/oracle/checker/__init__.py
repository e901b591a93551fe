"""A second opinion: the providers' rules in plain Python over plain dicts.

Written from the rules alone, slow and simple on purpose, and independent of `ullage.validate`: the
loopback server answers by it, and the library's own verifier is compared with it. Where a provider says so stands under
the rule's id in `python/ullage/legality/rules.toml`; O11 and R08, which are only refused here, have theirs in their docstring or comment.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

from tests.oracle.checker.bedrock import check_bedrock
from tests.oracle.checker.blocks import check_blocks, check_envelope
from tests.oracle.checker.cache import check_cache
from tests.oracle.checker.chat import check_chat
from tests.oracle.checker.gemini import check_gemini
from tests.oracle.checker.media import check_media
from tests.oracle.checker.models import facts
from tests.oracle.checker.pairing import check_pairing, check_server_tools
from tests.oracle.checker.placement import check_placement
from tests.oracle.checker.report import Finding, worst_first
from tests.oracle.checker.request import Request
from tests.oracle.checker.responses import check_responses
from tests.oracle.checker.size import check_size
from tests.oracle.checker.special import check_special
from tests.oracle.checker.text import check_text
from tests.oracle.checker.thinking import check_thinking
from ullage.exceptions import InvalidPolicy

__all__ = ["PROVIDERS", "Finding", "check", "check_request"]

PROVIDERS = (
    "anthropic",
    "openai_chat",
    "openai_responses",
    "gemini",
    "bedrock",
    "mistral",
    "deepseek",
    "local",
)
_RULES: tuple[Callable[[Request], Iterator[Finding]], ...] = (
    check_envelope,
    check_blocks,
    check_pairing,
    check_server_tools,
    check_placement,
    check_thinking,
    check_cache,
    check_media,
    check_special,
)


def check(
    provider: str,
    body: dict[str, Any],
    *,
    version: str = "2026-10-21",
    betas: Iterable[str] = (),
    resume: str = "",
    original: Any = None,
    sealed: bool = False,
    window: int | None = None,
    strict: bool = False,
) -> list[Finding]:
    """All rules that a request breaks, errors first.

    Args:
        provider: One of `PROVIDERS`.
        body: The request as it would be sent, with its `model`.
        version: The `anthropic-version` header.
        betas: What the `anthropic-beta` header lists.
        resume: `pause_turn` or `compaction` if the request resumes such a stop.
        original: For `openai_responses`: the items as the model gave them.
        sealed: Refuse thinking signatures that the test kit did not make.
        window: Context window in tokens; `None`: Claude's models have their own, others none; 0: not
            checked.
        strict: For `openai_chat`: a compatible server that asks for more than OpenAI does (O10).

    Raises:
        InvalidPolicy: There is no such provider.
    """
    if provider not in PROVIDERS:
        raise InvalidPolicy("provider", provider, f"must be one of {', '.join(PROVIDERS)}")
    if provider != "anthropic":
        window = window or 0
        if provider == "openai_responses":
            found = check_responses(body, original, window=window)
        elif provider == "gemini":
            found = check_gemini(body)
        elif provider == "bedrock":
            found = check_bedrock(body)
        else:
            found = check_chat(provider, body, window=window, strict=strict)
        return worst_first([*found, *check_text(body)])
    known = facts(body.get("model"))
    known = known if window is None else replace(known, window=window)
    number = int(version.replace("-", ""))
    return check_request(Request(body, known, number, frozenset(betas), resume, sealed))


def check_request(request: Request, *, size: int | None = None) -> list[Finding]:
    """The same for a request to Anthropic's API that is taken apart already.

    Args:
        request: The request and the facts about it.
        size: Bytes of the body as it came; `None`: as compact JSON.
    """
    found = [finding for rule in _RULES for finding in rule(request)]
    return worst_first([*found, *check_text(request.body), *check_size(request, size=size)])

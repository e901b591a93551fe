"""`assert_legal`: would the provider take this request?"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tests.oracle.checker import Finding, check

__all__ = ["assert_legal", "request_body"]

_KEYS = {"openai_responses": ("input", "instructions"), "gemini": ("contents", "systemInstruction")}


def assert_legal(
    provider: str,
    messages: Sequence[Mapping[str, Any]],
    *,
    model: str | None = None,
    system: Any = None,
    tools: Sequence[Mapping[str, Any]] | None = None,
    betas: Iterable[str] = (),
    version: str = "2026-10-21",
    original: Any = None,
    sealed: bool = False,
    window: int | None = None,
    strict: bool = False,
    **params: Any,
) -> None:
    """Fails with a list of what the provider would refuse; warnings do not count.

    Judged by the checker of this kit, which shares no code with `ullage.validate`.

    Args:
        provider: One of `tests.oracle.checker.PROVIDERS`.
        messages: In the provider's own form (`input` items, `contents`).
        model: Its name decides which rules hold; `None`: those of the newest models, except that
            thinking is not bound to system and tools.
        system: System prompt, where it is not a message.
        tools: Tool definitions; `None`: none are sent.
        betas: What the `anthropic-beta` header lists.
        version: The `anthropic-version` header.
        original: For `openai_responses`: the items as the model gave them.
        sealed: Refuse thinking signatures that the test kit did not make.
        window: Context window in tokens; `None`: the model's own; 0: not checked.
        strict: For `openai_chat`: a compatible server that asks for more than OpenAI does.
        **params: Other parts of the request, such as `thinking` or `resume="pause_turn"`.

    Raises:
        AssertionError: The request would be refused.

    Example:
        >>> assert_legal("anthropic", [{"role": "user", "content": "hello"}])
        >>> assert_legal("anthropic", [{"role": "user", "content": " "}])
        Traceback (most recent call last):
        AssertionError: anthropic would refuse this request, 1 error:
          A02 at message 0: messages: text content blocks must contain non-whitespace text
    """
    resume = str(params.pop("resume", ""))
    body = request_body(provider, messages, model=model, system=system, tools=tools, **params)
    found = check(
        provider,
        body,
        version=version,
        betas=betas,
        resume=resume,
        original=original,
        sealed=sealed,
        window=window,
        strict=strict,
    )
    errors = [finding for finding in found if finding.severity == "error"]
    if errors:
        raise AssertionError(_report(provider, errors))


def request_body(
    provider: str,
    messages: Sequence[Mapping[str, Any]],
    *,
    model: str | None = None,
    system: Any = None,
    tools: Any = None,
    **params: Any,
) -> dict[str, Any]:
    """The body that these parts make; parts that are `None` are left out."""
    key, system_key = _KEYS.get(provider, ("messages", "system"))
    parts = {"model": model, system_key: system, **params}
    if tools is not None:
        parts["toolConfig" if provider == "bedrock" else "tools"] = _tools(provider, tools)
    return {name: value for name, value in parts.items() if value is not None} | {
        key: list(messages)
    }


def _tools(provider: str, tools: Any) -> Any:
    if provider == "bedrock":
        return tools if isinstance(tools, Mapping) else {"tools": list(tools)}
    return list(tools)


def _report(provider: str, errors: Sequence[Finding]) -> str:
    count = f"{len(errors)} error" + ("s" if len(errors) > 1 else "")
    lines = [f"  {e.rule} at {_place(e)}: {e.text}" for e in errors]
    return "\n".join([f"{provider} would refuse this request, {count}:", *lines])


def _place(finding: Finding) -> str:
    if finding.message < 0:
        return "the request"
    block = "" if finding.block < 0 else f", block {finding.block}"
    return f"message {finding.message}{block}"

"""Hypothesis strategies: legal conversations of every provider, texts, JSON, transcripts.

All are built on small values (texts, calls, rounds, turns) that are put
into a provider's form at the end, so that a failing example shrinks to the one round that matters.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, cast

from hypothesis import strategies as st

from tests.kit.talk import FORMS, Exchange, Round, Talk, Turn
from tests.kit.transcripts import Layout, SessionFile, session_file
from ullage.exceptions import InvalidPolicy
from ullage.testing.generator import Scenario, Truth, material

__all__ = [
    "FEATURES",
    "entries",
    "json_values",
    "legal_conversations",
    "legal_requests",
    "session_files",
    "texts",
]

Messages = list[dict[str, Any]]

FEATURES = ("thinking", "media", "server_tools", "split", "system", "cache")
"""What a legal Anthropic conversation may hold beyond words and tool calls."""

_MODEL = "claude-opus-5-5"
_FRAGMENTS = (
    "ok",
    "fix the tests in src/app.py",
    "def f(x):\n    return x\n",
    '{"id": 17, "ok": true}',
    "a" * 120,
    "    \t",
    "\n",
    "für größere Dateien",
    "请修复这个错误",
    "テストは変えないで",
    "الاختبار",
    "שלום",
    "нет",
    "ไทย",
    "👩‍👩‍👧‍👦 🏳️‍🌈",
    "e\u0301",
    "\u200b\u202e",
    "<system>ignore</system>",
    "0123456789abcdef" * 8,
    "QUJDREVGR0hJSktMTU5PUFFSU1RVVldYWVo=" * 4,
    "12.5, 13.75, 1e-9; ",
    "[Old tool result content cleared]",
    "\x00\x07\x1b[31m",
)


def texts(
    *, blank: bool = True, surrogates: bool = False, max_parts: int = 4
) -> st.SearchStrategy[str]:
    """Texts of mixed scripts: prose, code, JSON, base64 runs, emoji, control characters.

    Args:
        blank: Empty and white-space texts too.
        surrogates: Lone surrogates too, which no UTF-8 can hold.
        max_parts: At most so many fragments.
    """
    categories = None if surrogates else ("Cs",)
    free = st.text(st.characters(exclude_categories=cast("Any", categories or ())), max_size=20)
    parts = [st.sampled_from(_FRAGMENTS), free]
    if surrogates:
        parts.append(st.sampled_from(("\ud83d", "\udc00", "\ud800x", "\udfff\ud800")))
    joined = st.lists(st.one_of(parts), max_size=max_parts).map("".join)
    return joined if blank else joined.map(lambda text: text if text.strip() else text + "x")


def json_values(*, max_leaves: int = 8, surrogates: bool = False) -> st.SearchStrategy[Any]:
    """Any JSON value; numbers stay in what a double and 64 bits hold."""
    words = texts(surrogates=surrogates, max_parts=2)
    numbers = st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False)
    leaves = st.none() | st.booleans() | numbers | words
    return st.recursive(
        leaves,
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(words, inner, max_size=4),
        max_leaves=max_leaves,
    )


def _inputs() -> st.SearchStrategy[dict[str, Any]]:
    usual: st.SearchStrategy[dict[str, Any]] = st.sampled_from(
        (
            {},
            {"file_path": "/src/app.py"},
            {"command": "pytest -q", "timeout": 60},
            {"a": [1, {"b": None}]},
        )
    )
    return usual | st.dictionaries(texts(max_parts=1), json_values(max_leaves=4), max_size=3)


def _exchanges(media: bool) -> st.SearchStrategy[Exchange]:
    outputs = texts()
    if media:
        outputs |= st.sampled_from(("<image>", "<document>"))
    tools = st.sampled_from(("Read", "Bash", "Grep", "Edit", "mcp__db__query"))
    # One in eight fails; `False` comes first so that examples shrink to success.
    failed = st.sampled_from((False,) * 7 + (True,))
    return st.builds(Exchange, tools, _inputs(), outputs, failed)


def _maybe(on: bool, strategy: st.SearchStrategy[Any], nothing: Any) -> st.SearchStrategy[Any]:
    return st.just(nothing) | strategy if on else st.just(nothing)


def _thoughts(on: bool) -> st.SearchStrategy[str | None]:
    return _maybe(on, st.sampled_from(("hm", "", "<redacted>")) | texts(max_parts=2), None)


def _rounds(features: Collection[str], most: int) -> st.SearchStrategy[tuple[Round, ...]]:
    words = texts(blank=False, max_parts=2)
    one = st.builds(
        Round,
        st.lists(_exchanges("media" in features), min_size=1, max_size=3).map(tuple),
        thinking=_thoughts("thinking" in features),
        say=_maybe(True, words, ""),
        after=_maybe(True, words, ""),
        search=_maybe("server_tools" in features, words, ""),
    )
    return st.lists(one, max_size=most).map(tuple)


def _talks(features: Collection[str], turns: int, rounds: int) -> st.SearchStrategy[Talk]:
    words = texts(blank=False)
    turn = st.builds(
        Turn,
        words,
        _rounds(features, rounds),
        answer=words,
        media=_maybe("media" in features, st.sampled_from(("image", "document")), ""),
        thinking=_thoughts("thinking" in features),
        system=_maybe("system" in features, words, ""),
    )
    return st.builds(
        Talk,
        st.lists(turn, max_size=turns).map(tuple),
        last=_maybe(True, words, ""),
        marks=_maybe("cache" in features, st.lists(st.booleans(), max_size=4).map(tuple), ()),
        split=st.booleans() if "split" in features else st.just(False),
    )


def _checked(features: Collection[str] | None, provider: str) -> Collection[str]:
    if provider not in FORMS:
        raise InvalidPolicy("provider", provider, f"must be one of {', '.join(FORMS)}")
    wanted = FEATURES if features is None else tuple(features)
    if unknown := [name for name in wanted if name not in FEATURES]:
        raise InvalidPolicy("features", unknown[0], f"must be one of {', '.join(FEATURES)}")
    return wanted


def legal_conversations(
    provider: str = "anthropic",
    *,
    features: Collection[str] | None = None,
    max_turns: int = 4,
    max_rounds: int = 3,
    model: str = _MODEL,
) -> st.SearchStrategy[Messages]:
    """Messages that the provider takes, in its own form; they end with the user's words or results.

    Thinking is signed for `model` without system prompt and tools: see `legal_requests` for both.

    Args:
        provider: One of `ullage.legality.PROVIDERS`.
        features: Names in `FEATURES`; `None`: all. Only thinking and calls exist outside Anthropic.
        max_turns: User inputs before the newest one.
        max_rounds: Responses with calls in each turn.
        model: Whom the thinking is from.
    """
    talks = _talks(_checked(features, provider), max_turns, max_rounds)
    if provider == "anthropic":
        return talks.map(lambda talk: FORMS["anthropic"](talk, model=model))
    return talks.map(FORMS[provider])


def legal_requests(
    *, features: Collection[str] | None = None, max_turns: int = 3, model: str = _MODEL
) -> st.SearchStrategy[dict[str, Any]]:
    """Whole bodies for Anthropic's Messages API, thinking bound to their system prompt and tools."""

    def build(talk: Talk, system: str | None, tools: list[dict[str, Any]]) -> dict[str, Any]:
        messages = FORMS["anthropic"](talk, model=model, system=system, tools=tools)
        parts = {"system": system} if system is not None else {}
        return {"model": model, "max_tokens": 1024, **parts, "tools": tools, "messages": messages}

    words = material()
    tools = st.sampled_from([words.tools[:1], words.tools, [*words.tools, words.web_search]])
    talks = _talks(_checked(features, "anthropic"), max_turns, 2)
    return st.builds(build, talks, st.none() | st.just(words.system), tools)


def _layouts() -> st.SearchStrategy[Layout]:
    share = st.sampled_from((0, 0, 50, 100))
    return st.builds(
        Layout,
        interleave=share,
        noise=share,
        progress=st.booleans(),
        errors=share,
        ui_copies=st.booleans(),
        compactions=st.integers(0, 2),
        preserve=st.integers(0, 6),
        linking=st.sampled_from(("summary", "tail")),
        microcompact=st.booleans(),
    )


def session_files(*, max_turns: int = 4) -> st.SearchStrategy[SessionFile]:
    """Transcripts of legal conversations, with what the model last saw of them."""
    talks = legal_conversations(
        features=("thinking", "media", "server_tools"), max_turns=max_turns, max_rounds=2
    )

    def build(messages: Messages, layout: Layout) -> SessionFile:
        times = tuple(1_773_565_200_000 + 1000 * n for n in range(len(messages)))
        made = Scenario(0, _MODEL, "", (), cast("Any", messages), times, 0, "/w", Truth())
        return session_file(made, layout=layout)

    return st.builds(build, talks, _layouts())


def entries(*, max_turns: int = 4) -> st.SearchStrategy[list[dict[str, Any]]]:
    """The lines of `session_files` alone."""
    return session_files(max_turns=max_turns).map(lambda file: file.entries)

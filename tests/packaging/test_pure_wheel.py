"""What a wheel without the extension is: where one is installed, the same names on the engine in plain Python."""

from __future__ import annotations

import importlib.util
from importlib.metadata import distribution, version

import pytest

import ullage
from tests.kit import top_names
from ullage._engine import NAME, core

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("ullage._core") is not None, reason="the extension is installed"
)


def test_it_is_for_every_interpreter_and_platform():
    wheel = distribution("ullage").read_text("WHEEL") or ""
    assert "Root-Is-Purelib: true" in wheel
    assert "Tag: py3-none-any" in wheel
    assert not [f for f in distribution("ullage").files or () if f.suffix in (".so", ".pyd")]


def test_it_holds_data_types_and_licence():
    names = {str(path) for path in distribution("ullage").files or ()}
    data = {
        "ullage/counting/models.toml",
        "ullage/compaction/texts.toml",
        "ullage/providers/errors.toml",
        "ullage/legality/rules.toml",
        "ullage/testing/laws.toml",
        "ullage/testing/material.toml",
        "ullage/testing/words.toml",
    }
    assert {"ullage/py.typed", "ullage/_core.pyi", *data} <= names
    assert any(name.endswith("LICENSE") for name in names)
    assert any(name.startswith("ullage/data/") for name in names)
    requires = [name for name in distribution("ullage").requires or () if "extra ==" not in name]
    assert requires == ["orjson>=3.10"]
    assert version("ullage") == ullage.__version__


def test_all_public_names_are_there_and_work_on_the_twin():
    assert NAME == "python"
    assert all(getattr(ullage, name) is not None for name in top_names())
    talk = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "hello " * 500}]
    assert ullage.estimate_tokens(talk) > 100
    assert ullage.keep_window(talk).start == 0
    assert core.count_text("hello world") == 2

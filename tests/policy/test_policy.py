"""The policy: presets, validation, files, and what is printed."""

from __future__ import annotations

import pytest

from ullage.exceptions import InvalidPolicy
from ullage.policy import Policy, SnipPolicy


def test_presets_differ_where_the_ladder_says():
    ladder = Policy.ladder()
    assert (ladder.snip.start_percent, ladder.micro.line_start_percent) == (40, 60)
    assert (ladder.auto.start_percent, ladder.auto.target_percent) == (80, 50)
    assert ladder.truncate.start_percent == 95
    assert Policy.buffered().snip.start_percent == 50
    assert not ladder.snip.on_arrival


@pytest.mark.parametrize(
    ("name", "value", "limit"),
    [
        ("snip.max_chars", 99, "at least 100"),
        ("snip.max_chars", 10.5, "whole number"),
        ("snip.max_chars", True, "whole number"),
        ("snip.head_percent", 50, "at most 49"),
        ("snip.enabled", 1, "one of True, False"),
        ("micro.tools", "Read", "tuple of names"),
        ("auto.start_percent", -1, "at least 0"),
        ("keep.min_tokens", 50_000, "must not be above keep.max_tokens"),
    ],
)
def test_a_bad_value_names_field_value_and_limit(name, value, limit):
    with pytest.raises(InvalidPolicy, match=limit) as caught:
        Policy.buffered().change({name: value})
    assert caught.value.field == name
    assert caught.value.value == value


@pytest.mark.parametrize("name", ["snip.nothing", "nothing", "nothing.at_all", "preset"])
def test_an_unknown_setting_is_refused(name):
    with pytest.raises(InvalidPolicy, match="is not a setting"):
        Policy.buffered().change({name: 1})


def test_a_group_of_the_wrong_kind_is_refused():
    with pytest.raises(InvalidPolicy, match="must be a KeepPolicy"):
        Policy(keep=SnipPolicy())


def test_file_then_overrides(tmp_path):
    path = tmp_path / "ullage.toml"
    path.write_text(
        'preset = "ladder"\n[snip]\nmax_chars = 8000\n[micro]\ntools = ["Read", "mcp__*"]\n'
    )
    policy = Policy.load(path, {"snip.head_percent": 20})
    assert (policy.preset, policy.snip.max_chars, policy.snip.head_percent) == ("ladder", 8000, 20)
    assert policy.micro.tools == ("Read", "mcp__*")
    assert policy.snip.start_percent == 40


@pytest.mark.parametrize(
    "text", ["preset = 'fast'", "[snip]\nmax_chars = 'many'", "not toml", "[snip]\nx = 1"]
)
def test_a_bad_file_is_a_typed_error(tmp_path, text):
    path = tmp_path / "ullage.toml"
    path.write_text(text)
    with pytest.raises(InvalidPolicy):
        Policy.load(path)


def test_a_missing_file_is_a_typed_error(tmp_path):
    with pytest.raises(InvalidPolicy, match="cannot be read"):
        Policy.load(tmp_path / "none.toml")


def test_effective_lists_every_field_with_a_reason():
    values = Policy.buffered().effective()
    assert len({value.name for value in values}) == len(values) > 50
    assert all(value.why for value in values)


def test_change_leaves_the_original_alone_and_repr_tells_the_difference():
    policy = Policy.buffered()
    changed = policy.change({"keep": {"min_tokens": 9_000}})
    assert policy.keep.min_tokens == 10_000
    assert repr(changed) == "Policy.buffered(keep.min_tokens=9000)"
    assert changed.change({"keep.min_tokens": 10_000}) == policy


def test_text_of_a_file_is_read_as_the_file():
    policy = Policy.from_toml('preset = "ladder"\n[keep]\nmin_tokens = 9000\n')
    assert (policy.preset, policy.keep.min_tokens) == ("ladder", 9_000)
    for text, field in (
        ("[snip", "policy"),
        ('preset = "x"', "preset"),
        ("[snip]\nno = 1", "snip.no"),
    ):
        with pytest.raises(InvalidPolicy) as caught:
            Policy.from_toml(text)
        assert caught.value.field == field

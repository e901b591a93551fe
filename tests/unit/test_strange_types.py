"""Types and roles that are no strings are passed over wherever they are compared; nothing raises for them."""

from __future__ import annotations

import json

import pytest

import ullage
from ullage.exceptions import UllageError
from ullage.transcript.formats import detect

STRANGE = ([], {}, ["image"], 3, None, True)


@pytest.mark.parametrize("kind", STRANGE, ids=repr)
def test_a_block_of_a_strange_type_is_compacted_with_the_rest(kind):
    talk = []
    for number in range(8):
        block = {"type": kind, "text": "x", "content": [{"type": kind}]}
        talk += [
            {"role": "user", "content": [{"type": "text", "text": f"question {number}"}, block]},
            {"role": "assistant", "content": [{"type": "text", "text": "answer " * 400}]},
        ]
    talk.append({"role": "user", "content": [{"type": kind}, {"type": "text", "text": "go on"}]})
    talk.append({"role": "assistant", "content": "done"})
    for keep in (0, None):
        try:
            result = ullage.compact(talk, **({} if keep is None else {"keep": keep}))
        except UllageError:
            continue
        assert "go on" in json.dumps(result.messages)


@pytest.mark.parametrize("kind", STRANGE, ids=repr)
@pytest.mark.parametrize("key", ["type", "role"])
def test_a_file_of_strange_lines_is_of_no_known_format(tmp_path, kind, key):
    path = tmp_path / "strange.jsonl"
    line = json.dumps({key: kind, "content": [{"type": kind}], "message": {"role": kind}})
    path.write_text(f"{line}\n" * 3)
    try:
        name = detect(path)
    except UllageError:
        name = "refused"
    assert name

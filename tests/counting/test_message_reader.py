"""What counts as the message of an item is one answer, wherever it is asked."""

from __future__ import annotations

import itertools
import re
from pathlib import Path
from typing import Any

import pytest

from ullage import messages
from ullage._engine import core
from ullage._engine.digests import Role
from ullage.exceptions import InvalidMessage
from ullage.legality import originals
from ullage.legality.draft import Draft
from ullage.providers._common import bare

pytestmark = pytest.mark.both_engines

INNER: tuple[Any, ...] = (
    None,
    "text",
    7,
    {},
    {"note": 1},
    {"role": "assistant", "content": "inner"},
    {"content": "no role"},
)
OUTER: tuple[dict[str, Any], ...] = (
    {},
    {"type": "user"},
    {"type": "summary", "summary": "x"},
    {"type": "system", "subtype": "compact_boundary"},
    {"type": "attachment", "attachment": {"type": "todo"}},
    {"role": "user", "content": "outer"},
    {"role": "user", "content": [{"type": "text", "text": "outer"}], "uuid": "u"},
    {"role": "tool", "tool_call_id": "t", "content": "outer"},
    {"role": None, "content": "outer"},
    {"role": 7, "content": "outer"},
    {"role": "message", "content": "outer", "type": "message"},
)


def items() -> list[dict[str, Any]]:
    """Bare messages, entries, metadata, and what is some of each."""
    plain = [dict(outer) for outer in OUTER]
    both = itertools.product(OUTER, INNER)
    return plain + [{**outer, "message": inner} for outer, inner in both]


@pytest.mark.parametrize("item", items(), ids=repr)
def test_every_part_reads_the_same_message(item: dict[str, Any]) -> None:
    expected = messages.message_of(item)
    assert originals.message_in(item) == (expected or {})
    spoken = expected is not None and isinstance(expected["role"], str)
    assert [message for _, message in bare([item])] == ([expected] if spoken else [])
    if expected is not None:
        assert Draft([item]).slots[0].message is expected


@pytest.mark.parametrize("item", items(), ids=repr)
def test_the_engine_digests_that_very_message(item: dict[str, Any]) -> None:
    expected = messages.message_of(item)
    try:
        digest = core.Ledger(None, [item]).message(0)
    except InvalidMessage:
        named = expected["role"] if expected is not None else None
        assert named not in ("user", "assistant", "tool")
        return
    assert (digest.role != Role.NONE) == (expected is not None)
    if expected is not None:
        alone = core.Ledger(None, [{key: expected[key] for key in ("role", "content")}])
        assert (digest.role, digest.tokens) == (alone.message(0).role, alone.message(0).tokens)


@pytest.mark.parametrize("item", [None, 7, "text", [], ["role"]])
def test_what_is_no_mapping_is_no_message(item: Any) -> None:
    assert messages.message_of(item) is None
    assert messages.role_of(item) == messages.uuid_of(item) == ""
    assert not messages.is_boundary(item)
    assert not messages.is_summary(item)


def test_no_other_file_says_what_messages_look_like() -> None:
    folder = Path(messages.__file__).parent
    twice = (
        r"^(Item|Block|Message)(: TypeAlias)? = Mapping\[str, Any\]",
        r"\(\"thinking\", \"redacted_thinking\"",
        r"^(?!.*>>>).*\"compact_boundary\"",
        r"\[Old tool result content cleared\]",
        r"\.get\(\"isCompactSummary\"\)",
    )
    # The twin explains itself without the rest; the test kit and the checker judge the library with words of their own.
    found = [
        (path.relative_to(folder).as_posix(), pattern)
        for path in folder.rglob("*.py")
        if not {"_reference", "testing", "ullage_check.py"} & set(path.parts)
        and path != Path(messages.__file__)
        for pattern in twice
        if re.search(pattern, path.read_text(encoding="utf-8"), re.MULTILINE)
    ]
    assert found == []

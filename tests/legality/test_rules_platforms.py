"""What a platform refuses of some models only."""

from __future__ import annotations

import pytest

from ullage.legality import validate
from ullage.legality.repairs import repair

pytestmark = pytest.mark.both_engines

SOURCE = {"type": "text", "media_type": "text/plain", "data": "words"}
TALK = [
    {"role": "user", "content": "q"},
    {"role": "assistant", "content": [{"type": "document", "source": SOURCE}]},
    {"role": "user", "content": "go on"},
]
TOOLS = [{"name": "Read", "input_schema": {"type": "object"}}]


@pytest.mark.parametrize(
    ("platform", "model", "refused"),
    [
        ("bedrock", "claude-opus-4-6", False),
        ("bedrock", "anthropic.claude-3-5-haiku-20241022-v1:0", False),
        ("bedrock", "claude-opus-4-7", True),
        ("bedrock", "claude-opus-5-5", True),
        ("bedrock", None, True),
        ("anthropic", "claude-opus-4-6", True),
        ("vertex", "claude-opus-4-6", True),
    ],
)
def test_the_newest_version_is_bedrocks_for_claude_4_7_and_later(platform, model, refused):
    around = {"platform": platform, "model": model, "tools": TOOLS}
    assert ("A20" in validate(TALK, temperature=1, **around).rules) is refused
    assert ("A20" in validate(TALK, **around).rules) is refused
    assert (repair(TALK, **around).messages is TALK) is not refused

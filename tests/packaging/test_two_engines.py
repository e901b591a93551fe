"""Neither engine imports the other, whatever is done with the package."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

CORE = """
import json
import ullage
from ullage._engine import core
item = {"role": "user", "content": "x"}
ledger = core.Ledger(None, [item])
ledger.keep_window(0), ledger.anchored(), ledger.message(0), ledger.blocks(0)
index = core.TranscriptIndex.from_bytes(json.dumps({**item, "a": 10**30}).encode() + b'\\n{"a": "\\\\ud800"}\\n')
index.line(0), index.load(0), index.load(1), index.heads()
core.check(ledger, "anthropic", {})
ullage.keep_window([item]), ullage.estimate_tokens([item])
"""

COMPACTION = """
from ullage import compact
from ullage.testing import scenario
result = compact(list(scenario(1, turns=30).messages), keep=2_000)
assert result.compacted, result.report
"""

LOOP = """
from ullage import repair, validate
from ullage.manager import ContextManager
from ullage.policy import Policy
from ullage.recall.store import MemoryStore
from ullage.testing import scenario
policy = Policy().change({"auto.start_percent": 3, "collapse.enabled": True, "snip.enabled": True})
manager = ContextManager(model="claude-opus-4-5", policy=policy, store=MemoryStore(), keep=500)
for message in scenario(1, turns=40).messages:
    if message["role"] == "assistant":
        request = manager.prepare()
        manager.observe(message)
    else:
        manager.add(message)
assert manager.compact().compacted
state = manager.save(history=True)
ContextManager.restore(state)
validate(request.messages, provider="anthropic")
repair(request.messages[1:], provider="anthropic")
"""

SESSIONS = """
import tempfile
from pathlib import Path
from ullage.cli import main
from ullage.replay import replay_session, script_of
from ullage.sessions import open_session
from ullage.testing import scenario, session_file
path = Path(tempfile.mkdtemp()) / "one.jsonl"
path.write_bytes(session_file(scenario(1, turns=30)).to_bytes())
session = open_session(path)
replay_session(script_of(session), None)
for arguments in (["inspect"], ["validate"], ["resume"], ["compact", "--keep", "2000"]):
    try:
        main([arguments[0], str(path), *arguments[1:]])
    except SystemExit as end:
        assert not end.code, (arguments, end.code)
"""

ENGINES = pytest.mark.parametrize(
    ("name", "other"), [("rust", "ullage._reference"), ("python", "ullage._core")]
)
WORK = {"core": CORE, "compaction": COMPACTION, "loop": LOOP, "sessions": SESSIONS}
SAY = """
import sys
from ullage._engine import NAME
found = sorted(name for name in sys.modules if name.startswith(%r))
print(NAME, found, file=sys.stderr)
"""


@ENGINES
@pytest.mark.parametrize("what", WORK)
def test_an_engine_needs_nothing_of_the_other(name: str, other: str, what: str) -> None:
    if name == "rust":
        pytest.importorskip("ullage._core")
    if what == "sessions":
        pytest.importorskip("cyclopts")
    done = subprocess.run(
        [sys.executable, "-c", WORK[what] + SAY % other],
        capture_output=True,
        text=True,
        env={**os.environ, "ULLAGE_ENGINE": name},
        check=False,
    )
    assert done.stderr.strip().splitlines()[-1:] == [f"{name} []"], done.stderr


def test_only_the_seam_names_an_engine() -> None:
    """What both engines share lies in `_engine`; no other room imports one of them."""
    import ullage

    package = Path(ullage.__file__).parent
    found = [
        path.relative_to(package).as_posix()
        for path in package.rglob("*.py")
        if path.relative_to(package).parts[0] not in ("_engine", "_reference")
        and ("ullage._reference" in (text := path.read_text("utf-8")) or "ullage._core" in text)
    ]
    assert found == []

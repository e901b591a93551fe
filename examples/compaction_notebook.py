"""Where a session's tokens go, and what a compaction keeps: a notebook in the percent format.

VS Code, PyCharm and Spyder run it cell by cell, `jupytext --to ipynb` converts it, and `python examples/compaction_notebook.py` runs
all of it. It needs `pip install ullage` and no key, and writes only to a temporary folder.
"""

# %%
from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from pathlib import Path

from ullage import Policy, compact_session, open_session, validate
from ullage.facts import collect
from ullage.levels import inspect_messages
from ullage.testing import scenario, session_file

# %% [markdown]
# ## The session
# Name one of yours, from `~/.claude/projects`, `~/.codex/sessions`, …, or keep the generated one.

# %%
SOURCE: Path | None = None
FOLDER = Path(tempfile.mkdtemp(prefix="ullage-notebook-"))

source = SOURCE or session_file(scenario(7, tokens=60_000)).write(FOLDER)
session = open_session(source)
print(f"{source.name}: {session.format}, {len(session.messages):,} messages")

# %% [markdown]
# ## What fills the window

# %%
found = inspect_messages(session.items, policy=Policy.buffered())
for kind, size in sorted(found.categories.items(), key=lambda each: -each[1]):
    print(f"{kind:<20} {size:>9,}  {'█' * round(40 * size / max(found.tokens, 1))}")
for tool in found.tools[:5]:
    print(f"{tool.name:<20} {tool.tokens:>9,}  in {tool.calls} calls")

# %% [markdown]
# ## What each level would free now
# None of these calls a model.

# %%
for level in found.freeable:
    print(f"{level.level:<20} {level.tokens:>9,}  {level.how}")

# %% [markdown]
# ## The same session at three sizes
# Facts that a successor needs verbatim, and how many of them the new context still holds. Without a target the
# compaction keeps what it would keep in a live session.

# %%
facts = collect(session.items)
WANTED = {
    "user messages": [each.text for each in facts.inputs],
    "files changed": [each.path for each in facts.files if each.changed],
    "URLs": list(facts.urls),
}


def kept(messages: Sequence[object]) -> str:
    """How many of the wanted facts stand verbatim in a context."""
    whole = json.dumps(messages, ensure_ascii=False)
    counts = (
        f"{sum(json.dumps(text, ensure_ascii=False)[1:-1] in whole for text in texts)} of {len(texts)} {kind}"
        for kind, texts in WANTED.items()
    )
    return ", ".join(counts)


for target in (None, 20_000, 10_000):
    tried = compact_session(session, target_tokens=target)
    print(f"{target or 'no target':>9}: {len(tried.messages):>3} messages, {kept(tried.messages)}")

# %% [markdown]
# ## One of them, written
# The new file holds the whole history and then the compaction; the session itself is not changed.

# %%
done = compact_session(session, output=FOLDER / "smaller.jsonl", target_tokens=20_000)
for warning in done.result.report.warnings if done.result.report else ():
    print("note:", warning)
smaller = open_session(FOLDER / "smaller.jsonl")
print(f"{len(session.messages):,} → {len(smaller.messages):,} messages in {smaller.path}")
print("legal for Anthropic:", validate(smaller.messages, provider="anthropic").ok)

# %% [markdown]
# ## What the model reads in place of the rest

# %%
print(str(smaller.messages[0]["content"])[:1_500])

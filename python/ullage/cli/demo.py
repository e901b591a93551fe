"""`ullage demo`: an example session before and after a compaction."""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

from ullage.cli import compact as compact_cli, inspect as inspect_cli
from ullage.cli.output import Json, Output, as_json
from ullage.counting.window import WindowSettings
from ullage.sessions import compact_session, open_session
from ullage.sessions.inspected import inspect_opened
from ullage.sessions.load import write_private
from ullage.testing import Scenario, scenario, session_file

_NAME = "ullage"
_MODEL = "claude-opus-5-5"


def demo_command(
    *,
    seed: int = 7,
    size: int = 90_000,
    directory: Path | None = None,
    json: Json = False,
) -> int:
    """Generate an example session, compact it without a model, show before and after.

    Args:
        seed: seed of the generator; equal seeds generate equal sessions
        size: rough size of the session in tokens (characters / 4)
        directory: where to write; default: a new temporary folder
    """
    out = Output(as_json=json)
    folder = Path(tempfile.mkdtemp(prefix="ullage-demo-")) if directory is None else directory
    folder.mkdir(parents=True, exist_ok=True)
    example = scenario(seed, tokens=size, model=_MODEL)
    session = folder / f"session-{seed}.jsonl"
    write_private(session, session_file(example).to_bytes())
    before = open_session(session)
    # The default working size of a manager, which the session nearly fills.
    settings = WindowSettings(auto_compact_window=200_000)
    report = inspect_cli.report_of(inspect_opened(before), settings=settings)
    output = folder / f"session-{seed}.compacted.jsonl"
    # The summary names only the file: with its folder the size would differ from run to run.
    done = compact_session(before, output=output, overwrite=True, transcript_path=output.name)
    after = compact_cli.report_of(before, done)
    kept_facts = _kept_facts(example, as_json(done.messages))
    if json:
        out.json({"before": report, "compaction": after, "kept": kept_facts})
        return 0
    out.line(
        f"A generated coding session (seed {seed}) in a window of 200,000 tokens:"
        " the model reads files, runs tests, edits, asks."
    )
    inspect_cli.show(out, report, top=5)
    compact_cli.show(out, after)
    out.heading("What the new context still holds, verbatim")
    rows = ((name, f"{held:,} of {count:,}") for name, (held, count) in kept_facts.items())
    out.table(("what", "kept"), rows, right=(1,))
    program = _program()
    out.line(f"\nTry: {program} inspect {after['written']}")
    out.line(f"     {program} resume {after['written']}")
    return 0


def _program() -> str:
    """The command that starts this program; `make demo` installs it outside PATH."""
    if shutil.which(_NAME):
        return _NAME
    started = Path(sys.argv[0])
    return str(started) if started.stem == _NAME else f"{sys.executable} -m {_NAME}"


def _kept_facts(example: Scenario, context: str) -> dict[str, list[int]]:
    """For each kind of fact, how many the new context holds, and how many there were."""
    truth = example.truth
    wanted = {
        "user messages": truth.user_messages,
        "files edited": truth.files_edited,
        "files written": truth.files_written,
        "errors": truth.errors,
        "decisions": truth.decisions,
        "pending todos": truth.pending_todos,
        "standing instructions": truth.instructions,
        "URLs": truth.urls,
    }
    return {
        name: [sum(as_json(text)[1:-1] in context for text in texts), len(texts)]
        for name, texts in wanted.items()
        if texts
    }

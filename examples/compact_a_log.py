"""Compact a session of a coding agent to a size, and print what the model will see.

    pip install ullage
    python examples/compact_a_log.py ~/.claude/projects/…/session.jsonl smaller.jsonl --target 20000

Reads the formats of Claude Code, Codex, pi and others. The original is not changed: the new file holds its whole history
and then the compaction; Claude Code, Codex and pi can continue it. Without files it runs on a generated session.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence
from pathlib import Path

from ullage import TranscriptLog, compact_session, open_session, validate
from ullage.sessions import CompactedSession
from ullage.testing import conversation


def generated(folder: Path) -> Path:
    path = folder / "generated.jsonl"
    with TranscriptLog.open(path) as log:
        log.extend(conversation(seed=7, tokens=60_000))
    return path


def compacted(source: Path, output: Path, target: int) -> CompactedSession:
    session = open_session(source)
    done = compact_session(session, output=output, target_tokens=target)
    report = done.result.report
    if report is None:
        print(f"{source.name}: nothing was done: {done.result.reason}")
        return done
    print(f"{source.name}: {report.tokens_before:,} → {report.tokens_after:,} tokens")
    for warning in report.warnings:
        print(f"  {warning}")
    return done


def main(arguments: Sequence[str] | None = None) -> CompactedSession:
    parser = argparse.ArgumentParser()
    parser.add_argument("source", nargs="?", type=Path)
    parser.add_argument("output", nargs="?", type=Path)
    parser.add_argument("--target", type=int, default=20_000, help="tokens of the new context")
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        source = given.source or generated(Path(folder))
        output = given.output or source.with_suffix(".compacted.jsonl")
        done = compacted(source, output, given.target)
        # What a reader of the new file sees.
        messages = open_session(output).messages
    print(f"{len(messages)} messages, the first begins:\n")
    print(str(messages[0]["content"])[:800])
    print("\nlegal for Anthropic:", validate(messages, provider="anthropic").ok)
    return done


if __name__ == "__main__":
    main()

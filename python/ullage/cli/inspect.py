"""`ullage inspect`: what fills the window."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from ullage.cli.output import (
    Json,
    Output,
    PolicyOption,
    PricesOption,
    SessionArgument,
    WhichConversation,
    WindowModel,
    WindowOption,
    bar,
    file_name,
    read_window,
    share,
)
from ullage.counting.models import Model, ModelTable
from ullage.counting.window import WindowSettings, window_for
from ullage.levels.breakdown import NOTABLE
from ullage.policy import Policy
from ullage.sessions import InspectedSession, inspect_session
from ullage.transcript.records import as_mapping

_TOP = 8
_NAMES = 9
"""Columns of the names at the left."""


def inspect_command(
    file: SessionArgument,
    *,
    model: WindowModel = None,
    window: WindowOption = None,
    prices: PricesOption = None,
    conversation: WhichConversation = 0,
    policy: PolicyOption = None,
    all: bool = False,
    json: Json = False,
) -> int:
    """Show what fills the window, and how much each level would free.

    Args:
        all: show every tool and file, not only the largest
    """
    out = Output(as_json=json)
    settings, table = read_window(window), ModelTable.load(*filter(None, [prices]))
    with out.progress("reading", 1) as step:
        rules = Policy.load(policy)
        inspected = inspect_session(file, number=conversation, model=model, policy=rules)
        step(1)
    report = report_of(inspected, own_window=model is None, settings=settings, table=table)
    if json:
        out.json(report)
    else:
        show(out, report, top=None if all else _TOP)
    return 0


def report_of(
    session: InspectedSession,
    *,
    own_window: bool = True,
    settings: WindowSettings | None = None,
    table: ModelTable | None = None,
) -> dict[str, Any]:
    """Everything that `inspect` prints, as plain data; `own_window`: by the window of the session's client, instead of the model's."""
    table = table or ModelTable.builtin()
    row = table.lookup(session.model)
    if own_window and session.window_tokens:
        row = dataclasses.replace(row, context_window=session.window_tokens)
    inspection = session.inspection
    used = inspection.anchored_tokens
    marks = window_for(row, settings=settings or WindowSettings.from_env())
    boundaries = []
    for entry in session.boundaries:
        metadata = as_mapping(entry.get("compactMetadata"))
        boundary = {"timestamp": entry.get("timestamp"), "trigger": metadata.get("trigger")}
        sizes = {"tokens_before": "preTokens", "tokens_after": "postTokens"}
        boundaries.append(boundary | {name: metadata.get(key) for name, key in sizes.items()})
    return {
        "file": file_name(session.path),
        "format": session.format,
        "bytes": session.size,
        "model": session.model or None,
        "window": {
            "context_tokens": marks.context,
            "used_tokens": used,
            "from_usage": inspection.anchored,
            "estimated_messages_tokens": inspection.tokens,
            "autocompact_at_tokens": marks.threshold,
            **marks.state(used)._asdict(),
        },
        "prompt": _prompt(row, used, table.version),
        "conversation": {
            "messages": session.messages,
            "user_inputs": inspection.user_inputs,
            "rounds": inspection.rounds,
            "largest_round_tokens": inspection.largest_round,
            "unanswered_calls": inspection.open_calls,
        },
        "categories": inspection.categories,
        "tools": [dataclasses.asdict(tool) for tool in inspection.tools],
        "files": [dataclasses.asdict(file) for file in inspection.files],
        "freeable": [dataclasses.asdict(level) for level in inspection.freeable],
        "boundaries": boundaries,
        "warnings": list(session.warnings),
    }


def _prompt(model: Model, used: int, version: str) -> dict[str, Any] | None:
    """What a prompt of this size costs; `None` if the model's prices are unknown."""
    prices = model.prices_at(used)
    if prices is None:
        return None
    rates = (prices.cache_read, prices.cache_write_5m)
    read, write = (round(float(used * rate) / 1e6, 4) for rate in rates)
    return {"dollars_read": read, "dollars_written": write, "prices": version}


def show(out: Output, report: Mapping[str, Any], *, top: int | None = _TOP) -> None:
    """Draw the report of `inspect`; `top` limits the lists, `None` shows all."""
    _show_window(out, report)
    _show_categories(out, report)
    tools, files = report["tools"], report["files"]
    if tools:
        out.heading("Tools")
        rows = [
            (tool["name"], f"{tool['calls']:,}", f"{tool['errors']:,}", f"{tool['tokens']:,}")
            for tool in tools[:top]
        ]
        out.table(("tool", "calls", "errors", "tokens"), rows, right=(1, 2, 3))
        _more(out, tools, top)
    if files:
        out.heading("Files")
        named = [
            (f"{file['tokens']:,}", f"{file['calls']:,}", file["path"]) for file in files[:top]
        ]
        out.table(("tokens", "calls", "path"), named, right=(0, 1), cut=(2,), paths=(2,))
        _more(out, files, top)
    out.heading("What each level would free now")
    levels = (
        (level["level"], f"{level['tokens']:,}", f"{level['places']:,}", level["how"])
        for level in report["freeable"]
    )
    out.table(("level", "saved", "blocks", "action"), levels, right=(1, 2))
    _show_boundaries(out, report["boundaries"])
    out.notes(report["warnings"])


def _show_window(out: Output, report: Mapping[str, Any]) -> None:
    window, counts = report["window"], report["conversation"]
    used, size = window["used_tokens"], window["context_tokens"]
    written = f"{report['format']}, {report['bytes']:,} bytes"
    out.file_heading(str(report["file"]), f"  ({written})")
    out.field("model", report["model"] or "unknown: 200,000 tokens assumed", width=_NAMES)
    how = "reported by the provider, then estimated" if window["from_usage"] else "estimated"
    filled = f"{bar(used, size):<28}  {used:,} of {size:,} tokens ({share(used, size)}), {how}"
    out.field("window", filled, width=_NAMES)
    state, style = _state(window)
    out.field("state", state, width=_NAMES, style=style)
    if prompt := report["prompt"]:
        prices = f"${prompt['dollars_read']:,.3f} read from the provider's cache, ${prompt['dollars_written']:,.3f} written to it, at prices of {prompt['prices']}"
        out.field("prompt", prices, width=_NAMES)
    held = (
        f"{counts['messages']:,} messages, {counts['user_inputs']:,} user inputs, {counts['rounds']:,} rounds "
        f"(largest {counts['largest_round_tokens']:,} tokens), {counts['unanswered_calls']:,} unanswered calls"
    )
    out.field("holds", held, width=_NAMES)


def _state(window: Mapping[str, Any]) -> tuple[str, str]:
    """How full the window is, in words and as a style."""
    left = f"{window['percent_left']} % left before autocompact"
    if window["at_blocking_limit"]:
        return f"full: at the blocking limit ({left})", "bold red"
    if window["above_autocompact"]:
        return f"would compact now ({left})", "yellow"
    if window["above_warning"]:
        return f"warning: nearly full ({left})", "yellow"
    return f"room ({left})", "green"


def _show_categories(out: Output, report: Mapping[str, Any]) -> None:
    categories = report["categories"]
    whole = sum(categories.values())
    out.heading("What the window holds")
    rows = (
        (name, f"{count:,}", share(count, whole), bar(count, whole))
        for name, count in sorted(categories.items(), key=lambda row: -row[1])
    )
    out.table(("category", "tokens", "share", ""), rows, right=(1, 2))
    for name, meaning in NOTABLE.items():
        if categories.get(name, 0) * 100 >= whole:
            out.line(f"{name}: {meaning}", style="dim")


def _more(out: Output, listed: list[Any], top: int | None) -> None:
    if top is not None and len(listed) > top:
        out.line(f"and {len(listed) - top} more (--all)", style="dim")


def _show_boundaries(out: Output, boundaries: list[dict[str, Any]]) -> None:
    if not boundaries:
        return
    out.heading("Earlier compactions")
    rows = []
    for boundary in boundaries:
        when = str(boundary["timestamp"] or "")[:16].replace("T", " ")
        counts = (boundary["tokens_before"], boundary["tokens_after"])
        # 0: an edit, which counts nothing.
        sizes = (f"{count:,}" if isinstance(count, int) and count else "–" for count in counts)
        rows.append((when, str(boundary["trigger"] or ""), *sizes))
    out.table(("when", "trigger", "before", "after"), rows, right=(2, 3))

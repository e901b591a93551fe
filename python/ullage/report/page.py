"""Draws figures of sessions as one HTML page that fetches nothing."""

from __future__ import annotations

import base64
import hashlib
import os
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import cache
from importlib import import_module, resources
from pathlib import Path
from typing import Any

from ullage._version import VERSION
from ullage.exceptions import InvalidPolicy, MissingExtra, StoreError
from ullage.recall.visible_text import visible
from ullage.replay import ReplayedTurn, Run
from ullage.report.charts import cache_chart, fill_chart, sampled
from ullage.report.session_figures import SessionFigures
from ullage.report.treemap import treemap
from ullage.sessions.drafts import draft_of

__all__ = ["report_page", "write_report"]

MOST_REMOVALS = 400
"""Reports of levels that a page lists for a session."""

_INSPECTED = {"summary": "summaries", "system prompt and tools": "system"}
"""Categories of `inspect` by the name that the chart over time has for them."""


def report_page(sessions: Sequence[SessionFigures]) -> str:
    """Draw sessions as a page: one after the other, and side by side where there are several.

    Args:
        sessions: At least one.

    Raises:
        InvalidPolicy: None was given.
        MissingExtra: Jinja is not installed (`pip install 'ullage[report]'`).
    """
    if not sessions:
        raise InvalidPolicy("sessions", 0, "must be at least 1")
    style, script = _asset("page.css"), _asset("page.js")
    page = _environment().get_template("page.html.j2").render(
        sessions=[_session(each) for each in sessions],
        most_dollars=max(max(run.nanousd for run in each.runs) for each in sessions) or 1,
        style=style,
        script=script,
        policy=_policy(style, script),
        version=VERSION,
    )  # fmt: skip
    return str(page)


def write_report(
    sessions: Sequence[SessionFigures],
    output: str | os.PathLike[str],
    *,
    overwrite: bool = False,
) -> Path:
    """Write the page of `report_page` to a file that only its owner can read.

    Args:
        sessions: At least one.
        output: The file.
        overwrite: Whether a file that is there is replaced.

    Raises:
        StoreError: It exists, is a folder or cannot be written.
        MissingExtra: Jinja is not installed.
    """
    target = Path(output)
    if target.is_dir():
        raise StoreError("is a directory", path=str(target), hint="name a file in it")
    if target.exists() and not overwrite:
        hint = "name another file, or allow to overwrite it (overwrite=True, --force)"
        raise StoreError("exists already", path=str(target), hint=hint)
    page = report_page(sessions)
    with draft_of(target) as draft:
        draft.write_text(page, encoding="utf-8", errors="backslashreplace")
        draft.replace(target)
    return target


# ---- the template and what it is given -------------------------------------------------------


@cache
def _environment() -> Any:
    try:
        jinja = import_module("jinja2")
    except ModuleNotFoundError as exc:
        raise MissingExtra("jinja2", "report") from exc
    made = jinja.Environment(
        loader=jinja.PackageLoader("ullage.report", "assets"),
        autoescape=True,
        undefined=jinja.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters.update(
        count=_count, dollars=_dollars, share=_share, when=_when, css=_class, visible=visible
    )
    return made


def _asset(name: str) -> str:
    return resources.files("ullage.report").joinpath("assets", name).read_text(encoding="utf-8")


def _policy(style: str, script: str) -> str:
    """Only this style and this script run, whatever a transcript holds; nothing is fetched."""
    return (
        f"default-src 'none'; style-src '{_hash(style)}'; script-src '{_hash(script)}'; "
        "base-uri 'none'; form-action 'none'"
    )


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"sha256-{base64.b64encode(digest).decode()}"


def _session(figures: SessionFigures) -> dict[str, Any]:
    turns = figures.managed.turns
    points = sampled(turns)
    drawn = bool(turns) and bool(figures.unmanaged.turns)
    return {
        "figures": figures,
        "saved": figures.unmanaged.nanousd - figures.managed.nanousd,
        "fill": [
            ("wide", fill_chart(figures, points, width=960, height=330)),
            ("narrow", fill_chart(figures, points, width=360, height=300)),
        ] if drawn else [],
        "cache": [
            ("wide", cache_chart(turns, width=960, height=210, most=120)),
            ("narrow", cache_chart(turns, width=360, height=200, most=50)),
        ] if drawn else [],
        "maps": _maps(figures),
        "categories": list(dict.fromkeys(name for turn in turns for name in turn.by_category)),
        "points": [_point(figures, at) for at in points] if drawn else [],
        "levels": sorted({each.level for each in figures.removals}),
        "removals": figures.removals[:MOST_REMOVALS],
        "more_removals": max(0, len(figures.removals) - MOST_REMOVALS),
        "largest": {run.name: _largest(run) for run in figures.runs},
        "sizes": _sizes(figures),
        "ended": [run for run in figures.runs if run.error],
    }  # fmt: skip


def _sizes(figures: SessionFigures) -> dict[str, Any] | None:
    """What the session costs at several working sizes; `None`: it never reached the smallest of them."""
    sizes = figures.sizes
    if len({each.nanousd for each in sizes}) < 2:
        return None
    best = min(sizes, key=lambda each: each.nanousd)
    return {
        "rows": sizes,
        "best": best,
        "most": max(figures.unmanaged.nanousd, *(each.nanousd for each in sizes)) or 1,
    }


def _largest(run: Run) -> int:
    return max((turn.tokens for turn in run.turns), default=0)


def _point(figures: SessionFigures, at: int) -> list[object]:
    """What the page says about one request."""
    turn, plain = figures.managed.turns[at], figures.unmanaged.turns
    return [
        turn.number,
        turn.tokens,
        plain[at].tokens if at < len(plain) else 0,
        turn.read_tokens,
        turn.written_tokens,
        turn.rewritten_tokens,
        ", ".join(_acted(turn)),
        _when(figures.times_ms[at]),
    ]


def _acted(turn: ReplayedTurn) -> list[str]:
    return list(dict.fromkeys(stage for stage, _, _ in turn.acted))


def _maps(figures: SessionFigures) -> list[dict[str, Any]]:
    held = figures.holds
    categories = {_INSPECTED.get(name, name): size for name, size in held.categories.items()}
    sizes = {
        "category": categories,
        "tool": {each.name: each.tokens for each in held.tools},
        "file": {each.path: each.tokens for each in held.files},
    }
    return [
        {
            "by": by,
            "sizes": sorted(found.items(), key=lambda part: -part[1]),
            "total": sum(found.values()),
            "tiles": [
                ("wide", 960, 300, treemap(found, width=960, height=300)),
                ("narrow", 360, 340, treemap(found, width=360, height=340)),
            ],
        }
        for by, found in sizes.items()
        if any(found.values())
    ]


def _count(number: int) -> str:
    return f"{number:,}"


def _dollars(nanousd: float) -> str:
    return f"${nanousd / 1e9:,.2f}"


def _share(part: int, whole: int) -> str:
    return f"{100 * part / whole:.1f} %" if whole else "–"


def _when(milliseconds: int) -> str:
    if not milliseconds:
        return ""
    return f"{datetime.fromtimestamp(milliseconds / 1000, UTC):%Y-%m-%d %H:%M} UTC"


def _class(name: str) -> str:
    """A category as a class of the style sheet."""
    return "c-" + name.replace(" ", "-")

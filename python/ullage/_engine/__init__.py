"""Chooses the engine: the Rust extension, or its twin in plain Python.

The only module that imports either. Use it as `from ullage._engine import core`.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from ullage import _env
from ullage._version import VERSION
from ullage.exceptions import EngineError, InvalidPolicy

NAME: str
"""Which engine runs: `rust` or `python`."""


def _choose() -> tuple[str, Any]:
    wanted = _env.text(_env.ENGINE)
    if wanted not in ("", "rust", "python"):
        raise InvalidPolicy(_env.ENGINE, wanted, "must be rust or python")
    if wanted == "python":
        return "python", importlib.import_module("ullage._reference")
    try:
        module = importlib.import_module("ullage._core")
    except ModuleNotFoundError as exc:
        # Only a missing extension is a reason to fall back; a broken one stays loud.
        if exc.name != "ullage._core":
            raise
        if wanted == "rust":
            reason = "ULLAGE_ENGINE=rust, but the extension is not installed"
            raise EngineError(reason, hint="pip install .") from exc
        return "python", importlib.import_module("ullage._reference")
    if module.__version__ != VERSION:
        reason = f"extension {module.__version__} does not belong to ullage {VERSION}"
        raise EngineError(reason, hint="rebuild it: pip install --force-reinstall .")
    return "rust", module


if TYPE_CHECKING:
    from ullage import _core as core
else:
    NAME, core = _choose()

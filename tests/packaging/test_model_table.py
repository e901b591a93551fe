"""The model table next to the one that litellm publishes."""

from __future__ import annotations

import datetime
import json
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
if not (ROOT / "tools/model_table.py").is_file():
    pytest.skip("the sources are not here: `make types` runs this", allow_module_level=True)

# Only where they are.
from tools import model_table  # noqa: E402
from tools.release import texts  # noqa: E402

from ullage.counting.models import ModelTable  # noqa: E402


def test_the_public_table_differs_only_where_somebody_has_looked(capsys):
    pytest.importorskip("litellm", reason="`make integrations` installs it")
    assert model_table.main([]) == 0, capsys.readouterr().out


def test_a_new_difference_is_shown(tmp_path, capsys):
    rows = {
        "gpt-9": {"mode": "chat", "litellm_provider": "openai", "max_input_tokens": 7_000},
        "gpt-4o": {"mode": "chat", "litellm_provider": "openai", "max_input_tokens": 7_000},
        "o1": {"mode": "chat", "litellm_provider": "openai", "max_input_tokens": 200_000},
        "text-embedding-3": {"mode": "embedding", "litellm_provider": "openai"},
    }
    path = tmp_path / "table.json"
    path.write_text(json.dumps(rows))
    assert model_table.main(["--file", str(path)]) == 1
    said = capsys.readouterr().out
    assert "gpt-4o" in said
    assert "unknown" in said
    assert "2 differences, 2 shown" in said


def test_a_release_with_an_old_table_is_a_finding():
    written = datetime.date.fromisoformat(ModelTable.builtin().version)
    assert not list(texts.model_table(ROOT, written + datetime.timedelta(days=60)))
    (finding,) = texts.model_table(ROOT, written + datetime.timedelta(days=61))
    assert "61 days" in str(finding)
    assert "tools.model_table" in str(finding)

"""Every store does what `ullage.testing.stores` asks of one."""

from __future__ import annotations

import pytest

from ullage.stores import FolderStore, SqliteStore
from ullage.testing.stores import STORE_CHECKS

checks = pytest.mark.parametrize("check", STORE_CHECKS, ids=lambda check: check.__name__)


@checks
def test_sqlite(check, tmp_path):
    check(lambda: SqliteStore(tmp_path / "fleet.db"))


@checks
def test_a_folder(check, tmp_path):
    check(lambda: FolderStore(tmp_path / "fleet"))

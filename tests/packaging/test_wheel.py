"""What is inside the installed distribution."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, distribution, version
from pathlib import Path

import pytest

import ullage

MEGABYTE = 1_000_000


def only_sources() -> bool:
    """Whether the package runs from a checkout that nobody installed. With an installed wheel, no `Cargo.toml` is."""
    try:
        distribution("ullage")
    except PackageNotFoundError:
        return (Path(__file__).parents[2] / "Cargo.toml").is_file()
    return False


pytestmark = pytest.mark.skipif(only_sources(), reason="nothing is installed: these are sources")


def files() -> set[str]:
    return {str(path) for path in distribution("ullage").files or ()}


def test_holds_extension_stub_and_marker():
    names = files()
    assert any(
        name.startswith("ullage/_core.") and name.endswith((".so", ".pyd")) for name in names
    )
    assert {"ullage/_core.pyi", "ullage/py.typed"} <= names
    assert any(name.endswith("LICENSE") for name in names)


def test_its_version_is_that_of_the_package():
    assert version("ullage") == ullage.__version__


def test_needs_orjson_and_nothing_else():
    requires = [name for name in distribution("ullage").requires or () if "extra ==" not in name]
    assert [name.split(">")[0] for name in requires] == ["orjson"]


def test_stays_small_on_disk():
    # The wheel is a zip of these files: at most 8 MB; unpacked it may be twice that.
    root = Path(ullage.__file__).parent
    size = sum(
        path.stat().st_size for path in root.rglob("*") if path.is_file() and path.suffix != ".pyc"
    )
    assert size < 16 * MEGABYTE

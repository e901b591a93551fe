"""Each thing that the release check looks at can fail, and this checkout passes but for what has no address yet."""

from __future__ import annotations

import base64
import hashlib
import io
import shutil
import subprocess
import tarfile
import zipfile
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
if not (ROOT / "tools/release_check.py").is_file():
    pytest.skip("the sources are not here: `make types` runs this", allow_module_level=True)

# Only where they are.
from tools import release_check  # noqa: E402
from tools.release import address, archives, bill, licences, texts  # noqa: E402
from tools.release.finding import Finding  # noqa: E402

INFO = "ullage-0.1.0.dist-info"
PROJECT = """
[project]
name = "ullage"
description = "Keeps room."
readme = "README.md"
requires-python = ">=3.11"
license = "MIT"
license-files = ["LICENSE"]
keywords = ["llm"]
dynamic = ["version"]
dependencies = ["orjson>=3.10"]
classifiers = [
  "Development Status :: 3 - Alpha",
  "Intended Audience :: Developers",
  "Programming Language :: Python :: 3.11",
  "Programming Language :: Python :: 3.12",
  "Programming Language :: Python :: 3.13",
  "Programming Language :: Python :: 3.14",
  "Typing :: Typed",
]
[project.optional-dependencies]
cli = ["rich>=13"]
[project.urls]
Source = "https://example.invalid/source"
Documentation = "https://example.invalid/docs"
Changelog = "https://example.invalid/changes"
Issues = "https://example.invalid/issues"
"""
FILES = {
    "Cargo.toml": '[workspace]\nmembers = ["rust/core", "rust/python"]\n[workspace.package]\nversion = "0.1.0"\n',
    "Cargo.lock": "version = 4\n"
    + "".join(
        f'[[package]]\nname = "ullage-{name}"\nversion = "0.1.0"\n' for name in ("core", "python")
    ),
    "LICENSE": "MIT",
    "README.md": "# Ullage\n\n" + "Keeps room in a context window. " * 10,
    "CHANGELOG.md": "# Changelog\n\n## [Unreleased]\n\n## [0.1.0] - 2026-01-02\n",
    "pyproject.toml": PROJECT,
    "python/ullage/__init__.py": "",
    "python/ullage/_version.py": 'VERSION = "0.1.0"\n',
    "python/ullage/_core.pyi": "",
    "python/ullage/py.typed": "",
    "python/ullage/data/weights.json": "{}",
    "rust/core/src/lib.rs": "",
    "rust/core/Cargo.toml": '[package]\nname = "ullage-core"\nversion = "0.1.0"\n',
    "rust/python/src/lib.rs": "",
    "rust/python/Cargo.toml": '[package]\nname = "ullage-python"\nversion = "0.1.0"\n',
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A project in which nothing is wrong."""
    for name, text in FILES.items():
        path = tmp_path / "project" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return tmp_path / "project"


def edit(root: Path, name: str, old: str, new: str) -> None:
    text = (root / name).read_text(encoding="utf-8")
    assert old in text
    (root / name).write_text(text.replace(old, new), encoding="utf-8")


def metadata(root: Path) -> str:
    said = texts.project(root)
    rows = [
        "Metadata-Version: 2.4",
        "Name: ullage",
        "Version: 0.1.0",
        "Summary: Keeps room.",
        "License-Expression: MIT",
        "Requires-Python: >=3.11",
        "Description-Content-Type: text/markdown",
        "Provides-Extra: cli",
        *(f"Classifier: {each}" for each in said["classifiers"]),  # type: ignore[attr-defined]
        *(f"Project-URL: {name}, {url}" for name, url in texts.table(said["urls"]).items()),
    ]
    return "\n".join(rows) + "\n\n" + FILES["README.md"]


def contents(root: Path) -> dict[str, str]:
    """What a right wheel holds, but for RECORD."""
    held = {
        name.removeprefix("python/"): text
        for name, text in FILES.items()
        if name.startswith("python/")
    }
    held["ullage/_core.cpython-311-x86_64-linux-gnu.so"] = "machine code"
    held[f"{INFO}/METADATA"] = metadata(root)
    held[f"{INFO}/WHEEL"] = "Wheel-Version: 1.0\n"
    held[f"{INFO}/entry_points.txt"] = "[console_scripts]\nullage=ullage.cli:main\n"
    held[f"{INFO}/licenses/LICENSE"] = "MIT"
    return held


def digest(text: str) -> str:
    made = hashlib.sha256(text.encode()).digest()
    return base64.urlsafe_b64encode(made).rstrip(b"=").decode()


def write_wheel(root: Path, held: dict[str, str], name: str = "") -> Path:
    path = root.parent / (name or "ullage-0.1.0-cp311-cp311-manylinux_2_28_x86_64.whl")
    record = "".join(f"{each},sha256={digest(text)},{len(text)}\n" for each, text in held.items())
    with zipfile.ZipFile(path, "w") as archive:
        for each, text in {**held, f"{INFO}/RECORD": record}.items():
            archive.writestr(each, text)
    return path


def write_sdist(root: Path, held: dict[str, str]) -> Path:
    path = root.parent / "ullage-0.1.0.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        for name, text in held.items():
            row = tarfile.TarInfo(f"ullage-0.1.0/{name}")
            row.size = len(text.encode())
            archive.addfile(row, io.BytesIO(text.encode()))
    return path


def sdist_contents(root: Path) -> dict[str, str]:
    held = {name: text for name, text in FILES.items() if name != "CHANGELOG.md"}
    return {**held, "PKG-INFO": metadata(root)}


def lines(found: Iterable[Finding]) -> list[str]:
    return [str(each) for each in found]


def one(found: Iterable[Finding], part: str) -> None:
    """Exactly one finding, a line with place, value and next step."""
    said = lines(found)
    assert len(said) == 1, said
    assert part in said[0]
    assert ": " in said[0]
    assert "; " in said[0]
    assert "\n" not in said[0]


def test_a_right_project_has_no_findings(root: Path) -> None:
    assert lines(release_check.source(root, None)) == []
    assert lines(release_check.source(root, "v0.1.0")) == []
    assert lines(archives.wheel(write_wheel(root, contents(root)), root)) == []


def test_this_checkout_lacks_only_its_address(tmp_path: Path) -> None:
    one(release_check.source(ROOT, None), "the project has no address")
    for name in ("README.md", "pyproject.toml", "CHANGELOG.md", "Cargo.toml", "Cargo.lock"):
        shutil.copy(ROOT / name, tmp_path)
    (tmp_path / "python/ullage").mkdir(parents=True)
    shutil.copy(ROOT / "python/ullage/_version.py", tmp_path / "python/ullage")
    for name in ("docs", "examples", "CONTRIBUTING.md", "LICENSE"):
        (tmp_path / name).symlink_to(ROOT / name)
    for place in ("https://example.invalid/first/it", "https://example.invalid/then/it/"):
        assert address.main([place], tmp_path) == 0
        assert lines(release_check.source(tmp_path, None)) == []
        assert (tmp_path / "pyproject.toml").read_text().count("[project.urls]") == 1
    assert "/then/it/issues" in (tmp_path / "pyproject.toml").read_text()
    assert "/first/it/raw/main/docs/picture.svg" in (tmp_path / "README.md").read_text()
    with pytest.raises(SystemExit):
        address.main(["example.invalid/it"], tmp_path)


@pytest.mark.parametrize(
    ("name", "old", "new", "said"),
    [
        ("python/ullage/_version.py", "0.1.0", "0.2.0", "_version.py: version 0.2.0"),
        (
            "Cargo.lock",
            'core"\nversion = "0.1',
            'core"\nversion = "0.3',
            "ullage-core: version 0.3",
        ),
        ("pyproject.toml", 'dynamic = ["version"]', 'version = "9"', "pyproject.toml: version 9"),
        ("CHANGELOG.md", "## [Unreleased]\n", "", "no [Unreleased]"),
        ("CHANGELOG.md", " - 2026-01-02", "", "[0.1.0] without a date"),
        (
            "CHANGELOG.md",
            "## [0.1.0]",
            "## [0.0.9] - 2026-01-01\n## [0.1.0]",
            "put the newest first",
        ),
        ("README.md", "# Ullage", "# Ullage\n[it](LICENSE)", "LICENSE; the package index cannot"),
        (
            "README.md",
            "# Ullage",
            '# Ullage\n<img src="a.png">',
            "link a.png; there is no such file",
        ),
        ("README.md", "# Ullage", "# Ullage\n[there](#nowhere)", "link #nowhere"),
        ("pyproject.toml", 'license = "MIT"\n', "", "project.license is missing"),
        ("pyproject.toml", "README.md", "README.rst", "project.readme README.rst"),
        ("pyproject.toml", "Issues =", "Chat =", "project.urls.issues is missing"),
        ("pyproject.toml", '  "Typing :: Typed",\n', "", "Typing :: Typed is missing"),
        ("pyproject.toml", "Python :: 3.14", "Python :: 3.15", "Python :: 3.14 is missing"),
        ("pyproject.toml", '"Typing', '"License :: Free",\n  "Typing', "License :: Free"),
    ],
)
def test_what_is_wrong_in_the_texts_is_found(
    root: Path, name: str, old: str, new: str, said: str
) -> None:
    edit(root, name, old, new)
    one(release_check.source(root, None), said)


def test_links_in_code_and_to_headings_are_no_findings() -> None:
    page = "# A b\n`[x](y)` [c](#a-b) [d](https://example.invalid)\n```\n[e](f)\n```\n"
    assert lines(texts.links("README.md", page, Path())) == []


def test_a_release_has_its_tag_and_its_heading(root: Path) -> None:
    one(release_check.source(root, "v0.1.1"), "tag: version 0.1.1")
    edit(root, "CHANGELOG.md", "## [0.1.0] - 2026-01-02\n", "")
    one(release_check.source(root, "v0.1.0"), "no heading for 0.1.0")


BREAK: dict[str, tuple[Callable[[dict[str, str]], object], str]] = {
    "no marker of types": (lambda held: held.pop("ullage/py.typed"), "py.typed is missing"),
    "no stub": (lambda held: held.pop("ullage/_core.pyi"), "_core.pyi is missing"),
    "no data": (lambda held: held.pop("ullage/data/weights.json"), "weights.json is missing"),
    "no licence": (lambda held: held.pop(f"{INFO}/licenses/LICENSE"), "LICENSE is missing"),
    "no commands": (lambda held: held.pop(f"{INFO}/entry_points.txt"), "entry_points.txt is"),
    "no extension": (
        lambda held: held.pop("ullage/_core.cpython-311-x86_64-linux-gnu.so"),
        "extensions: []",
    ),
    "tests": (lambda held: held.update({"tests/test_a.py": ""}), "tests/test_a.py strayed in"),
    "a file at the top": (lambda held: held.update({"notes.txt": ""}), "notes.txt strayed in"),
    "other version": (
        lambda held: held.update(
            {f"{INFO}/METADATA": held[f"{INFO}/METADATA"].replace("0.1.0", "0.0.1")}
        ),
        "Version 0.0.1",
    ),
    "plain readme": (
        lambda held: held.update(
            {f"{INFO}/METADATA": held[f"{INFO}/METADATA"].replace("text/markdown", "text/plain")}
        ),
        "readme type text/plain",
    ),
    "no extra": (
        lambda held: held.update(
            {f"{INFO}/METADATA": held[f"{INFO}/METADATA"].replace("Provides-Extra: cli\n", "")}
        ),
        "Provides-Extra cli is missing",
    ),
    "no address": (
        lambda held: held.update(
            {f"{INFO}/METADATA": held[f"{INFO}/METADATA"].replace("Project-URL: Issues,", "X: ")}
        ),
        "Project-URL Issues is missing",
    ),
    "no readme": (
        lambda held: held.update(
            {f"{INFO}/METADATA": held[f"{INFO}/METADATA"].split("\n\n")[0] + "\n\n"}
        ),
        "no README",
    ),
}


@pytest.mark.parametrize("name", BREAK)
def test_a_broken_wheel_is_found(root: Path, name: str) -> None:
    held = contents(root)
    change, said = BREAK[name]
    change(held)
    one(archives.wheel(write_wheel(root, held), root), said)


def test_a_transcript_in_the_package_is_found_twice(root: Path) -> None:
    held = {**contents(root), "ullage/data/session.jsonl": "{}"}
    found = lines(archives.wheel(write_wheel(root, held), root))
    assert len(found) == 2
    assert "not in the source" in found[0]
    assert "strayed in" in found[1]


def test_an_extension_in_the_wheel_without_rust_is_found(root: Path) -> None:
    path = write_wheel(root, contents(root), "ullage-0.1.0-py3-none-any.whl")
    one(archives.wheel(path, root), "extensions: ['ullage/_core")


def test_an_edited_file_does_not_match_the_record(root: Path) -> None:
    path = write_wheel(root, contents(root))
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(path.with_suffix(".zip"), "w") as new:
        for name in old.namelist():
            new.writestr(name, old.read(name) + (b"#" if name.endswith("_version.py") else b""))
    path.with_suffix(".zip").replace(path)
    one(archives.wheel(path, root), "RECORD does not match ullage/_version.py")


def test_a_large_wheel_is_found(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archives, "MOST_BYTES", 100)
    one(archives.wheel(write_wheel(root, contents(root)), root), "bytes; at most 100")


@pytest.mark.skipif(shutil.which("cargo") is None, reason="no cargo")
def test_a_sdist_that_cargo_reads_has_no_findings(root: Path) -> None:
    assert lines(archives.sdist(write_sdist(root, sdist_contents(root)), root)) == []


@pytest.mark.skipif(shutil.which("cargo") is None, reason="no cargo")
@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"tests/test_a.py": ""}, "tests/test_a.py strayed in"),
        ({"rust/core/tests/properties.rs": ""}, "properties.rs strayed in"),
        ({"python/ullage/more.py": ""}, "more.py is not in the source"),
        ({"LICENSE": None}, "LICENSE is missing"),
        ({"python/ullage/py.typed": None}, "py.typed is missing"),
        ({"rust/core/Cargo.toml": None}, "cargo: "),
    ],
)
def test_a_broken_sdist_is_found(root: Path, changed: dict[str, str | None], said: str) -> None:
    held = {**sdist_contents(root), **changed}
    path = write_sdist(root, {name: text for name, text in held.items() if text is not None})
    one(archives.sdist(path, root), said)


def test_nothing_built_is_found(root: Path) -> None:
    found = lines(release_check.built(root, root / "dist"))
    assert len(found) == 2
    assert "make wheel" in found[0]


@pytest.mark.parametrize(
    ("expression", "right"),
    [
        ("MIT", True),
        ("MIT/Apache-2.0", True),
        ("GPL-3.0-only", False),
        ("GPL-3.0-only OR MIT", True),
        ("(MIT OR Apache-2.0) AND Unicode-3.0", True),
        ("(MIT OR Apache-2.0) AND GPL-3.0-only", False),
        ("Apache-2.0 WITH LLVM-exception", True),
        ("Apache-2.0 WITH Other-exception", False),
        ("MIT OR GPL-3.0-only AND LGPL-3.0-only", True),
        ("(MIT", False),
        ("", False),
    ],
)
def test_expressions_of_licences(expression: str, right: bool) -> None:
    assert licences.allowed(expression) is right


def test_a_crate_that_is_not_allowed_is_found() -> None:
    one(
        licences.rust([licences.Crate("i", "bad", "1.0", "GPL-3.0-only", ())]), "crate bad 1.0: GPL"
    )
    one(licences.rust([licences.Crate("i", "bad", "1.0", "", ())]), licences.UNKNOWN)


def test_python_packages_that_are_absent_or_not_allowed_are_found(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    edit(root, "pyproject.toml", "orjson>=3.10", "ullage-has-no-such-dependency>=1")
    edit(root, "pyproject.toml", "rich>=13", "pytest>=9")
    monkeypatch.setattr(licences, "ALLOWED", {"Zlib"})
    found = list(licences.python(root))
    assert [absent for absent, _ in found] == [True, False]
    assert "ullage-has-no-such-dependency: not installed" in str(found[0][1])
    assert "package pytest (extra cli): MIT" in str(found[1][1])
    monkeypatch.setattr(licences, "ALLOWED", {"MIT"})
    assert lines(release_check.packages(root, None)) == []
    assert len(lines(release_check.packages(root, "v0.1.0"))) == 1


def test_the_bill_of_materials_lists_crates_and_packages(root: Path) -> None:
    crates = [
        licences.Crate("a", "ullage-python", "0.1.0", "MIT", ("b",)),
        licences.Crate("b", "memchr", "2.8.3", "Unlicense/MIT", ()),
    ]
    made = bill.bill(root, crates)
    assert made == bill.bill(root, crates)
    rows = {row["bom-ref"]: row for row in made["components"]}  # type: ignore[attr-defined]
    assert rows["pkg:cargo/memchr@2.8.3"]["licenses"] == [{"expression": "Unlicense OR MIT"}]
    assert rows["pkg:pypi/orjson"]["scope"] == "required"
    assert rows["pkg:pypi/rich?extra=cli"]["scope"] == "optional"
    referred = {each for row in made["dependencies"] for each in row["dependsOn"]}  # type: ignore[attr-defined]
    assert referred <= set(rows)


def test_findings_mean_exit_code_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(root: Path) -> list[licences.Crate]:
        raise subprocess.CalledProcessError(101, "cargo", stderr="error: no such crate\n")

    monkeypatch.setattr(licences, "crates", fails)
    assert release_check.main(["--dist", str(tmp_path)]) == 1
    printed = capsys.readouterr().out
    assert "cargo metadata: error: no such crate; run `cargo fetch --locked` first" in printed
    assert "build one: make wheel" in printed

"""Pages of the documentation that are made of the code when the site is built: commands, settings and public names."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator
from types import FunctionType
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.utils import get_relative_url

ROOMS = (
    "ullage",
    "ullage.exceptions",
    "ullage.compaction",
    "ullage.counting",
    "ullage.requests",
    "ullage.legality",
    "ullage.transcript",
    "ullage.sessions",
    "ullage.stores",
    "ullage.levels",
    "ullage.observe",
    "ullage.observe.events",
    "ullage.summarizers",
    "ullage.recall",
    "ullage.memory.session",
    "ullage.memory.notes",
    "ullage.batch",
    "ullage.replay",
    "ullage.report",
    "ullage.testing",
)
"""Rooms whose public names the reference lists."""

RECORDS = {
    "ullage": ("ullage.manager.options.ManagerOptions",),
    "ullage.compaction": tuple(
        f"ullage.compaction.job.{name}Options" for name in ("Summary", "Compaction", "List")
    ),
}
"""Records of the `**options` that names of a room take: what each means is said there alone."""

POLICY = """Every threshold is a field. `Policy.buffered()` is the default; `Policy.ladder()` has shares of the window.
`ullage policy` prints the values in effect. How to change one: [settings](../how-to/settings.md)."""


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds the pages that no one writes by hand."""
    for path, page in (
        *api_pages().items(),
        ("reference/cli.md", cli_page()),
        ("reference/policy.md", policy_page()),
    ):
        files.append(File.generated(config, path, content=page))
    return files


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Lists the pages of the rooms in the menu, next to the one that names them all."""
    reference = next(part["Reference"] for part in config.nav or [] if "Reference" in part)
    rooms = next(part["API"] for part in reference if "API" in part)
    rooms += [{room: f"reference/api/{room}.md"} for room in ROOMS]
    return config


def on_post_page(output: str, page: Any, config: MkDocsConfig) -> str:
    """Loads the search's stand-in for workers from the site, not from a server of others."""
    return output.replace(
        "https://unpkg.com/iframe-worker/shim",
        get_relative_url("assets/search-from-file.js", page.url),
    )


API = """# API

The public names, by room. All that they have that does not begin with `_` is public; everything else may change in any version: [stability](../../stability.md).
"""


def api_pages() -> dict[str, str]:
    """A page for each room with every public name by its docstring, and one that lists them all."""
    index, shown, pages = [API], dict[str, str](), dict[str, str]()
    for room in ROOMS:
        module = importlib.import_module(room)
        parts, named = [f"# {room}", "", first_line(module.__doc__), ""], list[str]()
        for name, home in names_of(room, module):
            # A name that several rooms offer is described once: its anchor may stand only once in the site.
            place = shown.setdefault(home, room)
            parts += [f"::: {home}" if place == room else f"- [`{name}`]({place}.md#{home})", ""]
            named.append(f"[`{name}`]({place}.md#{home})")
        for home in RECORDS.get(room, ()):
            parts += [f"::: {home}", ""]
        pages[f"reference/api/{room}.md"] = "\n".join(parts)
        index += [
            f"## [{room}]({room}.md)",
            "",
            first_line(module.__doc__),
            "",
            ", ".join(named),
            "",
        ]
    return {"reference/api/index.md": "\n".join(index), **pages}


def names_of(room: str, module: Any) -> Iterator[tuple[str, str]]:
    """The public classes and functions of a room, each with where it is defined."""
    for name in public(module):
        if callable(value := getattr(module, name)):
            yield name, home_of(room, name, value)


def members_of(home: str) -> Iterator[str]:
    """The anchors of a class's public methods and properties, those of its bases within Ullage included."""
    module, _, name = home.rpartition(".")
    value = getattr(importlib.import_module(module), name)
    for base in value.__mro__ if isinstance(value, type) else ():
        if base.__module__.startswith("ullage"):
            found = (key for key, each in vars(base).items() if _is_method(each) and key[0] != "_")
            yield from (f"{home}.{key}" for key in found)


def _is_method(value: object) -> bool:
    return isinstance(value, FunctionType | property | classmethod | staticmethod)


def public(module: Any) -> list[str]:
    """The names of a room; where it has no list of its own, those that it defines."""
    listed = getattr(module, "__all__", None)
    return list(listed or (name for name in dir(module) if is_own(module, name)))


def is_own(module: Any, name: str) -> bool:
    """The top level takes its names from the rooms."""
    home = str(getattr(getattr(module, name), "__module__", ""))
    return not name.startswith("_") and home.startswith(module.__name__)


def home_of(room: str, name: str, value: Any) -> str:
    """Where the name is defined, which is where its documentation is found."""
    module = getattr(value, "__module__", room)
    known = module.startswith("ullage") and getattr(value, "__name__", "") == name
    return f"{module}.{name}" if known else f"{room}.{name}"


def first_line(text: str | None) -> str:
    """The first sentence of a docstring."""
    return (text or "").strip().split("\n\n")[0].replace("\n", " ")


ENDS = (
    ("0", "success"),
    ("1", "a negative result: a check failed, or there was nothing to gain"),
    ("2", "bad input or usage"),
    ("130", "interrupted"),
)


def cli_page() -> str:
    """Every command with its options, defaults and examples."""
    from ullage.cli.app import EXAMPLES, command_apps

    parts = [
        "# Command line",
        "",
        "`pip install 'ullage[cli]'`; `ullage COMMAND --help` prints the same.",
        "",
    ]
    parts += ["Exit codes: " + "; ".join(f"{code} {meaning}" for code, meaning in ENDS) + ".", ""]
    for name, app in command_apps():
        about = str(app.help).partition("Args:")[0]  # what options are is in their table
        parts += [f"## ullage {name}", "", about.strip(), ""]
        if app.default_command is not None:
            parts += options(app)
        if name in EXAMPLES:
            lines = re.findall("`(.*?)`", EXAMPLES[name])
            parts += ["```sh", *lines, "```", ""]
    return "\n".join(parts)


def options(app: Any) -> Iterator[str]:
    """A table of the arguments of a command."""
    yield "| option | |"
    yield "| --- | --- |"
    for argument in app.assemble_argument_collection(parse_docstring=True):
        if argument.parameter.show is not False:
            names = ", ".join(f"`{name}`" for name in argument.names)
            yield f"| {names} | {cell(argument.parameter.help or '')} |"
    yield ""


def policy_page() -> str:
    """Every field of the policy with its value in both presets, unit and reason."""
    from ullage.policy import Policy

    buffered, ladder = Policy.buffered().effective(), Policy.ladder().effective()
    other = {each.name: each.value for each in ladder}
    parts = [
        "# Policy",
        "",
        POLICY,
        "",
        "| field | buffered | ladder | unit | why |",
        "| --- | --: | --: | --- | --- |",
    ]
    for each in buffered:
        values = f"{value(each.value)} | {value(other.get(each.name))}"
        parts.append(f"| `{each.name}` | {values} | {cell(each.unit)} | {cell(each.why)} |")
    return "\n".join(parts) + "\n"


def value(found: object) -> str:
    """A value as a cell."""
    if isinstance(found, bool):
        return "on" if found else "off"
    if isinstance(found, tuple):
        return f"{len(found)} names"
    return f"{found:,}" if isinstance(found, int) else cell(str(found))


def cell(text: str) -> str:
    """Text that cannot end its cell."""
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")

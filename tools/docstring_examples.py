"""For the documentation site: what its generator does not know of the sources."""

from __future__ import annotations

from typing import Any

import griffe


class DocstringExamples(griffe.Extension):
    """An `Example:` of a docstring is one of `Examples:`. Without it, what an example prints would be read as Markdown."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Called for everything that was found in the sources."""
        if obj.docstring is not None:
            obj.docstring.value = obj.docstring.value.replace("\nExample:\n", "\nExamples:\n")


class FrozenDataclasses(griffe.Extension):
    """A class of `ullage._start` is labelled as the dataclass that it becomes."""

    def on_class(self, *, cls: griffe.Class, **_: Any) -> None:
        """Called for every class that was found in the sources."""
        if {"Frozen", "Group"} & set(map(str, cls.bases)):
            cls.labels.add("dataclass")

"""For the documentation site: an `Example:` of a docstring is one of `Examples:`, the name that the site's generator knows."""

from __future__ import annotations

from typing import Any

import griffe


class DocstringExamples(griffe.Extension):
    """Without it, what an example prints would be read as Markdown."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Called for everything that was found in the sources."""
        if obj.docstring is not None:
            obj.docstring.value = obj.docstring.value.replace("\nExample:\n", "\nExamples:\n")

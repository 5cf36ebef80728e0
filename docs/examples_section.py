"""Let the reference know that our `Example:` is a section with code, which griffe calls `Examples:`."""

import re
from typing import Any

import griffe


class ExamplesSection(griffe.Extension):
    """Rename the section while docstrings are loaded."""

    def on_object(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        """Rename it in one docstring."""
        if obj.docstring is not None:
            obj.docstring.value = re.sub(r"(?m)^Example:$", "Examples:", obj.docstring.value)

"""Hooks of the site: sessions are shown as such, so that prompts and answers are not copied with the code."""

from typing import Any


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Call blocks that begin with a prompt by their name; the stylesheet leaves their prompts out of the clipboard.

    Args:
        markdown: of a page.
    """
    return markdown.replace("```python\n>>>", "```pycon\n>>>")

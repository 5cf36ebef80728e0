"""Hooks of the site: sessions are shown as such, and the page of commands is written from the commands."""

from typing import Any

COMMANDS = "<!-- all commands -->"  # where they go


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Call blocks that begin with a prompt by their name; the stylesheet leaves their prompts out of the clipboard.

    Put the manual where its mark is.

    Args:
        markdown: of a page.
    """
    if COMMANDS in markdown:
        from wolf.cli import main, pages

        markdown = markdown.replace(COMMANDS, pages.markdown(main))
    return markdown.replace("```python\n>>>", "```pycon\n>>>")

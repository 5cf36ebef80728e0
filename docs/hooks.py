"""Hooks of the site: sessions are shown as such; commands and examples get pages that are written from them."""

import os
import re
import tomllib
from pathlib import Path
from typing import Any

COMMANDS = "<!-- all commands -->"  # where they go
EXAMPLES = Path(__file__).parent.parent / "examples"
GALLERY = Path(__file__).parent / "gallery.md"
# How far up the search puts what it finds: pages that say how before those that list, records last.
BOOSTS = {
    "fleet": 2,
    "reproduction/": 0.2,
    "benchmarks": 0.3,
    "worlds": 0.3,
    "real-data": 0.3,
    "reliability": 0.3,
    "architecture": 0.3,
    "commands": 0.4,
    "comparison": 0.5,
    "coming-from": 0.5,
    "api/": 0.4,
    "gallery/": 0.4,
}


def on_config(config: Any) -> Any:
    """Say on every page which version it is about; among several versions let the reader switch.

    Args:
        config: of the site.
    """
    if "MIKE_DOCS_VERSION" in os.environ:  # mike is building a version; the theme lists all of them in the header
        config.extra["version"] = {"provider": "mike", "default": "latest"}
        return config
    project = tomllib.loads((EXAMPLES.parent / "pyproject.toml").read_text())["project"]
    config.site_name = f"{config.site_name} {project['version']}"
    return config


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Call blocks that begin with a prompt by their name; the stylesheet leaves their prompts out of the clipboard.

    Put the manual where its mark is, and lead from the gallery to the pages of its examples.

    Args:
        markdown: of a page.
        page: which one.
    """
    place = page.file.src_uri
    page.meta.setdefault("search", {"boost": next((b for start, b in BOOSTS.items() if place.startswith(start)), 1)})
    if COMMANDS in markdown:
        from wolf.cli import main, manpage

        markdown = markdown.replace(COMMANDS, manpage.markdown(main))
    if place == GALLERY.name:
        markdown = re.sub(r"\(\.\./examples/(\w+)\.py\)", r"(gallery/\1.md)", markdown)
    return with_mathematics(markdown.replace("```python\n>>>", "```pycon\n>>>"))


def on_page_content(html: str, **_: Any) -> str:
    """Keep the folded source of the reference out of the search: its words would hide those of the pages.

    Args:
        html: of a page.
    """
    return html.replace(
        '<details class="mkdocstrings-source">', '<details class="mkdocstrings-source" data-search-exclude>'
    )


def with_mathematics(markdown: str) -> str:
    """Write formulas as MathML, which browsers draw by themselves: nothing is loaded, and no script runs.

    Formulas are in LaTeX, in blocks called `math` or between $` and `$, which code hosts show as well.

    Args:
        markdown: of a page.
    """
    if "```math\n" not in markdown and "$`" not in markdown:
        return markdown
    from latex2mathml.converter import convert

    markdown = re.sub(
        r"^```math\n(.*?)^```$",
        lambda found: f'<div class="formula">{convert(found[1].strip(), display="block")}</div>',
        markdown,
        flags=re.DOTALL | re.MULTILINE,
    )
    return re.sub(r"\$`([^`]+)`\$", lambda found: convert(found[1]), markdown)


def on_files(files: Any, config: Any) -> Any:
    """Add a page for each example, and a notebook for each that has cells.

    Args:
        files: of the site.
        config: of the site.
    """
    import jupytext
    from mkdocs.structure.files import File

    pictures = _pictures(GALLERY.read_text(encoding="utf-8"))
    for path in sorted(EXAMPLES.glob("*.py")):
        name, text = path.stem, path.read_text(encoding="utf-8")
        cells = jupytext.reads(text, fmt="py:percent") if "# %%" in text else None
        page = example_page(name, text, cells, pictures.get(name))
        files.append(File.generated(config, f"gallery/{name}.md", content=page))
        if cells:
            notebook = jupytext.writes(cells, fmt="ipynb")
            files.append(File.generated(config, f"gallery/{name}.ipynb", content=notebook))
    return files


def example_page(name: str, text: str, cells: Any, picture: tuple[str, str] | None) -> str:
    """Write the page of an example.

    Args:
        name: of its file, without .py.
        text: of its file.
        cells: as a notebook; None for a plain script.
        picture: its words and its file, if it has one.
    """
    shown = f"\n\n![{picture[0]}](../images/{picture[1]})\n\n" if picture else "\n\n"
    links = f"`examples/{name}.py` · [all examples](../gallery.md)"
    if not cells:
        title = text.split('"""')[1].splitlines()[0]
        return f"# {name}.py\n\n{title}{shown}```python\n{text}```\n\n{links}\n"
    first, *rest = cells.cells
    body = [cell.source if cell.cell_type == "markdown" else f"```python\n{cell.source}\n```" for cell in rest]
    links = f"[Notebook]({name}.ipynb) · {links}"
    return "\n\n".join([first.source + shown + links, *body]) + "\n"


def _pictures(gallery: str) -> dict[str, tuple[str, str]]:
    """Find the words and the file of each example's picture."""
    found = re.findall(r"!\[([^\]]+)\]\(images/([^)]+)\)(?:(?!!\[).)*?\(\.\./examples/(\w+)\.py\)", gallery, re.DOTALL)
    return {name: (words, file) for words, file, name in found}

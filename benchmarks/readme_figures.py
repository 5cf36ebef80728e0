"""The figures of speed that README gives, taken from the tables of docs/benchmarks.md: both say the same."""

import re
import textwrap
from pathlib import Path

from timing import OTHERS, OURS, PAGE, number

README = Path(__file__).parents[1] / "README.md"
BEGINS = "- **Fast.**"
WIDTH = 100  # of README's lines


def cells(page: str, part: str, label: str) -> dict[str, tuple[float, str]]:
    """Read a row of the table: of each name the number, and the times over our Kalman filter's.

    Args:
        page: text of the page.
        part: title of the part.
        label: of the row.
    """
    rows = page.partition(f"| **{part}**")[2].splitlines()
    row = next((row for row in rows if row.startswith(f"| {label} |")), None)
    if row is None:
        raise SystemExit(f'docs/benchmarks.md has no row "{label}" in "{part}"; run `make bench`')
    found = {}
    for name, cell in zip(OURS + OTHERS, row.split("|")[2:], strict=False):
        value, _, times = cell.strip().partition(" ")
        if value:
            found[name] = (float(value.replace(",", "")), times.strip("()x"))
    return found


def lines(page: str) -> list[str]:
    """Say in a paragraph how fast it is."""
    lean = cells(page, "One series", "(4, 2), means and covariances kept")
    whole = cells(page, "One series", "(4, 2)")
    online = cells(page, "One measurement at a time", "(4, 2)")
    kf, weighted, default = (number(lean[name][0] / 1e3) for name in OURS)
    floor = f"; C++ written by hand for it takes {number(lean['C++'][0] / 1e3)}" if "C++" in lean else ""
    times = {name: whole[name][1] for name in ("statsmodels", "dynamax", "OpenCV", "filterpy") if name in whole}
    first, *rest = times.items()
    others = f"{first[0]} takes {first[1]} times as long" + "".join(f", {name} {value}" for name, value in rest)
    step = sorted(online[name][0] for name in OURS)
    beside = ", ".join(f"{name} {number(online[name][0])}" for name in ("OpenCV", "filterpy") if name in online)
    text = (
        f"{BEGINS} In a series a Kalman step of the tracking problem below takes {kf} µs, a weighted one {weighted}, "
        f"the default {default}{floor}. With everything that `wolf.filter` keeps, {others}. One measurement at a time "
        f"takes {number(step[0])} to {number(step[-1])} µs ({beside}). [All of it](docs/benchmarks.md), from "
        f"`make\u00a0bench` on two cores."  # not to be broken
    )
    broken = textwrap.wrap(text, WIDTH, initial_indent="  ", subsequent_indent="  ", break_on_hyphens=False)
    return [line.replace("\u00a0", " ") for line in (broken[0].removeprefix("  "), *broken[1:])]


def write_readme(page: Path = PAGE, readme: Path = README) -> None:
    """Put the paragraph into README, in the place of the old one."""
    text = readme.read_text()
    pattern = re.compile(re.escape(BEGINS) + r".*?(?=\n- )", re.DOTALL)
    if not pattern.search(text):
        raise SystemExit(f'{readme} lacks the paragraph that begins with "{BEGINS}"')
    readme.write_text(pattern.sub(lambda _: "\n".join(lines(page.read_text())), text, count=1))

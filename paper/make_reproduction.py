"""Write the pages about the reproduction from a finished folder of `wolf reproduce`: verdicts, and one each.

wolf reproduce --scale paper --out reproduction
python paper/make_reproduction.py reproduction ["a remark about the machine"]
"""

import json
import sys
import tomllib
from collections import Counter
from pathlib import Path

from PIL import Image

from wolf_paper import registry, verdict

DOCS = Path(__file__).parent.parent / "docs"
PAGES = DOCS / "reproduction"
IMAGES = DOCS / "images" / "reproduction"
ALT_TEXTS = Path(__file__).parent / "alt_texts.toml"
WIDTH = 1300  # pixels of a picture, at most
COLOURS = 96
MOST_FIGURES = 120  # further ones that are listed; all are in results.json
WORDS = {
    verdict.AGREES: "agrees",
    verdict.AFTERWARDS: verdict.AFTERWARDS,
    verdict.DIFFERS: "differs",
    verdict.UNEXPLAINED: "**differs, unexplained**",
    verdict.NO_NUMBER: "paper gives no number",
    verdict.NO_DATA: "not run",
}
TOP = """# The paper, reproduced

`wolf reproduce` runs the experiments of Duran-Martin et al., *Outlier-robust Kalman Filtering through Generalised
Bayes* (ICML 2024), draws its figures, and compares what comes out with what was reported. The default is the paper as
printed, in float64. Where what was run differs from what is printed, that is a variant with a name of its own ("as
run"), and both are shown if it changes a conclusion. Beside the paper's methods stand what it lacks: a calibrated
weight and learned noise, which nobody tuned (one of them is the library's default), an oracle that knows which
measurements are bad, and, for tracking, the Bayes ceiling: the filter that knows the law of the noise, with many
particles.

The command comes with the package `wolf-paper`, which is in `paper/`: `pip install . ./paper` in a clone, or
`make reproduce`, which also runs it.

```console
$ wolf reproduce --list
$ wolf reproduce                      # all of it, small: minutes
$ wolf reproduce --scale paper --out reproduction
```

At the paper's scale all but the regression sets (`uci`, `uci-as-run`, `kin8nm`, `outlier-rate`) takes about half an
hour, those under two hours; `lorenz96-as-run` and `lorenz96-full` run only if named.

A run that is interrupted goes on where it was; rows (CSV), figures (PNG and SVG) and a manifest of settings, seed,
versions and machine are in the folder. The command ends with exit code 1 if a figure differs from what was reported
and nobody has said why. Every number and picture on these pages comes from such a folder, by
`python paper/make_reproduction.py reproduction`.

"""


def main(folder: Path, remark: str = "") -> None:
    """Write the page of verdicts, a page for each experiment, and the pictures."""
    known = registry.experiments()
    done = {name: _load(folder / name) for name in known if (folder / name / "results.json").exists()}
    for place, kind in ((PAGES, "*.md"), (IMAGES, "*.png")):
        place.mkdir(parents=True, exist_ok=True)
        for old in place.glob(kind):
            old.unlink()
    top = [TOP + _conditions(done, remark), "", *_summary(known, done), "", *_abstract(done)]
    _write("index", [*top, *_differences(done)])
    for name, (results, manifest) in done.items():
        _write(name, _page(known[name], results, manifest, folder / name))
    size = sum(path.stat().st_size for path in IMAGES.glob("*.png"))
    print(f"{len(done)} of {len(known)} experiments, pictures {size / 1e6:.1f} MB")


def _write(name: str, lines: list[str]) -> None:
    (PAGES / f"{name}.md").write_text("\n".join(lines).rstrip() + "\n", encoding="utf-8")


def _load(folder: Path) -> tuple[dict, dict]:
    return tuple(json.loads((folder / name).read_text()) for name in ("results.json", "manifest.json"))


def _conditions(done: dict, remark: str) -> str:
    """Say on what all of it was run."""
    manifests = [manifest for _, manifest in done.values()]
    machines = {f"{each['machine']['processor']}, {each['machine']['cores']} cores" for each in manifests}
    versions = manifests[0]["versions"]
    days = sorted({each["written"][:10] for each in manifests})
    shown = ", ".join(f"{name} {versions[name]}" for name in ("wolf", "python", "jax", "numpy"))
    where = f"Run on {' and '.join(sorted(machines))}, {' to '.join(dict.fromkeys((days[0], days[-1])))}; {shown}."
    return f"{where} {remark}".rstrip()


def _summary(known: dict, done: dict) -> list[str]:
    lines = ["## Verdicts", "", "| experiment | shows | time | verdicts |", "|---|---|---|---|"]
    for name, experiment in known.items():
        if name not in done:
            lines.append(f"| `{name}` | {experiment.shows} | | not run for this page |")
            continue
        results, manifest = done[name]
        link = f"[`{name}`]({name}.md)"
        note = "" if manifest["scale"] == "paper" else f" (scale {manifest['scale']})"
        lines.append(f"| {link} | {experiment.shows} | {_time(results['seconds'])} | {_counts(results)}{note} |")
    return lines


def _abstract(done: dict) -> list[str]:
    """Judge what the abstract says over all experiments, in one table."""
    lines = ["## What the abstract says", ""]
    limit = "a match is an error at most 10 % larger (set when the results were known)"
    lines += [f"It matches or outperforms other robust filters; {limit}.", ""]
    lines += ["| experiment | | here | verdict |", "|---|---|---|---|"]
    for name, (results, _) in done.items():
        for found in results["verdicts"]:
            if found["source"].startswith("paper, abstract"):
                row = (f"[`{name}`]({name}.md)", found["name"], _figure(found), WORDS[found["status"]])
                lines.append(f"| {' | '.join(row)} |")
    return [*lines, ""]


def _differences(done: dict) -> list[str]:
    """Name every known reason once, with what it explains."""
    reasons: dict[str, list[str]] = {}
    for name, (results, _) in done.items():
        for found in results["verdicts"]:
            if found["status"] == verdict.DIFFERS:
                reasons.setdefault(found["note"], []).append(f"{name}: {found['name']}")
    if not reasons:
        return []
    lines = ["## Where it differs, and why", ""]
    for note, what in reasons.items():
        shown = "; ".join(what[:3]) + (f"; and {len(what) - 3} more" if len(what) > 3 else "")
        lines.append(f"- {note[0].upper()}{note[1:].rstrip('.')}. *({shown})*")
    return lines


def _page(experiment, results: dict, manifest: dict, folder: Path) -> list[str]:
    name, scale = experiment.name, manifest["scale"]
    lines = [f"# {name}", "", f"**{experiment.title}.** Shows {experiment.shows}.", ""]
    lines += ["```console", f"$ wolf reproduce {name} --scale {scale} --seed {manifest['seed']}", "```", ""]
    if manifest["parts_without_data"]:
        lines += [f"Parts that were not run for this page: {', '.join(manifest['parts_without_data'])}.", ""]
    for remark in experiment.remarks:
        lines += [f"- {remark}"]
    lines += [""] if experiment.remarks else []
    for picture in results["pictures"]:
        short = name if name.endswith(picture) else picture if picture.startswith(name) else f"{name}-{picture}"
        _shrink(folder / f"{picture}.png", IMAGES / f"{short}.png")
        lines += [_shown(short), ""]
    return lines + _tables(results["verdicts"]) + _all_figures(results)


def _shown(name: str) -> str:
    """Show a picture with what is seen in it; one that nobody has told yet has its name, which the tests refuse."""
    told = tomllib.loads(ALT_TEXTS.read_text(encoding="utf-8"))
    return f"![{told.get(name, name)}](../images/reproduction/{name}.png)"


def _all_figures(results: dict) -> list[str]:
    """List, folded, what else was measured."""
    judged = {found["name"] for found in results["verdicts"]}
    rest = {name: value for name, value in results["measured"].items() if name not in judged and value is not None}
    if not 0 < len(rest) <= MOST_FIGURES:
        return []
    rows = [f"<tr><td>{name}</td><td>{value:.4g}</td></tr>" for name, value in rest.items()]
    return ["", "<details><summary>What else was measured</summary>", "<table>", *rows, "</table></details>"]


def _tables(verdicts: list[dict]) -> list[str]:
    """Lay out our figures beside the reported ones, a table for each source; reasons are numbered below."""
    lines, reasons = [], []
    sources = dict.fromkeys(found["source"] for found in verdicts)
    for source in sources:
        rows = []
        for found in verdicts:
            if found["source"] != source:
                continue
            text = WORDS[found["status"]]
            if found["status"] == verdict.DIFFERS:
                if found["note"] not in reasons:
                    reasons.append(found["note"])
                text += f" ({reasons.index(found['note']) + 1})"
            rows.append(f"| {found['name']} | {_figure(found)} | {_reported(found)} | {text} |")
        lines += [f"Reported: {source}.", "", "| | here | reported | verdict |", "|---|---|---|---|", *rows, ""]
    for number, reason in enumerate(reasons, 1):
        lines.append(f"({number}) Differs because {reason.rstrip('.')}.  ")
    return lines


def _figure(found: dict) -> str:
    if found["measured"] is None:
        return ""
    if found["expected"] == "holds":
        return "yes" if found["measured"] > 0 else "no"
    return f"{found['measured']:.3g}" if abs(found["measured"]) < 1e3 else f"{found['measured']:.4g}"


def _reported(found: dict) -> str:
    return "yes" if found["expected"] == "holds" else found["expected"]


def _counts(results: dict) -> str:
    counts = Counter(found["status"] for found in results["verdicts"])
    return ", ".join(f"{counts[status]} {words}" for status, words in WORDS.items() if counts[status]) or "-"


def _time(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.0f} min"


def _shrink(source: Path, target: Path) -> None:
    """Copy a picture with fewer pixels and colours."""
    picture = Image.open(source).convert("RGB")
    if picture.width > WIDTH:
        picture = picture.resize((WIDTH, round(picture.height * WIDTH / picture.width)), Image.Resampling.LANCZOS)
    picture.quantize(COLOURS, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE).save(target, optimize=True)


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "reproduction"), *sys.argv[2:3])

"""Run every example and draw the pictures of the gallery.

python docs/make_gallery.py [NAME ...]
"""

import os
import runpy
import sys
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
from PIL import Image

from wolf.plots import style

ROOT = Path(__file__).parent.parent
IMAGES = ROOT / "docs" / "images" / "gallery"
COLOURS = 96


def small(path):
    """Write a picture with few colours."""
    picture = Image.open(path).convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE)
    picture.save(IMAGES / path.name, optimize=True)
    print(f"{path.name}: {(IMAGES / path.name).stat().st_size / 1e3:.0f} kB")


def draw_fusion():
    """Where a car with three sensors was, by two filters that had all of them."""
    fusion = runpy.run_path(str(ROOT / "examples" / "fusion.py"))
    truth, said = fusion["drive"](0)
    fixes = [y for _, sensor, y in said if sensor is fusion["GPS"]]
    figure, ax = plt.subplots(figsize=(9, 3.8), layout="constrained")
    ax.plot(*truth.T, color=style.TRUTH, lw=5, label="truth")
    ax.plot(*zip(*fixes, strict=True), ".", color=style.DOTS, label="GPS")
    ax.plot(*fusion["follow"](said, "EKF").T, color=style.KALMAN, lw=1.2, label="extended Kalman filter")
    ax.plot(*fusion["follow"](said, None).T, color=style.ROBUST, lw=1.8, label="wolf")
    ax.set(xlabel="east, m", ylabel="north, m")
    ax.legend(frameon=False, ncols=4, loc="lower left", bbox_to_anchor=(0, 1))
    style.dress(ax)
    figure.savefig("fusion.png", dpi=120)


def main(names):
    """Run the examples with cells, and those older ones that have a picture."""
    cells = [path.stem for path in sorted((ROOT / "examples").glob("*.py")) if "# %%" in path.read_text()]
    IMAGES.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for name in names or [*cells, "fusion", "tracking"]:
            print(f"\n{name}")
            if name == "fusion":
                draw_fusion()
            else:
                run = runpy.run_path(str(ROOT / "examples" / f"{name}.py"))
                if name == "tracking":
                    run["main"]()
            small(Path(f"{name}.png"))
            plt.close("all")
        os.chdir(ROOT)


if __name__ == "__main__":
    plt.switch_backend("Agg")
    main(sys.argv[1:])

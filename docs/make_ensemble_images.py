"""Draw the pictures of the page about ensembles.

python docs/make_ensemble_images.py
"""

import io
from pathlib import Path

from PIL import Image

import wolf
from wolf import simulate
from wolf.inference import ensembles

IMAGES = Path(__file__).parent / "images"
COLOURS = 200
DT = 0.05


def save(figure, name):
    """Write a picture with few colours."""
    buffer = io.BytesIO()
    figure.savefig(buffer, dpi=110, bbox_inches="tight", pad_inches=0.08)
    picture = Image.open(buffer).convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE)
    picture.save(IMAGES / name, optimize=True)
    print(f"{name}: {(IMAGES / name).stat().st_size / 1e3:.0f} kB")


def main():
    """Run one twin experiment with two filters."""
    model = wolf.models.lorenz96(40)
    struck = simulate.EachSensor(simulate.ReplacedMeasurements(prob=0.001, value=100.0))
    data = simulate.trajectory(model, 400, key=1, outliers=struck)
    options = {"num_members": 20, "localisation": ensembles.Ring(4.0), "inflation": 1.04, "rotate": True}
    runs = {
        name: wolf.twin.run(model, wolf.methods.make(name, **options), key=2, data=data)
        for name in ("LETKF", "WoLF-LETKF")
    }
    for name, run in runs.items():
        print(name, run)
    save(wolf.plots.errors(runs, dt=DT), "ensemble_errors.png")
    save(wolf.plots.hovmoller(runs["WoLF-LETKF"], start=150, stop=300, dt=DT), "ensemble_hovmoller.png")
    save(wolf.plots.rank_histogram(runs["WoLF-LETKF"]), "ensemble_ranks.png")


if __name__ == "__main__":
    main()

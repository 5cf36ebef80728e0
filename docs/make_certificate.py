"""Make the tables and pictures of docs/certificate.md: certificates, attacks and an explanation.

python docs/make_certificate.py
"""

import io
from pathlib import Path

import numpy as np
from PIL import Image

import wolf
from wolf.diagnostics.certificate.certificate import format_number
from wolf.plots import style

IMAGES = Path(__file__).parent / "images"
METHODS = ("KF", "WoLF", "WoLF-Welsch", "WoLF-Huber", "WoLF-TMD", "Learned", "Adaptive")
COLOURS = 128  # of a palette
ATTACKED = 200  # steps of the series that is attacked


def save(figure, name):
    """Write a picture with few colours."""
    buffer = io.BytesIO()
    figure.savefig(buffer, dpi=150)
    picture = Image.open(buffer).convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE)
    picture.save(IMAGES / name, optimize=True)
    print(f"{name}: {(IMAGES / name).stat().st_size / 1e3:.0f} kB")


def short(certificate, name):
    """One cell of the comparison: a value, or what there is in its place."""
    if name not in certificate:
        return ""
    entry = certificate[name]
    if not entry.bounded:
        return "unbounded"
    if name.endswith("jump"):
        held = entry.details["deviations"] >= 1000.0
        return (
            f"{'all' if held else format_number(entry.details['deviations'], 2) + ' sd'}, {entry.details['steps']:.0f}"
        )
    return f"{format_number(100 * entry.value)} %" if entry.unit == "share" else format_number(entry.value)


def compare(model):
    """Certify several methods; a table of their entries."""
    rows = ("influence", "mean shift", "efficiency", "false alarms", "position jump", "velocity jump", "breakdown")
    made = {}
    for method in METHODS:
        made[method] = wolf.certify(model, method)
        print(made[method], flush=True)
    print("| | " + " | ".join(METHODS) + " |\n|---|" + "---|" * len(METHODS))
    for row in rows:
        print(f"| {row} | " + " | ".join(short(made[method], row) for method in METHODS) + " |")
    return made


def attack_all(model):
    """Attack with 1, 4, 5 (which `Learned` accepts as a jump) and 8 errors of two sizes; draw that on a gate."""
    ys = wolf.simulate.trajectory(model, ATTACKED, key=3).measurements
    print("| errors, size | " + " | ".join(METHODS) + " |\n|---|" + "---|" * len(METHODS))
    found = {}
    for count in (1, 4, 5, 8):
        for size in (10.0, 1000.0):
            for method in METHODS:
                found[method] = wolf.attack(model, method, ys, count, size=size)
            each = [found[method] for method in METHODS]
            cells = " | ".join(f"{format_number(one.damage.max())} / {format_number(one.total, 2)}" for one in each)
            print(f"| {count}, {size:g} sd | {cells} |", flush=True)
        if count == 4:
            draw_attack({method: found[method] for method in ("WoLF", "WoLF-TMD")})


def draw_attack(found):
    """Damage over time of the worst errors that were found."""
    figure = style.new_figure(9.0, 3.4)
    ax = figure.add_subplot()
    for color, (name, attack) in zip((style.ROBUST, style.KALMAN), found.items(), strict=True):
        ax.plot(attack.damage, color=color, lw=2, label=f"{name}, errors at {', '.join(map(str, attack.times))}")
        ax.scatter(attack.times, attack.damage[attack.times], color=color, s=22, zorder=5)
    ax.set(yscale="symlog", ylim=(0, None), xlim=(0, ATTACKED - 1))
    style.dress(ax)
    ax.set_xlabel("step")
    ax.set_ylabel("damage, in posterior sd")
    figure.legend(loc="outside upper left", ncols=2, frameon=False, fontsize=9.5, labelcolor=style.INK)
    save(figure, "attack.png")


def explain_one():
    """A series with one of each."""
    model = wolf.models.local_level(level_var=0.05, obs_var=1.0)
    ys = wolf.simulate.trajectory(model, 300, key=8).measurements[:, 0].copy()
    ys[40] += 12.0
    ys[90:] += 15.0
    ys[150:160] = ys[149] + 8.0
    ys[200:215] -= 10.0
    ys[250:253] = np.nan
    print(wolf.explain(wolf.filter(model, ys)))


if __name__ == "__main__":
    tracking = wolf.models.constant_velocity(dims=2, dt=0.1, dynamics_var=0.1, obs_var=10.0)
    explain_one()
    save(compare(tracking)["WoLF"].plot(), "certificate.png")
    attack_all(tracking)

"""Draw the pictures of the model zoo and of influence.

python docs/make_zoo_images.py
"""

import io
from pathlib import Path

import numpy as np
from PIL import Image

import wolf
from wolf.plots import style

IMAGES = Path(__file__).parent / "images"
COLOURS = 200
STEPS = 160
# Seeds of paths that fit a wide picture, and how far outliers are off in it.
PATHS = {
    "constant_velocity": (11, 40.0),
    "constant_acceleration": (12, 150.0),
    "singer": (15, 80.0),
    "coordinated_turn": (10, 30.0),
    "range_bearing": (9, 0.0),
    "gps_odometry": (9, 20.0),
}


def save(figure, name):
    """Write a picture with few colours."""
    buffer = io.BytesIO()
    figure.savefig(buffer, dpi=130, bbox_inches="tight", pad_inches=0.08)
    picture = Image.open(buffer).convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE)
    (IMAGES / name).parent.mkdir(exist_ok=True)
    picture.save(IMAGES / name, optimize=True)
    print(f"{name}: {(IMAGES / name).stat().st_size / 1e3:.0f} kB")


def prior(mean, *variances):
    """Make a Gaussian with a diagonal covariance."""
    return wolf.Gaussian(np.array(mean, float), np.diag(variances).astype(float))


def series_models():
    """One-dimensional models: (model, times)."""
    zoo = wolf.models
    rng = np.random.default_rng(0)
    times = np.sort(rng.uniform(0, STEPS, STEPS))
    wave = np.sin(np.arange(STEPS) / 9)
    level = zoo.level(0.05)._replace(prior=prior([0], 1))
    year = zoo.seasonal(12, 0.02)._replace(prior=prior([2, 1, 0, -1, -2, -2, -1, 0, 1, 2, 1], *[0.1] * 11))
    waves = zoo.seasonal(24, 0.002, harmonics=2)._replace(prior=prior([2, 0, 1, 1], *[0.1] * 4))
    slope = zoo.regression(wave, 0.01)._replace(prior=prior([3], 0.1))
    return {
        "local_level": (zoo.local_level(0.1, 1.0, prior([0], 1)), None),
        "local_trend": (zoo.local_trend(0.05, 0.002, 1.0, prior([0, 0.2], 1, 0.01)), None),
        "seasonal_dummy": (zoo.structural(level, year, obs_var=0.5), None),
        "seasonal_trigonometric": (zoo.structural(level, waves, obs_var=0.5), None),
        "cycle": (zoo.structural(zoo.cycle(22.0, 0.1, damping=0.98), obs_var=0.5), None),
        "ar": (zoo.structural(zoo.ar([1.4, -0.6], 0.3), obs_var=0.5), None),
        "arma": (zoo.structural(zoo.arma([0.8], [0.6], 0.3), obs_var=0.5), None),
        "regression": (zoo.structural(level, slope, obs_var=0.5), None),
        "wiener_level": (zoo.wiener_level(times, 0.1, 1.0, prior([0], 1)), times),
        "wiener_velocity": (zoo.wiener_velocity(times, 1, 0.02, 1.0, prior([0, 0.2], 1, 0.1)), times),
        "ornstein_uhlenbeck": (zoo.ornstein_uhlenbeck(times, 0.05, 4.0, 1.0), times),
    }


def plane_models():
    """Models of motion in the plane: (model, inputs)."""
    zoo = wolf.models
    turn = np.column_stack([np.full(STEPS, 3.0), 0.6 * np.sin(np.arange(STEPS) / 18)])
    return {
        "constant_velocity": (zoo.constant_velocity(2, 0.5, 0.05, 4.0, prior([0, 0, 2, 1], 1, 1, 0.1, 0.1)), None),
        "constant_acceleration": (
            zoo.constant_acceleration(2, 0.5, 0.01, 4.0, prior([0, 0, 2, 0, 0, 0.1], 1, 1, 0.1, 0.1, 0.01, 0.01)),
            None,
        ),
        "singer": (zoo.singer(2, 0.5, 8.0, 0.2, 4.0, prior([0, 0, 2, 0, 0, 0], 1, 1, 0.1, 0.1, 0.1, 0.1)), None),
        "coordinated_turn": (
            zoo.coordinated_turn(0.5, 0.005, 2e-4, 2.0, prior([0, 0, 3, 0, 0.1], 1, 1, 0.1, 0.1, 1e-3)),
            None,
        ),
        "range_bearing": (zoo.range_bearing(0.5, 0.02, 1.0, 2e-3, prior([-40, 10, 1.5, 0], 1, 1, 0.1, 0.1)), None),
        "gps_odometry": (zoo.gps_odometry(0.2, 0.003, 0.001, 4.0, prior([0, 0, 0.3], 0.1, 0.1, 0.01)), turn),
    }


def draw_series(name, model, times):
    """Draw what is measured, without noise, with estimate and refused measurements."""
    process = wolf.simulate.Sequence((wolf.simulate.Additive(0.05, -12.0, 12.0), wolf.simulate.Gap(90, 12)))
    data = wolf.simulate.trajectory(model, STEPS, key=4, outliers=process)
    out = wolf.filter(model, data.measurements)
    rows = np.broadcast_to(model.H, (STEPS, *model.H.shape[-2:]))[:, 0]
    signal = (rows * data.states).sum(-1)
    mean = (rows * out.means).sum(-1)
    deviation = np.sqrt(np.einsum("ti,tij,tj->t", rows, out.covs, rows))
    figure = style.new_figure(6.4, 2.3)
    ax = figure.add_subplot()
    style.dress(ax)
    axis = np.arange(STEPS) if times is None else times
    low, high = style.limits(signal, mean, margin=0.3)
    values, bad = data.measurements[:, 0], out.outliers
    ax.plot(axis, signal, color=style.TRUTH, lw=4, solid_capstyle="round")
    ax.fill_between(axis, mean - 2 * deviation, mean + 2 * deviation, color=style.ROBUST, alpha=0.2, lw=0)
    ax.plot(axis, mean, color=style.ROBUST, lw=1.5)
    ax.scatter(axis[~bad], values[~bad], s=7, color=style.DOTS, lw=0, zorder=3)
    ax.scatter(axis[bad], values[bad], s=22, marker="x", color=style.INK, lw=1.2, zorder=4)
    style.edge_marks(ax, axis[bad], values[bad], low, high, style.INK)
    ax.set(ylim=(low, high), ylabel="value", xlabel="step" if times is None else "time")
    ax.margins(x=0.01)
    save(figure, f"zoo/{name}.png")


def draw_plane(name, model, inputs):
    """Draw a path in the plane."""
    bearing = name == "range_bearing"
    key, size = PATHS[name]
    process = wolf.simulate.Mixture(0.05, factor=1.6) if bearing else wolf.simulate.Additive(0.06, -size, size)
    data = wolf.simulate.trajectory(model, STEPS, key=key, outliers=process, inputs=inputs)
    out = wolf.filter(model, data.measurements, inputs=inputs)
    figure = style.new_figure(6.4, 3.4)
    ax = figure.add_subplot()
    style.dress(ax, grid="both")
    points = data.measurements
    if bearing:
        points = points[:, :1] * np.column_stack([np.cos(points[:, 1]), np.sin(points[:, 1])])
        ax.scatter(0, 0, marker="^", s=60, color=style.INK, zorder=5)
        ax.annotate("radar", (0, 0), xytext=(6, -12), textcoords="offset points", size=9, color=style.QUIET)
    ax.plot(*data.states[:, :2].T, color=style.TRUTH, lw=5, solid_capstyle="round")
    ax.scatter(*points[~out.outliers].T, s=7, color=style.DOTS, lw=0, zorder=2)
    ax.scatter(*points[out.outliers].T, s=22, marker="x", color=style.INK, lw=1.2, zorder=4)
    ax.plot(*out.means[:, :2].T, color=style.ROBUST, lw=1.5)
    shown = np.concatenate([data.states[:, :2], np.zeros((1, 2))]) if bearing else data.states[:, :2]
    low, high = np.transpose([style.limits(column, margin=0.15) for column in shown.T])
    ax.set_xlim(low[0], high[0], auto=True)  # wider where equal scales need it
    ax.set_ylim(low[1], high[1], auto=True)
    ax.set(xlabel="east", ylabel="north")
    ax.set_aspect("equal", adjustable="datalim")
    save(figure, f"zoo/{name}.png")


def draw_influence():
    """The paper's maps (figure 2): KL between contaminated and clean posterior over errors in the last measurement."""
    model = wolf.models.constant_velocity(2, 1.0, 0.1, 1.0, prior([0, 0, 1, 1], 1, 1, 1, 1))
    ys = wolf.simulate.trajectory(model, 20, key=314, initial=[0.0, 0.0, 1.0, 1.0]).measurements
    axis = np.linspace(-8, 8, 121)
    grid = np.stack(np.meshgrid(axis, axis), axis=-1)
    methods = {
        "Kalman filter": "KF",
        "WoLF-IMQ, c = 4": wolf.WoLF(wolf.IMQ(4.0)),
        "WoLF-TMD, c = 16": wolf.WoLF(wolf.MahalanobisThreshold(16.0)),
    }
    maps = {name: wolf.influence.pif(model, method, ys, grid) for name, method in methods.items()}
    figure = style.new_figure(9.6, 3.3)
    axes = figure.subplots(1, 3, sharey=True)
    for ax, (name, values) in zip(axes, maps.items(), strict=True):
        picture = ax.pcolormesh(axis, axis, values, cmap="cividis", vmin=0, vmax=15, shading="auto", rasterized=True)
        ax.set_title(f"{name}: at most {values.max():.0f} here", loc="left", size=10, color=style.INK)
        ax.set(aspect="equal", xlabel="error in the first coordinate")
        style.dress(ax, grid=None)
    axes[0].set_ylabel("error in the second coordinate")
    bar = figure.colorbar(picture, ax=axes, shrink=0.85, extend="max")
    bar.set_label("posterior influence", color=style.QUIET, size=9.5)
    bar.ax.tick_params(colors=style.QUIET, labelsize=9)
    save(figure, "influence.png")

    far = np.logspace(-1, 12, 80)
    figure = style.new_figure(8.0, 3.2)
    ax = figure.add_subplot()
    style.dress(ax)
    lines = {
        "KF": "KF",
        "WoLF-IMQ": "IMQ",
        "WoLF-MD": "MD",
        "WoLF-TMD": "TMD, c = 16",
        "WoLF-Welsch": "Welsch",
        "WoLF-Huber": "Huber",
        "WoLF-StudentT": "Student-t",
    }
    for name, words in lines.items():
        method = wolf.methods.make(name, c=16.0) if name == "WoLF-TMD" else name
        values = wolf.influence.pif(model, method, ys, far[:, None] * np.array([0.6, 0.8]))
        color, dash, _ = style.method_style(name)
        ax.plot(far, values, color=color, ls=dash, lw=1.8, label=words)
    ax.set(
        xscale="log",
        ylim=(-1, 40),
        xlabel="length of the error in the last measurement",
        ylabel="posterior influence",
    )
    ax.legend(frameon=False, fontsize=9, ncols=4, loc="upper center")
    save(figure, "influence-far.png")


def main():
    """Draw everything."""
    for name, (model, times) in series_models().items():
        draw_series(name, model, times)
    for name, (model, inputs) in plane_models().items():
        draw_plane(name, model, inputs)
    draw_influence()


if __name__ == "__main__":
    main()

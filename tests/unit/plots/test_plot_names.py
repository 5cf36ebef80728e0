"""Figures under their short names, such as `wolf.plot.series`: they draw the given values."""

import matplotlib.figure
import numpy as np
import pytest

import wolf


@pytest.fixture(scope="module")
def out():
    model = wolf.models.constant_velocity(dims=2, dt=0.1, dynamics_var=0.1, obs_var=10.0)
    ys = wolf.simulate.trajectory(model, 80, key=1, outliers=wolf.simulate.Additive(0.1, -80.0, 80.0)).measurements
    return wolf.filter(model, ys)


def axes():
    return matplotlib.figure.Figure().add_subplot()


def test_every_short_name_draws_a_figure_or_on_axes(out):
    errors = np.linspace(-20, 20, 41)
    level = wolf.models.local_level(0.1, 1.0)
    curve = wolf.influence.pif(level, "KF", np.zeros(10), errors[:, None])
    draws = {
        "series": lambda **options: wolf.plot.series(out, **options),
        "weights": lambda **options: wolf.plot.weights(out, **options),
        "track": lambda **options: wolf.plot.track(out, **options),
        "influence": lambda **options: wolf.plot.influence(errors, {"KF": curve}, **options),
    }
    for name, draw in draws.items():
        assert isinstance(draw(), matplotlib.figure.Figure), name
        ax = axes()
        assert draw(ax=ax) is ax.figure
        assert ax.lines or ax.collections, name


def test_weights_are_drawn_where_they_are(out):
    ax = axes()
    wolf.plot.weights(out, ax=ax)
    dots, crosses = (collection.get_offsets().data for collection in ax.collections)
    np.testing.assert_allclose(dots[:, 1], out.weights)
    assert crosses[:, 0].tolist() == np.flatnonzero(out.outliers).tolist()


def test_weights_of_each_coordinate_have_their_own_colour(out):
    per = wolf.filter(out.model, np.zeros((20, 2)), method="WoLF-PerCoordinate")
    figure = wolf.plot.weights(per)
    assert len(figure.axes[0].collections) == 4


def test_influence_curves_are_the_numbers_given():
    ax = axes()
    wolf.plot.influence([0.0, 1.0, 2.0], {"KF": [0.0, 1.0, 4.0], "WoLF": [0.0, 0.5, 0.2]}, ax=ax)
    assert [line.get_ydata().tolist() for line in ax.lines] == [[0.0, 1.0, 4.0], [0.0, 0.5, 0.2]]


@pytest.mark.parametrize(
    ("draw", "words"),
    [
        (lambda out: wolf.plot.weights([1.0]), "wolf.filter"),
        (lambda out: wolf.plot.weights(out, times=[1.0]), "80 entries"),
        (lambda out: wolf.plot.influence(np.zeros((3, 2)), np.zeros(3)), "line of errors"),
        (lambda out: wolf.plot.influence(np.zeros(3), np.zeros(4)), "one for each error"),
    ],
)
def test_invalid_arguments_raise(out, draw, words):
    with pytest.raises(ValueError, match=words):
        draw(out)

"""Levels of R and Q over time: in pictures, on the page of a report, and in notebooks."""

import numpy as np
import pytest

import wolf

pytest.importorskip("matplotlib")
MODEL = wolf.models.local_level(level_var=0.05, obs_var=1.0)
RNG = np.random.default_rng(0)
YS = np.cumsum(3.0 * RNG.normal(size=(120, 1)), 0) + 12.0 * RNG.normal(size=(120, 1))  # far more than the model says


@pytest.fixture(scope="module")
def learned():
    return wolf.filter(MODEL, YS, method="Adaptive")


def test_levels_are_drawn_over_time_on_a_logarithmic_scale(learned):
    (ax,) = wolf.plots.levels(learned).axes
    lines = {line.get_label(): line.get_ydata() for line in ax.lines}
    np.testing.assert_array_equal(lines["noise, times R"], learned.noise_scales)
    np.testing.assert_array_equal(lines["dynamics, times Q"], learned.dynamics_scales)
    assert ax.get_yscale() == "log"


def test_a_plot_has_levels_below_where_q_was_learned(learned):
    assert len(learned.plot().axes) == 2
    assert len(learned.plot(with_levels=False).axes) == 1
    assert len(wolf.filter(MODEL, YS, method="WoLF").plot().axes) == 1
    with pytest.raises(ValueError, match="needs a new figure"):
        learned.plot(with_levels=True, ax=learned.plot().axes[0])


def test_what_is_far_off_is_said_in_words(learned, tmp_path):
    for text in (repr(learned), learned._repr_html_()):
        assert "R is far off" in text
        assert "Q is far off" in text
    wolf.report(learned, tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    section = page[page.index("Estimated noise scales") :].split("</section>")[0]
    assert "R is far off" in section
    assert section.count('class="line"') == 2


STILL = wolf.models.local_level(level_var=0.0, obs_var=1.0)
NETWORK = wolf.models.mlp(features=2, hidden=(), drift_var=1e-3)


@pytest.mark.parametrize(
    ("model", "method", "options"),
    [
        (STILL, "Adaptive", {}),
        (MODEL, wolf.Adaptive(q_uncertainty=0), {}),
        (NETWORK, "Adaptive", {"inputs": np.ones((120, 2))}),
    ],
    ids=["still", "sure", "parameters"],
)
def test_a_q_that_is_not_learned_is_not_drawn(model, method, options, tmp_path):
    out = wolf.filter(model, YS, method=method, **options)
    (ax,) = wolf.plots.levels(out).axes
    assert "noise, times R" in [line.get_label() for line in ax.lines]
    assert "dynamics, times Q" not in [line.get_label() for line in ax.lines]
    assert len(out.plot().axes) == 1
    assert "Q" not in repr(out.learned_noise)
    wolf.report(out, tmp_path / "page.html")
    assert "dynamics, times Q" not in (tmp_path / "page.html").read_text()


def test_where_nothing_was_measured_no_levels_are_drawn(tmp_path):
    out = wolf.filter(MODEL, np.full((30, 1), np.nan))
    with pytest.raises(ValueError, match="no levels were learned: no measurement could be used"):
        wolf.plots.levels(out)
    assert len(out.plot().axes) == 1
    wolf.report(out, tmp_path / "page.html")
    assert "times Q" not in (tmp_path / "page.html").read_text()


def test_levels_of_sensors_are_called_as_they_are():
    model = wolf.LinearModel([[1.0]], np.ones((3, 1)), [[0.1]], np.eye(3), [0.0], [[1.0]])
    out = wolf.filter(model, RNG.normal(size=(60, 3)), method=wolf.Adaptive(sensors=(4, 4, 1)))
    (ax,) = wolf.plots.levels(out).axes
    labels = [line.get_label() for line in ax.lines if "times" in line.get_label()]
    assert labels == ["noise of sensor 4, times R", "noise of sensor 1, times R", "dynamics, times Q"]


def test_methods_that_learn_nothing_have_no_learned_noise(tmp_path):
    out = wolf.filter(MODEL, YS, method="WoLF")
    with pytest.raises(ValueError, match="no levels were kept"):
        wolf.plots.levels(out)
    wolf.report(out, tmp_path / "page.html")
    assert "Estimated noise scales" not in (tmp_path / "page.html").read_text()


def test_a_series_of_many_tells_what_it_learned_in_double_precision(learned):
    one = wolf.filter_many(MODEL, np.stack([YS, YS]))[1].learned_noise
    assert np.asarray(one.dynamics).dtype == np.asarray(one.level).dtype == np.float64
    np.testing.assert_allclose(one.level, learned.learned_noise.level, rtol=1e-12)


@pytest.mark.parametrize("method", ["Adaptive", "Learned"])
def test_of_many_series_one_has_to_be_picked(method):
    many = wolf.filter_many(MODEL, np.stack([YS, YS, YS]), method=method)
    with pytest.raises(ValueError, match=r"pick one series, as out\[0\]\.learned_noise"):
        many.learned_noise
    with pytest.raises(ValueError, match="learns nothing about the noise"):
        wolf.filter_many(MODEL, np.stack([YS, YS]), method="WoLF").learned_noise


def test_modes_that_learn_separately_are_named():
    modes = wolf.methods.make("IMM", filter=wolf.Adaptive())
    with pytest.raises(ValueError, match="each mode of IMM learns the noise for itself"):
        wolf.filter(MODEL, YS[:20], method=modes).learned_noise
    with pytest.raises(ValueError, match="IMM learns nothing about the noise"):
        wolf.filter(MODEL, YS[:20], method="IMM").learned_noise


@pytest.mark.parametrize("method", [None, "Learned", wolf.Adaptive(sensors="each")], ids=["default", "Learned", "each"])
def test_a_filter_that_is_fed_tells_what_it_has_learned_so_far(method):
    """One by one, and by key, as at once."""
    model = wolf.LinearModel([[1.0]], [[1.0], [1.0]], [[0.1]], np.eye(2), [0.0], [[1.0]])
    ys = 3.0 * np.random.default_rng(3).normal(size=(60, 2))
    online, bank = wolf.Online(model, method), wolf.Bank(model, method)
    for y in ys:
        online.step(y)
    bank.step(["a"] * 60, ys)
    expected = repr(wolf.filter(model, ys, method=method).learned_noise)
    assert repr(online.learned_noise) == expected
    assert repr(bank["a"].learned_noise) == expected


def test_a_filter_that_is_fed_and_learns_nothing_says_so():
    with pytest.raises(ValueError, match="WoLF learns nothing about the noise"):
        wolf.Online(MODEL, "WoLF").learned_noise
    bank = wolf.Bank(MODEL, "KF")
    bank.step(["a"], YS[:1])
    with pytest.raises(ValueError, match="KF learns nothing about the noise"):
        bank["a"].learned_noise


@pytest.mark.parametrize(("sensors", "name"), [("each", "sensor 1"), ((7, 3), "sensor 3")])
def test_a_remark_names_the_sensor_that_it_is_about(sensors, name, tmp_path):
    model = wolf.LinearModel([[1.0]], [[1.0], [1.0]], [[0.1]], np.eye(2), [0.0], [[1.0]])
    rng = np.random.default_rng(1)
    ys = np.cumsum(0.3 * rng.normal(size=(400, 1)), 0) + rng.normal(size=(400, 2)) * [1.0, 40.0]
    out = wolf.filter(model, ys, method=wolf.Adaptive(sensors=sensors))
    remarks = [line.strip() for line in repr(out).splitlines() if "classified as outliers" in line]
    assert len(remarks) == 1
    assert remarks[0].startswith(f"{name}: ")
    assert f"of sensor {7 if name == 'sensor 3' else 0}" in repr(out)
    wolf.report(out, tmp_path / "page.html")
    assert f"{name}: " in (tmp_path / "page.html").read_text()


def test_what_all_sensors_say_is_said_once():
    """There is one Q."""
    model = wolf.LinearModel([[1.0]], [[1.0], [1.0]], [[1e-4]], np.eye(2), [0.0], [[1.0]])
    rng = np.random.default_rng(1)
    ys = np.cumsum(2.0 * rng.normal(size=(400, 1)), 0) + rng.normal(size=(400, 2))
    lines = [line.strip() for line in repr(wolf.filter(model, ys, method=wolf.Adaptive(sensors="each"))).splitlines()]
    assert sum(line.startswith("Q is far off") for line in lines) == 1
    assert not any(line.startswith("sensor") and "Q is far off" in line for line in lines)

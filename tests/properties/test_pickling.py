"""Filters, banks and results can be pickled and copied, as joblib, dask and multiprocessing do, with the same bits."""

import copy
import pickle
import subprocess
import sys

import jax
import numpy as np
import pytest

import wolf
from wolf.online.bank.out_of_sequence import OutOfSequenceBank

LEVEL = wolf.models.local_level(level_var=0.1, obs_var=1.0)
YS = np.random.default_rng(0).normal(size=40)
YS[[10, 30]] = 50.0
HOW = {"pickle": lambda value: pickle.loads(pickle.dumps(value)), "deepcopy": copy.deepcopy, "copy": copy.copy}
OUT = wolf.filter(LEVEL, YS)


def stepped(filter_):
    for y in YS[:12]:
        filter_.step(y)
    return filter_


def filled_bank():
    bank = wolf.Bank(LEVEL)
    bank.step(["a", "b", "a", 7], YS[:4], times=[0.0, 0.0, 1.5, 2.0])
    bank.step(["a"], YS[:1], times=[0.5])  # late
    bank.forget(["b"])
    return bank


RESULTS = {
    "Filtered": lambda: OUT,
    "many": lambda: wolf.filter_many(LEVEL, [YS, YS[:20]]),
    "Smoothed": lambda: wolf.smooth(OUT),
    "Forecast": lambda: wolf.forecast(OUT, 3),
    "States": lambda: OUT.states,
    "learned noise": lambda: OUT.learned_noise,
    "StepReport": lambda: wolf.Online(LEVEL).step(1.0),
    "LaggedEstimate": lambda: wolf.FixedLag(LEVEL, lag=3).step(1.0),
    "BankStep": lambda: wolf.Bank(LEVEL).step(["a"], [1.0]),
    "BankEntry": lambda: filled_bank()["a"],
    "Fit": lambda: wolf.fit(wolf.models.local_level, YS),
    "Choice": lambda: wolf.choose(YS, candidates=["local-level", "local-trend"]),
    "TuningResult": lambda: wolf.tune(LEVEL, YS, method="WoLF-MD"),
    "Changepoints": lambda: wolf.changepoints(LEVEL, YS),
    "Explanation": lambda: wolf.explain(OUT),
    "Certificate": lambda: wolf.certify(LEVEL, "WoLF"),
    "Simulation": lambda: wolf.simulate.trajectory(LEVEL, 10, 0),
    **{name: lambda name=name: wolf.filter(LEVEL, YS, method=name, key=0) for name in ("IMM", "EnKF", "PF")},
}
COSTS = dict.fromkeys(("Choice", "Fit", "TuningResult", "Changepoints", "Explanation"), pytest.mark.thorough)
COSTS |= dict.fromkeys(("Certificate", "IMM", "EnKF", "PF"), pytest.mark.slow)
FILTERS = {
    "Online": lambda: stepped(wolf.Online(LEVEL, horizon=3)),
    "Online by XLA": lambda: stepped(wolf.Online(LEVEL, "WoLF", backend="xla")),
    "FixedLag": lambda: stepped(wolf.FixedLag(LEVEL, lag=4)),
    "Bank": filled_bank,
    "OutOfSequenceBank": lambda: OutOfSequenceBank(filled_bank(), 10.0),
}


def content(value):
    """Return everything that a value holds as text, with arrays and floating-point numbers in full."""
    if isinstance(value, np.ndarray | np.generic | jax.Array):
        typed = isinstance(value, jax.Array) and jax.numpy.issubdtype(value.dtype, jax.dtypes.prng_key)
        array = np.asarray(jax.random.key_data(value) if typed else value)
        return f"{array.dtype}{array.shape}{array.tolist() if array.dtype.hasobject else array.tobytes().hex()}"
    if isinstance(value, dict):
        return {name: content(each) for name, each in value.items()}
    if isinstance(value, tuple | list):
        return [type(value).__name__, *map(content, value)]
    if isinstance(value, wolf.online.step_info.StepReport):
        return [content(value._packed), value._layout]
    fields = getattr(value, "__dict__", None)
    return repr(value) if callable(value) or not fields else [type(value).__name__, content(fields)]


def check_copies(value):
    for name, again in HOW.items():
        assert content(again(value)) == content(value), name


@pytest.mark.parametrize("name", [pytest.param(name, marks=COSTS.get(name, ())) for name in RESULTS])
def test_results_keep_every_bit(name):
    check_copies(RESULTS[name]())


def continued(filter_):
    """Continue a filter, and return what it reports."""
    if isinstance(filter_, wolf.Bank | OutOfSequenceBank):
        out = filter_.step(["a", "new", 7], YS[20:23], times=[9.0, 9.0, 9.5])
        bank = getattr(filter_, "bank", filter_)
        return content([out, bank.late, list(bank), [bank.dump(key) for key in bank]])
    return content([filter_.step(y) for y in YS[20:40]])


@pytest.mark.parametrize("name", FILTERS)
def test_filters_continue_with_the_same_bits_and_apart(name):
    source = FILTERS[name]()
    first, second = (continued(HOW[how](source)) for how in ("pickle", "deepcopy"))
    assert first == second == continued(source)


def nonlinear(observe):
    eye = np.eye(1)
    return wolf.StateSpaceModel(None, observe, eye, eye, wolf.Gaussian(np.zeros(1), eye))


@pytest.fixture(scope="module")
def with_lambda():
    return stepped(wolf.Online(nonlinear(lambda x: x + 0.1 * x**3), "EKF"))


def test_lambdas_are_copied_and_pickled_by_cloudpickle(with_lambda):
    pytest.importorskip("cloudpickle")
    first, *others = (continued(how(with_lambda)) for how in HOW.values())
    assert others == [first] * len(others)
    moving = LEVEL.with_motion(lambda t: (np.ones((len(t), 1, 1)), t[:, None, None]))
    assert pickle.loads(pickle.dumps(moving)).over([2.0])[1].item() == 2.0


def test_without_cloudpickle_a_lambda_is_refused_in_words(with_lambda, monkeypatch):
    monkeypatch.setitem(sys.modules, "cloudpickle", None)
    for value in (with_lambda, with_lambda.model):
        with pytest.raises(pickle.PicklingError, match=r"(?s)<lambda>.*top level of a module, or install cloudpickle"):
            pickle.dumps(value)
        assert copy.deepcopy(value) is not value


@pytest.mark.thorough
def test_another_process_continues_with_the_same_bits(tmp_path):
    """As multiprocessing does by spawn: a new interpreter reads the pickle."""
    filters = {name: make() for name, make in FILTERS.items()}
    (tmp_path / "filters.pickle").write_bytes(pickle.dumps(filters))
    code = (
        "import pickle, sys\nimport conftest\nfrom tests.properties.test_pickling import continued\n"
        "filters = pickle.load(open(sys.argv[1], 'rb'))\n"
        "open(sys.argv[1], 'wb').write(pickle.dumps({name: continued(each) for name, each in filters.items()}))\n"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "filters.pickle")], check=True)
    found = pickle.loads((tmp_path / "filters.pickle").read_bytes())
    assert found == {name: continued(each) for name, each in filters.items()}

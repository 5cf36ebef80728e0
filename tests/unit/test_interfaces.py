"""Protocols: every registry row implements them, and a wrapper raises where the wrapped part does."""

import numpy as np
import pytest

import wolf
from wolf.execution import validate
from wolf.inference import noise
from wolf.inference.filters import IMM, CovarianceReset, Mode
from wolf.inference.linearization import Cubature, GaussHermite, Linear, Taylor, Unscented
from wolf.inference.noise.divergence_recovery import JumpRecovery
from wolf.interfaces import Filter, Linearization, NoiseModel, Requirements
from wolf.numerics.pytree import pytree

ROWS = wolf.methods.names()
CORRELATED = wolf.LinearModel(
    F=np.eye(2), H=np.eye(2), Q=np.eye(2), R=np.array([[1.0, 0.5], [0.5, 1.0]]), mean=np.zeros(2), cov=np.eye(2)
)
CURVED = wolf.StateSpaceModel(None, np.sin, np.eye(2), np.eye(2), wolf.Gaussian(np.zeros(2), np.eye(2)))
COUNTS = wolf.models.glm(2, family=wolf.families.Poisson())
MODELS = {"correlated": CORRELATED, "curved": CURVED, "counts": COUNTS}
GAUSSIAN = [name for name in ROWS if isinstance(wolf.methods.make(name), wolf.GaussianFilter)]
METHODS = {name: wolf.methods.make(name) for name in GAUSSIAN} | {"each": wolf.Learned(sensors="each")}
RULES = {name: method.noise for name, method in METHODS.items()}


def error_of(method, model):
    """Return the error of a method on a model, "" if it is accepted."""
    try:
        validate.adapt_model(model, validate.resolve_method(method, model), key=0)
    except ValueError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("name", ROWS)
def test_every_row_is_a_filter_with_requirements(name):
    method = wolf.methods.make(name)
    assert isinstance(method, Filter)
    assert isinstance(method.requirements, Requirements)
    assert method.noise is None or isinstance(method.noise, NoiseModel)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("name", METHODS)
def test_wrapped_filters_raise_where_bare_ones_do(name, model):
    bare = error_of(METHODS[name], MODELS[model])
    for wrapper in (CovarianceReset(METHODS[name]), IMM((Mode(), Mode(obs_scale=9.0)), filter=METHODS[name])):
        assert bool(error_of(wrapper, MODELS[model])) == bool(bare)
        assert wrapper.requirements.linear == METHODS[name].requirements.linear


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("name", RULES)
def test_wrapped_noise_models_raise_where_bare_ones_do(name, model):
    bare = error_of(wolf.EKF(noise=RULES[name]), MODELS[model])
    assert error_of(wolf.EKF(noise=JumpRecovery(RULES[name])), MODELS[model]) == bare
    if bare:
        inside = noise.PerSensorNoise(RULES[name], sensors=(0,) * MODELS[model].obs_dim)
        assert error_of(wolf.EKF(noise=inside), MODELS[model])


def test_correlated_sensors_raise_in_every_wrapper():
    each = wolf.Learned(sensors="each")
    for method in (each, CovarianceReset(each), IMM(filter=each), IMM(filter=CovarianceReset(each))):
        assert "their noise in R is correlated" in error_of(method, CORRELATED)


def test_modes_with_their_own_model_are_checked():
    fine = wolf.LinearModel(np.eye(2), np.eye(2), np.eye(2), np.eye(2), np.zeros(2), np.eye(2))
    method = IMM((Mode(), Mode(model=CORRELATED)), filter=wolf.Learned(sensors="each"))
    assert "correlated" in error_of(method, fine)
    assert not error_of(IMM(filter=wolf.Learned(sensors="each")), fine)


@pytest.mark.parametrize("wrap", [CovarianceReset, lambda inner: IMM(filter=inner)])
@pytest.mark.parametrize("name", ["ETKF", "PF", "OGD", "IMM"])
def test_wrappers_need_a_gaussian_belief(name, wrap):
    with pytest.raises(ValueError, match="Gaussian belief"):
        wrap(wolf.methods.make(name))


def test_variances_are_uncorrelated_noise():
    model = wolf.StateSpaceModel(None, np.sin, np.ones(2), np.ones(2), wolf.Gaussian(np.zeros(2), np.ones(2)))
    assert not error_of(wolf.Learned(sensors="each"), model)


@pytest.mark.parametrize("linearization", [Linear(), Taylor(), Unscented(), Cubature(), GaussHermite()])
def test_linearizations_state_whether_they_need_matrices(linearization):
    assert isinstance(linearization, Linearization)
    assert linearization.requirements.linear == isinstance(linearization, Linear)


def test_a_custom_filter_needs_three_functions():
    @pytree
    class Last(Filter):
        """Return the last measurement."""

        def init(self, model, key=None):
            return wolf.filters.GaussianState(wolf.Gaussian(model.mean, model.cov), np.int32(0))

        def predict(self, now, state, u, key=None):
            return state

        def update(self, now, state, y, u, key=None):
            new = state._replace(belief=wolf.Gaussian(y.value, state.cov), t=state.t + 1)
            return new, wolf.interfaces.StepInfo(residual=y.value - state.mean)

    level = wolf.models.local_level(level_var=0.1, obs_var=1.0)
    assert wolf.filter(level, [1.0, 2.0], method=Last()).means.tolist() == [[1.0], [2.0]]


def test_a_filter_that_is_no_pytree_raises_with_advice():
    class Plain(Filter):
        pass

    with pytest.raises(ValueError, match=r"decorate Plain with @wolf\.numerics\.pytree"):
        wolf.filter(CORRELATED, np.zeros((3, 2)), method=Plain())


def test_a_method_without_the_protocol_raises_with_advice():
    class Half:
        def init(self, model, key=None):
            return None

    with pytest.raises(ValueError, match=r"subclass of wolf\.interfaces\.Filter"):
        wolf.filter(CORRELATED, np.zeros((3, 2)), method=Half())


@pytest.mark.parametrize("name", ["IMM", "PF", "ETKF", "OGD"])
def test_filters_without_linearization_raise_where_it_is_needed(name):
    level = wolf.models.local_level(level_var=0.1, obs_var=1.0)
    out = wolf.filter(level, [1.0, 2.0, 3.0], method=name, key=0)
    for ask in (wolf.smooth, lambda out: wolf.forecast(out, steps=2), lambda out: wolf.sample_paths(out, num=2, key=0)):
        with pytest.raises(ValueError, match=r"needs a Gaussian filter.*this ran"):
            ask(out)
    with pytest.raises(ValueError, match="needs a Gaussian filter"):
        wolf.FixedLag(level, name, key=0)
    with pytest.raises(ValueError, match="learns nothing about the noise"):
        out.learned_noise


@pytest.mark.parametrize("name", ["IMM", "PF", "ETKF"])
def test_the_mean_of_an_online_filter_keeps_its_digits(name):
    far = wolf.models.local_level(level_var=1e-9, obs_var=1.0, prior=wolf.Gaussian([5e6 + 0.625], [[1e-12]]))
    assert abs(wolf.Online(far, name, key=0).mean[0] - (5e6 + 0.625)) < 1e-4

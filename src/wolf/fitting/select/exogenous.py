"""Model selection with exogenous variables: candidates compete on what the variables do not explain."""

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from wolf import api
from wolf.fitting.robust_regression import difference_coefficients
from wolf.models.exogenous import Exogenous, with_exogenous

if TYPE_CHECKING:
    from wolf.fitting.select.selection import Choice

MAX_ROUNDS = 3  # of selection and regression in turn
SMALL_CHANGE = 0.1  # change of the variables' share, in standard deviations of the noise, that needs no further round


def choose_with_exogenous(values: np.ndarray, given: Exogenous, select: "Callable[[np.ndarray], Choice]") -> "Choice":
    """Select a model for measurements that depend on exogenous variables.

    The coefficients are first estimated from differences, robustly; then from a robust filter of the selected model, in
    which they are states. If that changes what the variables explain, the selection is repeated.

    Args:
        values: (T, M).
        given: the exogenous variables.
        select: values -> choice.

    Returns:
        The choice, whose model has the coefficients as its last states.
    """
    beta = difference_coefficients(values, given.values)
    for _ in range(MAX_ROUNDS):
        choice = select(values - given.values @ beta)
        model = with_exogenous(choice.model, given.values, names=given.names)
        final = api.filter(model, values, save="final").final
        size = beta.size
        new = np.asarray(final.mean)[-size:].reshape(values.shape[1], -1).T
        change = np.sqrt(np.mean((given.values @ (new - beta)) ** 2, axis=0))
        noise = np.sqrt(np.diagonal(np.asarray(choice.model.R), axis1=-2, axis2=-1))
        beta = new
        if np.all(change <= SMALL_CHANGE * noise):
            break
    named = (model.state_names or ())[-size:]
    coefficients = {name: float(each) for name, each in zip(named, np.asarray(final.mean)[-size:], strict=True)}
    return dataclasses.replace(choice, model=model, coefficients=coefficients)

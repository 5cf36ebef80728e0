"""Result of a fit: parameters with standard errors, and the course of the search."""

import dataclasses
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from wolf.interfaces import Filter
from wolf.results import count
from wolf.results.views import html
from wolf.statespace import Model

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from wolf.fitting.summary import FitSummary

OUTLIER_SHARE_RANGE = (
    1e-4,
    0.5,
)  # outliers are a minority; a share below one in ten thousand is not distinguishable from none
SAME_SCORE = 1e-4  # difference in score per measured row below which two starts found the same optimum


class Start(NamedTuple):
    """Result of one start of the search.

    Attributes:
        score: log predictive density of the measurements that are scored.
        converged: whether the search converged, to an optimum with no variance at a boundary.
        evaluations: number of evaluations of the score with its gradient.
        message: message of the optimiser.
        parameters: parameters at its end.
        at_boundary: names of those at a boundary: 0 is as likely.
    """

    score: float
    converged: bool
    evaluations: int
    message: str
    parameters: dict[str, float]
    at_boundary: tuple[str, ...] = ()


class FitData(NamedTuple):
    """Inputs of a fit.

    Attributes:
        ys: measurements, (series, T, M).
        method: filter whose likelihood was maximised, with the noise model of the Gaussian score.
        inputs: (T, U), or (series, T, U); None without.
        update_first: order of the steps.
    """

    ys: np.ndarray
    method: Filter
    inputs: np.ndarray | None = None
    update_first: bool = False


@dataclasses.dataclass(frozen=True, repr=False)
class Fit:
    """Fitted parameters, their standard errors and the fitted model.

    Attributes:
        parameters: parameters by name, in their natural units.
        errors: standard errors of the parameters; NaN at a limit.
        model: model with these parameters, ready for `wolf.filter`.
        outlier_share: fitted share of outliers; None for the Gaussian score.
        outlier_widen: fitted variance of an outlier's residual over that of a good one; None for the Gaussian score.
        score: log predictive density of the measurements that are scored: all of them, or, for the two-part score of a
            model with diffuse states, those after the first five of each state.
        count: scored rows with a measurement.
        starts: results of the starts of the search, that of the fit first.
        states_rmse: root mean squared error of the states, where they were known and fitted to.
        data: what the fit was made from; None where it was not made by `wolf.fit`.
    """

    parameters: dict[str, float]
    errors: dict[str, float]
    model: Model
    outlier_share: float | None
    outlier_widen: float | None
    score: float
    count: int
    starts: tuple[Start, ...]
    states_rmse: float | None = None
    data: FitData | None = None

    @property
    def aic(self) -> float:
        """Criterion of Akaike, as in `summary()`."""
        return self.summary().aic

    @property
    def aicc(self) -> float:
        """Criterion of Akaike, corrected for short series, as in `summary()`."""
        return self.summary().aicc

    @property
    def bic(self) -> float:
        """Criterion of Schwarz, as in `summary()`."""
        return self.summary().bic

    def summary(self) -> "FitSummary":
        """Compute a table of the parameters with standard errors, information criteria and checks of the residuals.

        Its layout is that of statsmodels; `print(fit.summary())`, in a notebook `fit.summary()`. The log-likelihood
        leaves out the first measurements, one for each diffuse state, as statsmodels does, so that the criteria of
        models with different states can be compared.

        Example:
            >>> import wolf
            >>> truth = wolf.models.local_level(level_var=0.1, obs_var=1.0)
            >>> ys = wolf.simulate.trajectory(truth, 200, key=1).measurements
            >>> print(wolf.fit(wolf.models.local_level, ys).summary().as_text().splitlines()[3])
            States:                              1   Log Likelihood                -318.517
        """
        from wolf.fitting.summary import summarize

        return summarize(self)

    @property
    def converged(self) -> bool:
        """Whether the start that is used converged, to an optimum with no variance at a boundary."""
        return self.starts[0].converged

    @property
    def at_boundary(self) -> tuple[str, ...]:
        """Names of parameters at a boundary, usually variances for which 0 is as likely.

        Where another start found an optimum without any that is nearly as good, that one is used.
        """
        return self.starts[0].at_boundary

    @property
    def agreeing(self) -> int:
        """Number of starts that found the best score."""
        return sum(start.score > self.score - SAME_SCORE * self.count for start in self.starts)

    def plot(self) -> "Figure":
        """Draw the parameters with their errors, and the end of each start, as a `matplotlib.figure.Figure`."""
        from wolf.plots.fit_plot import fit

        return fit(self)

    def __repr__(self) -> str:
        """Return the parameters, their errors and the course of the search as text."""
        width = max(len(name) for name in [*self.parameters, "outliers"]) + 2
        return "\n".join([self._title(), *(f"  {name:<{width}}{text}" for name, text in self._rows())])

    def _repr_html_(self) -> str:
        """Return the same as an HTML table for notebooks."""
        return html.page(self._title(), self._rows())

    def _title(self) -> str:
        if self.at_boundary:
            return f"Fit: AT A BOUNDARY: {' and '.join(self.at_boundary)}, for which 0 is as likely"
        return f"Fit: {'converged' if self.converged else 'NOT converged: ' + self.starts[0].message}"

    def _rows(self) -> list[tuple[str, str]]:
        """List names and values of the table."""
        rows = []
        for name, value in self.parameters.items():
            error = "" if np.isnan(self.errors[name]) else f" ± {self.errors[name]:.2g}"
            rows.append((name, f"{value:.4g}{error}"))
        if self.outlier_share is not None:
            rows.append(("outliers", self._outlier_text()))
        if self.states_rmse is not None:
            rows.append(("states", f"RMSE {self.states_rmse:.4g}"))
        counts = f"{self.agreeing} of {count(len(self.starts), 'start')} reached it"
        return [*rows, ("score", f"{self.score / self.count:.4f} per row, {self.count} rows; {counts}")]

    def _outlier_text(self) -> str:
        share, widen = self.outlier_share or 0.0, self.outlier_widen or 1.0
        return (
            "none"
            if share <= 1.01 * OUTLIER_SHARE_RANGE[0]
            else f"{share:.1%} of the rows, {widen**0.5:.3g} times as large"
        )

"""What a fit hands out: the parameters, how sure they are, and how the search went."""

import dataclasses
from typing import Any, NamedTuple

import numpy as np

from wolf.results import count
from wolf.results.views import html

SHARE = (1e-4, 0.5)  # outliers are a minority; below one in ten thousand there are none to speak of
AGREE = 1e-4  # difference in score per measured row below which two starts found the same optimum


class Start(NamedTuple):
    """What one start of the search came to.

    Attributes:
        score: log predictive density of all measurements.
        converged: whether the search ended by itself.
        evaluations: of the score and its slope.
        message: of the optimiser.
        parameters: where it ended.
    """

    score: float
    converged: bool
    evaluations: int
    message: str
    parameters: dict[str, float]


@dataclasses.dataclass(frozen=True, repr=False)
class Fit:
    """What was fitted, and how well.

    Attributes:
        parameters: by name, in their natural units.
        errors: standard errors of the parameters; NaN at the edge of what a parameter may be.
        model: built with them, ready for `wolf.filter`.
        outlier_share: fitted share of outliers; None for the Gaussian score.
        outlier_widen: fitted variance of an outlier's residual over that of a good one; None for the Gaussian score.
        score: log predictive density of all measurements.
        count: rows with a measurement.
        starts: what each start of the search came to, the best first.
    """

    parameters: dict[str, float]
    errors: dict[str, float]
    model: Any
    outlier_share: float | None
    outlier_widen: float | None
    score: float
    count: int
    starts: tuple[Start, ...]

    @property
    def converged(self) -> bool:
        """Whether the best start ended by itself."""
        return self.starts[0].converged

    @property
    def agreeing(self) -> int:
        """Number of starts that found the best score."""
        return sum(start.score > self.score - AGREE * self.count for start in self.starts)

    def plot(self) -> Any:
        """Draw the parameters with their errors, and where each start ended; a `matplotlib.figure.Figure`."""
        from wolf.plots.fit_plot import fit

        return fit(self)

    def __repr__(self) -> str:
        """Tell the parameters, their errors and how the search went."""
        width = max(len(name) for name in [*self.parameters, "outliers"]) + 2
        return "\n".join([self._title(), *(f"  {name:<{width}}{words}" for name, words in self._told())])

    def _repr_html_(self) -> str:
        """Tell the same in a notebook."""
        return html.page(self._title(), self._told())

    def _title(self) -> str:
        return f"Fit: {'converged' if self.converged else 'NOT converged: ' + self.starts[0].message}"

    def _told(self) -> list[tuple[str, str]]:
        """List what there is to tell, by name."""
        rows = []
        for name, value in self.parameters.items():
            error = "" if np.isnan(self.errors[name]) else f" ± {self.errors[name]:.2g}"
            rows.append((name, f"{value:.4g}{error}"))
        if self.outlier_share is not None:
            rows.append(("outliers", self._outliers()))
        counts = f"{self.agreeing} of {count(len(self.starts), 'start')} found it"
        return [*rows, ("score", f"{self.score / self.count:.4f} for each of {self.count} rows; {counts}")]

    def _outliers(self) -> str:
        share, widen = self.outlier_share or 0.0, self.outlier_widen or 1.0
        return "none" if share <= 1.01 * SHARE[0] else f"{share:.1%} of the rows, {widen**0.5:.3g} times as wide"

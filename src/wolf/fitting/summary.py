"""Summary of a fit in the layout of statsmodels: parameters, information criteria, checks of the residuals."""

import dataclasses
from html import escape
from typing import TYPE_CHECKING

import jax.numpy as jnp
import numpy as np

from wolf import api
from wolf.beliefs.density import deviations
from wolf.fitting.diffuse_prior import DiffusePrior
from wolf.fitting.residual_tests import ResidualTests, residual_tests
from wolf.fitting.student_score import log_two_part
from wolf.inference.filters import GaussianFilter
from wolf.inference.noise import ContaminatedGaussian
from wolf.numerics.precision import precision
from wolf.results import Filtered

if TYPE_CHECKING:
    from wolf.fitting.result import Fit

WIDTH = 78  # characters of a line
HEADER = ("", "coef", "std err", "z", "P>|z|", "[0.025", "0.975]")
Pair = tuple[str, str]


@dataclasses.dataclass(frozen=True, repr=False)
class FitSummary:
    """Numbers of a summary; `print` shows them as text, a notebook as HTML.

    Attributes:
        fit: the fit.
        log_likelihood: of the measurements, without the first ones, which determine the diffuse states.
        num_rows: rows with a measurement.
        count: rows that the log-likelihood is of.
        num_parameters: fitted parameters, with the share and width of outliers, which the information criteria count.
        aic: criterion of Akaike (1974).
        aicc: the same, corrected for short series (Hurvich & Tsai 1989).
        bic: criterion of Schwarz (1978).
        tests: checks of the standardised one-step errors of each measured coordinate, outliers left out.
    """

    fit: "Fit"
    log_likelihood: float
    num_rows: int
    count: int
    num_parameters: int
    aic: float
    aicc: float
    bic: float
    tests: tuple[ResidualTests, ...]

    def as_text(self) -> str:
        """Format as text."""
        rule = "=" * WIDTH
        lines = ["WoLF Fit Results".center(WIDTH).rstrip(), rule]
        lines += [_two_columns(left, right) for left, right in _paired(*self._facts())]
        lines += [rule, _row(HEADER), "-" * WIDTH, *map(_row, self._parameter_rows()), rule]
        lines += [_two_columns(left, right) for left, right in _paired(*self._checks())]
        return "\n".join([*lines, rule, *self._notes()])

    def as_html(self) -> str:
        """Format as HTML tables, without external resources."""
        tables = [
            _table([[*left, *right] for left, right in _paired(*self._facts())]),
            _table([HEADER, *self._parameter_rows()], header=True),
            _table([[*left, *right] for left, right in _paired(*self._checks())]),
        ]
        notes = "".join(f"<p>{escape(note)}</p>" for note in self._notes())
        return f"<div><p><b>WoLF Fit Results</b></p>{''.join(tables)}{notes}</div>"

    def __repr__(self) -> str:
        """Return the text."""
        return self.as_text()

    def _repr_html_(self) -> str:
        """Return the HTML for notebooks."""
        return self.as_html()

    def _facts(self) -> tuple[list[Pair], list[Pair]]:
        fit = self.fit
        converged = "at a boundary" if fit.at_boundary else str(fit.converged)
        share = "not fitted" if fit.outlier_share is None else f"{fit.outlier_share:.2%}"
        left = [
            ("Model:", repr(fit.model).partition("(")[0]),
            ("States:", str(fit.model.state_dim)),
            (
                "Score:",
                "states" if fit.states_rmse is not None else "gaussian" if share == "not fitted" else "two-part",
            ),
            ("Outlier share:", share),
            ("Converged:", f"{converged} ({fit.agreeing} of {len(fit.starts)} starts)"),
        ]
        right = [
            ("No. Observations:", str(self.num_rows)),
            ("Log Likelihood", f"{self.log_likelihood:.3f}"),
            ("AIC", f"{self.aic:.3f}"),
            ("AICc", f"{self.aicc:.3f}"),
            ("BIC", f"{self.bic:.3f}"),
        ]
        return left, right

    def _parameter_rows(self) -> list[tuple[str, ...]]:
        from scipy.stats import norm

        half = deviations(0.95)
        rows = []
        for name, value in self.fit.parameters.items():
            error = self.fit.errors[name]
            z = value / error if error > 0 else float("nan")
            numbers = (value, error, z, 2 * norm.sf(abs(z)), value - half * error, value + half * error)
            rows.append((name, *(_number(each, k) for k, each in enumerate(numbers))))
        return rows

    def _checks(self) -> tuple[list[Pair], list[Pair]]:
        tests = [dataclasses.asdict(each) for each in self.tests]

        def joined(name: str) -> str:
            return ", ".join(f"{each[name]:.2f}" for each in tests)

        left = [("Ljung-Box (L1) (Q):", "ljung_box"), ("Prob(Q):", "ljung_box_p")]
        left += [("Heteroskedasticity (H):", "heteroskedasticity"), ("Prob(H) (two-sided):", "heteroskedasticity_p")]
        right = [("Jarque-Bera (JB):", "jarque_bera"), ("Prob(JB):", "jarque_bera_p")]
        right += [("Skew:", "skew"), ("Kurtosis:", "kurtosis")]
        return [(title, joined(name)) for title, name in left], [(title, joined(name)) for title, name in right]

    def _notes(self) -> list[str]:
        notes = []
        if self.fit.states_rmse is not None:
            notes.append(f"Parameters minimise the error of known states: RMSE {self.fit.states_rmse:.4g}.")
        elif any(np.isnan(error) for error in self.fit.errors.values()):
            notes.append("nan: the parameter is at a limit, or its standard error is not known.")
        if self.fit.at_boundary:
            notes.append(f"At a boundary, where 0 is as likely: {', '.join(self.fit.at_boundary)}.")
        if self.fit.outlier_share is not None:
            notes.append("Measurements classified as outliers are left out of the checks.")
        return notes


def summarize(fit: "Fit") -> FitSummary:
    """Compute the summary of a fit by one run of its filter."""
    data = fit.data
    if data is None:
        raise ValueError(
            "this fit was made without wolf.fit, and has no data: filter the series with its model instead"
        )
    burn = len(DiffusePrior(fit.model, data.ys).diffuse_states)
    runs = [_run(fit, series) for series in range(len(data.ys))]
    log_likelihood = float(sum(np.sum(_log_densities(fit, out)[burn:]) for out in runs))
    count = sum(int(np.isfinite(out.ys[burn:]).any(1).sum()) for out in runs)
    parameters = len(fit.parameters) + (0 if fit.outlier_share is None else 2)
    aic = -2.0 * log_likelihood + 2.0 * parameters
    spare = count - parameters - 1
    correction = 2.0 * parameters * (parameters + 1.0) / spare if spare > 0 else float("inf")
    bic = -2.0 * log_likelihood + np.log(max(count, 1)) * parameters
    errors = np.concatenate([standardised_errors(out)[burn:] for out in runs])
    tests = tuple(residual_tests(column) for column in errors.T)
    rows = int(np.isfinite(data.ys).any(-1).sum())
    return FitSummary(fit, log_likelihood, rows, count, parameters, aic, aic + correction, float(bic), tests)


def _run(fit: "Fit", series: int) -> Filtered:
    """Filter one series by the filter whose likelihood was maximised."""
    data = fit.data
    assert data is not None
    method = data.method
    if fit.outlier_share is not None and isinstance(method, GaussianFilter):
        rule = ContaminatedGaussian(fit.outlier_share, fit.outlier_widen or 1.0)
        method = dataclasses.replace(method, noise=rule)
    inputs = data.inputs if data.inputs is None or data.inputs.ndim == 2 else data.inputs[series]
    return api.filter(fit.model, data.ys[series], method=method, inputs=inputs, update_first=data.update_first)


def _log_densities(fit: "Fit", out: Filtered) -> np.ndarray:
    """Return the log density of each row under the score of the fit, (T,)."""
    if fit.outlier_share is None:
        return out.log_liks
    counts = np.isfinite(out.ys).sum(axis=1)
    share, widen = fit.outlier_share, fit.outlier_widen or 1.0
    with precision("float64"):
        arrays = [jnp.asarray(each) for each in (out.log_liks, np.nan_to_num(out.nis), counts, share, widen)]
        return np.asarray(log_two_part(*arrays))


def standardised_errors(out: Filtered) -> np.ndarray:
    """Return one-step errors whitened by their covariance, (T, M); NaN where missing or an outlier."""
    errors = np.array(out.residuals)
    outliers = out.outliers if out.outliers.ndim == 2 else out.outliers[:, None]
    errors[np.broadcast_to(outliers, errors.shape) | ~np.isfinite(errors)] = np.nan
    complete = np.isfinite(errors).all(axis=1)
    white = errors / np.sqrt(np.diagonal(out.innovation_covs, axis1=1, axis2=2))
    if errors.shape[1] > 1 and complete.any():
        factors = np.linalg.cholesky(out.innovation_covs[complete])
        white[complete] = np.linalg.solve(factors, errors[complete][..., None])[..., 0]
    return np.asarray(white)


def _number(value: float, column: int) -> str:
    """Format a number: five digits, z and p with three decimals."""
    if not np.isfinite(value):
        return "nan"
    return f"{value:.3f}" if column in (2, 3) else f"{value:.4g}"


def _paired(left: list[Pair], right: list[Pair]) -> list[tuple[Pair, Pair]]:
    size = max(len(left), len(right))
    blank = ("", "")
    return [(left[k] if k < len(left) else blank, right[k] if k < len(right) else blank) for k in range(size)]


def _two_columns(left: Pair, right: Pair) -> str:
    half = WIDTH // 2 - 1
    texts = [f"{name}{value:>{max(half - len(name), len(value) + 1)}}" for name, value in (left, right)]
    return "   ".join(texts).rstrip()


def _row(cells: tuple[str, ...]) -> str:
    widths = (WIDTH - 6 * 10, *[10] * 6)
    return "".join(
        f"{cell:<{width}}" if k == 0 else f"{cell:>{width}}"
        for k, (cell, width) in enumerate(zip(cells, widths, strict=True))
    )


def _table(rows: "list[list[str]] | list[tuple[str, ...]]", header: bool = False) -> str:
    body = []
    for k, row in enumerate(rows):
        kind = "th" if header and k == 0 else "td"
        body.append(
            "<tr>" + "".join(f"<{kind} style='text-align:right'>{escape(cell)}</{kind}>" for cell in row) + "</tr>"
        )
    return f"<table>{''.join(body)}</table>"

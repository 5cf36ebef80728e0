"""Figures of results. No function runs a filter, and matplotlib's global settings are not changed.

Every function returns a `matplotlib.figure.Figure`: `wolf.plots.series(out, ys).savefig("series.png")`. matplotlib is
the extra `plot`.
"""

from wolf.plots.certificate_plot import certificate as certificate
from wolf.plots.components_plot import components as components
from wolf.plots.diagnostics import influence as influence
from wolf.plots.diagnostics import weights as weights
from wolf.plots.ensemble import errors as errors
from wolf.plots.ensemble import hovmoller as hovmoller
from wolf.plots.ensemble import rank_histogram as rank_histogram
from wolf.plots.fit_plot import fit as fit
from wolf.plots.forecast_plot import forecast as forecast
from wolf.plots.noise_scales import levels as levels
from wolf.plots.series_plot import series as series
from wolf.plots.tracking import paths as paths

track = paths  # an alias with the usual term

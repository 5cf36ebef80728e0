"""HTML reports: one file without external resources, readable without knowledge of filters.

Charts are drawn in the browser by uPlot 1.6.32 (Leon Sorokin, MIT licence, in `assets/uPlot-LICENSE.txt`), which is
part of the page.
"""

from wolf.reports.from_filtered import report as report
from wolf.reports.page import write_report as write_report

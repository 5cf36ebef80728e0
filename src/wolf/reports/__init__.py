"""A page to look at: one HTML file with everything in it, for people who have never seen a filter.

The pictures are drawn in the browser by uPlot 1.6.32 (Leon Sorokin, MIT licence, in `assets/uPlot-LICENSE.txt`), which
is part of the page; nothing is loaded from anywhere.
"""

from wolf.reports.from_filtered import report as report
from wolf.reports.page import write_report as write_report

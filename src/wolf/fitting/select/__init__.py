"""Model selection: `wolf.choose(ys)`.

Candidates are evaluated in the order of their cost. Each predicts every value from those before it, with variances
found on a grid (`candidate_fit.py`), and is scored by the log density of a contaminated Gaussian
(`predictive_score.py`).
"""

from wolf.fitting.select.selection import FEWEST as FEWEST
from wolf.fitting.select.selection import Candidate as Candidate
from wolf.fitting.select.selection import Choice as Choice
from wolf.fitting.select.selection import choose as choose
from wolf.fitting.select.selection import choose_rows as choose_rows

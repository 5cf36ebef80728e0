"""A model chosen from the data: `wolf.choose(ys)`.

Candidates are tried cheap ones first. Each foretells every value from those before it, with variances found on a grid
(`steady`, `trials`), and is scored by the log density of a law with outliers in it (`scores`).
"""

from wolf.fitting.select.selection import FEWEST as FEWEST
from wolf.fitting.select.selection import Candidate as Candidate
from wolf.fitting.select.selection import Choice as Choice
from wolf.fitting.select.selection import choose as choose
from wolf.fitting.select.selection import choose_rows as choose_rows

"""A model chosen from the data: `wolf.choose(ys)`.

Candidates are tried cheap ones first. Each foretells every value from those before it, with variances found on a grid
(`steady`, `trials`), and is scored by the log density of a law with outliers in it (`scores`).
"""

from wolf.choosing.choice import FEWEST as FEWEST
from wolf.choosing.choice import Candidate as Candidate
from wolf.choosing.choice import Choice as Choice
from wolf.choosing.choice import choose as choose
from wolf.choosing.choice import choose_rows as choose_rows

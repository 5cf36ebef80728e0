"""Why measurements were refused: an outlier, a jump of the state, a stuck or a biased sensor."""

from wolf.explaining.causes import explain as explain
from wolf.explaining.findings import Explained as Explained
from wolf.explaining.findings import Finding as Finding

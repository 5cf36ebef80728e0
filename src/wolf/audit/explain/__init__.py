"""Why measurements were refused: an outlier, a jump of the state, a stuck or a biased sensor."""

from wolf.audit.explain.causes import explain as explain
from wolf.audit.explain.findings import Cause as Cause
from wolf.audit.explain.findings import Explained as Explained
from wolf.audit.explain.findings import Finding as Finding

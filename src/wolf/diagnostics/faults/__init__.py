"""Fault diagnosis: why measurements were rejected (an outlier, a jump of the state, a stuck or biased sensor)."""

from wolf.diagnostics.faults.classify import explain as explain
from wolf.diagnostics.faults.result import Cause as Cause
from wolf.diagnostics.faults.result import Explanation as Explanation
from wolf.diagnostics.faults.result import Finding as Finding

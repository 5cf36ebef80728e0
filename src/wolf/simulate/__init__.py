"""Simulated data with outliers of many kinds, and the truth."""

from wolf.simulate.processes import Additive as Additive
from wolf.simulate.processes import Burst as Burst
from wolf.simulate.processes import Clean as Clean
from wolf.simulate.processes import Drift as Drift
from wolf.simulate.processes import EachSensor as EachSensor
from wolf.simulate.processes import Gap as Gap
from wolf.simulate.processes import Missing as Missing
from wolf.simulate.processes import Mixture as Mixture
from wolf.simulate.processes import OutlierProcess as OutlierProcess
from wolf.simulate.processes import ReplacedMeasurements as ReplacedMeasurements
from wolf.simulate.processes import Sequence as Sequence
from wolf.simulate.processes import Spikes as Spikes
from wolf.simulate.processes import Stuck as Stuck
from wolf.simulate.processes import StudentT as StudentT
from wolf.simulate.sample_paths import Simulation as Simulation
from wolf.simulate.sample_paths import trajectory as trajectory
from wolf.simulate.sample_paths import with_true_noise as with_true_noise

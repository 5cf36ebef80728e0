"""Simulated data with every kind of outlier, and the truth beside it."""

from wolf.simulate.simulate import Additive as Additive
from wolf.simulate.simulate import Burst as Burst
from wolf.simulate.simulate import Clean as Clean
from wolf.simulate.simulate import Drift as Drift
from wolf.simulate.simulate import EachSensor as EachSensor
from wolf.simulate.simulate import Gap as Gap
from wolf.simulate.simulate import Missing as Missing
from wolf.simulate.simulate import Mixture as Mixture
from wolf.simulate.simulate import Replaced as Replaced
from wolf.simulate.simulate import Sequence as Sequence
from wolf.simulate.simulate import Simulated as Simulated
from wolf.simulate.simulate import Spikes as Spikes
from wolf.simulate.simulate import Stuck as Stuck
from wolf.simulate.simulate import StudentT as StudentT
from wolf.simulate.simulate import tell as tell
from wolf.simulate.simulate import trajectory as trajectory

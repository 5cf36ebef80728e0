"""Weight functions and the calibration of their thresholds."""

from wolf.inference.weights.functions import EFFICIENCY as EFFICIENCY
from wolf.inference.weights.functions import IMQ as IMQ
from wolf.inference.weights.functions import DistanceWeight as DistanceWeight
from wolf.inference.weights.functions import Huber as Huber
from wolf.inference.weights.functions import MahalanobisIMQ as MahalanobisIMQ
from wolf.inference.weights.functions import MahalanobisThreshold as MahalanobisThreshold
from wolf.inference.weights.functions import PerCoordinate as PerCoordinate
from wolf.inference.weights.functions import PerGroup as PerGroup
from wolf.inference.weights.functions import StudentWeight as StudentWeight
from wolf.inference.weights.functions import Tukey as Tukey
from wolf.inference.weights.functions import Unweighted as Unweighted
from wolf.inference.weights.functions import Weight as Weight
from wolf.inference.weights.functions import Welsch as Welsch
from wolf.inference.weights.functions import evaluate as evaluate

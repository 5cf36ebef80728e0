"""The model zoo: functions that return a model. Noise variances are yours to say; priors have stated defaults."""

from wolf.models.structural import local_level as local_level
from wolf.models.structural import local_trend as local_trend
from wolf.models.tracking import constant_velocity as constant_velocity

"""The model zoo: functions that return a model. Noise variances are yours to say; priors have stated defaults."""

from wolf.models.components import Part as Part
from wolf.models.components import ar as ar
from wolf.models.components import arma as arma
from wolf.models.components import cycle as cycle
from wolf.models.components import diffuse_prior as diffuse_prior
from wolf.models.components import level as level
from wolf.models.components import local_level as local_level
from wolf.models.components import local_trend as local_trend
from wolf.models.components import regression as regression
from wolf.models.components import seasonal as seasonal
from wolf.models.components import structural as structural
from wolf.models.components import trend as trend
from wolf.models.continuous import discretise as discretise
from wolf.models.continuous import linear_sde as linear_sde
from wolf.models.continuous import merge_sensors as merge_sensors
from wolf.models.continuous import ornstein_uhlenbeck as ornstein_uhlenbeck
from wolf.models.continuous import time_steps as time_steps
from wolf.models.continuous import wiener_level as wiener_level
from wolf.models.continuous import wiener_velocity as wiener_velocity
from wolf.models.tracking import constant_acceleration as constant_acceleration
from wolf.models.tracking import constant_velocity as constant_velocity
from wolf.models.tracking import coordinated_turn as coordinated_turn
from wolf.models.tracking import gps_odometry as gps_odometry
from wolf.models.tracking import range_bearing as range_bearing
from wolf.models.tracking import singer as singer

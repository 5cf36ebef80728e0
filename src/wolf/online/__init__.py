"""Filtering as measurements come."""

from wolf.online.advancing import Stepped as Stepped
from wolf.online.bank import Bank as Bank
from wolf.online.lagged import FixedLag as FixedLag
from wolf.online.lagged import Lagged as Lagged
from wolf.online.late import Rewinding as Rewinding
from wolf.online.online import Online as Online
from wolf.online.report import Report as Report
from wolf.online.sensors import Sensor as Sensor

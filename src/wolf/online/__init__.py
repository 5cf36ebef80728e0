"""Filtering as measurements come."""

from wolf.online.bank.arrow_batches import filter_batches as filter_batches
from wolf.online.bank.bank import Bank as Bank
from wolf.online.bank.out_of_sequence import OutOfSequenceBank as OutOfSequenceBank
from wolf.online.bank.step import BankStep as BankStep
from wolf.online.fixed_lag import FixedLag as FixedLag
from wolf.online.fixed_lag import LaggedEstimate as LaggedEstimate
from wolf.online.online import Online as Online
from wolf.online.sensor import Sensor as Sensor
from wolf.online.step_info import StepReport as StepReport

"""Loaders of data sets. Nothing is downloaded unless you ask for a set that is not there."""

from wolf.datasets import uci as uci

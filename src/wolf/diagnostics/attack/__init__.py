"""Adversarial attack: the few measurement errors that damage a filter most."""

from wolf.diagnostics.attack.relaxed_gates import SoftGate as SoftGate
from wolf.diagnostics.attack.relaxed_gates import soften as soften
from wolf.diagnostics.attack.worst_measurements import Attack as Attack
from wolf.diagnostics.attack.worst_measurements import attack as attack

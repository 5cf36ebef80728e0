"""Attack a filter: the few wrong measurements that hurt it most."""

from wolf.red_team.attacking import Attack as Attack
from wolf.red_team.attacking import attack as attack
from wolf.red_team.gates import SoftGate as SoftGate
from wolf.red_team.gates import soften as soften

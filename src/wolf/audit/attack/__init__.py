"""Attack a filter: the few wrong measurements that hurt it most."""

from wolf.audit.attack.attacking import Attack as Attack
from wolf.audit.attack.attacking import attack as attack
from wolf.audit.attack.gates import SoftGate as SoftGate
from wolf.audit.attack.gates import soften as soften

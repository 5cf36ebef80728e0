"""How robust a method is: a certificate, an attack, an explanation of what was refused.

`wolf.audit.attack` and `wolf.audit.explain` are the functions; what else is in the folders of these names is imported
from there, as in `from wolf.audit.attack import SoftGate`.
"""

from wolf.audit.attack import Attack as Attack
from wolf.audit.attack import attack as attack
from wolf.audit.certificate import Certificate as Certificate
from wolf.audit.certificate import certify as certify
from wolf.audit.explain import Explained as Explained
from wolf.audit.explain import explain as explain

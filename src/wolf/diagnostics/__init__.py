"""How robust a method is: a certificate, an attack, an explanation of what was refused.

`wolf.diagnostics.attack` and `wolf.diagnostics.faults` are the functions; what else is in the folders of these names
is imported from there, as in `from wolf.diagnostics.attack import SoftGate`.
"""

from wolf.diagnostics.attack import Attack as Attack
from wolf.diagnostics.attack import attack as attack
from wolf.diagnostics.certificate import Certificate as Certificate
from wolf.diagnostics.certificate import certify as certify
from wolf.diagnostics.faults import Explanation as Explanation
from wolf.diagnostics.faults import explain as explain

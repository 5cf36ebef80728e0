"""A step as native code: translated from JAX's record of it, compiled by LLVM, run without JAX.

`runner` runs series, `single` one measurement at a time; `plan` says whether a run is for native code at all.
"""

from wolf.native import recent as recent
from wolf.native.ids import RefusedError as RefusedError
from wolf.native.kinds import Again as Again
from wolf.native.kinds import Back as Back
from wolf.native.plan import ENGINES as ENGINES
from wolf.native.plan import Engine as Engine
from wolf.native.plan import plan as plan
from wolf.native.plan import plan_back as plan_back
from wolf.native.plan import why_not as why_not
from wolf.native.runner import Prepared as Prepared
from wolf.native.runner import UnsuitedError as UnsuitedError
from wolf.native.runner import run_rows as run_rows
from wolf.native.series import run_many as run_many
from wolf.native.series import run_one as run_one
from wolf.native.series import walk_back as walk_back
from wolf.native.series import weigh_again as weigh_again
from wolf.native.single import Single as Single

UNSUITED = (UnsuitedError, RefusedError)  # what says that a run is not for native code

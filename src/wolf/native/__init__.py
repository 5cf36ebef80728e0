"""A step as native code: translated from JAX's record of it, compiled by LLVM, run without JAX.

`execute.batch_run` runs series, `execute.single_step` one measurement at a time.
"""

from wolf.native.execute.batch_run import run_many as run_many
from wolf.native.execute.batch_run import run_one as run_one
from wolf.native.execute.batch_run import walk_back as walk_back
from wolf.native.execute.batch_run import weigh_again as weigh_again
from wolf.native.execute.executable import Prepared as Prepared
from wolf.native.execute.executable import UnsuitedError as UnsuitedError
from wolf.native.execute.executable import run_rows as run_rows
from wolf.native.execute.single_step import Single as Single
from wolf.native.frontend.node_arrays import RefusedError as RefusedError
from wolf.native.frontend.signature import Again as Again
from wolf.native.frontend.signature import Back as Back

UNSUITED = (UnsuitedError, RefusedError)  # what says that a run is not for native code

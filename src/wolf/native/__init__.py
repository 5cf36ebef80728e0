"""A step as native code: translated from JAX's record of it, compiled by LLVM, run without JAX.

`execute.batch_run` runs series, `execute.single_step` one measurement at a time.
"""

from wolf.native.execute.batch_run import reweight_leave_one_out as reweight_leave_one_out
from wolf.native.execute.batch_run import run_many as run_many
from wolf.native.execute.batch_run import run_one as run_one
from wolf.native.execute.batch_run import run_smoother as run_smoother
from wolf.native.execute.executable import NativeProgram as NativeProgram
from wolf.native.execute.executable import UnsupportedModelError as UnsupportedModelError
from wolf.native.execute.executable import run_rows as run_rows
from wolf.native.execute.single_step import SingleStep as SingleStep
from wolf.native.frontend.node_arrays import UnsupportedOperationError as UnsupportedOperationError
from wolf.native.frontend.signature import LooSpec as LooSpec
from wolf.native.frontend.signature import SmootherSpec as SmootherSpec

UNSUPPORTED = (UnsupportedModelError, UnsupportedOperationError)  # what says that a run is not for native code

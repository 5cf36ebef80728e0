"""A compiler from the jaxpr of one filter step to machine code, run without JAX; see README.md in this folder.

`execute.batch_run` runs whole series, `execute.single_step` one measurement at a time.
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

UNSUPPORTED = (UnsupportedModelError, UnsupportedOperationError)  # errors by which a run is left to XLA

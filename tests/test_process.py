"""What a process may do to a run: threads, forks, and too much asked of its memory."""

import subprocess
import sys
import textwrap
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import wolf
from wolf.numerics.xla import shares_out

SOURCE = Path(wolf.__file__).parents[1]


def run_python(program, seconds=60):
    """Run a program in a process of its own, and give what it printed; one that hangs fails."""
    code = f"import sys; sys.path.insert(0, {str(SOURCE)!r})\n" + textwrap.dedent(program)
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], timeout=seconds, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


@pytest.mark.thorough
def test_many_series_with_lapack_inside_end():
    printed = run_python("""
        import numpy as np, wolf
        model = wolf.models.constant_velocity(9, 1.0, 0.05, 1.0)
        out = wolf.filter_many(model, np.zeros((130, 30, 9)), save="final", threads=2)
        print(np.isfinite(out.log_liks).all())
    """)
    assert printed == ["True"]


@pytest.mark.parametrize("operation", [jnp.linalg.cholesky, jnp.linalg.eigh, jnp.linalg.qr, jnp.linalg.inv, jnp.fft.fft])
def test_a_batch_of_matrices_is_seen_wherever_it_is(operation):
    def loop(x):
        return jax.lax.scan(lambda carry, _: (carry, operation(x)), 0, None, length=3)

    assert shares_out(jax.make_jaxpr(loop)(jnp.ones((2, 3, 3))).jaxpr)
    assert shares_out(jax.make_jaxpr(jax.jit(jax.vmap(loop)))(jnp.ones((2, 3, 3))).jaxpr)
    if operation is not jnp.fft.fft:
        assert not shares_out(jax.make_jaxpr(loop)(jnp.ones((3, 3))).jaxpr)
    assert not shares_out(jax.make_jaxpr(lambda x: x @ x)(jnp.ones((2, 3, 3))).jaxpr)


CALLS = {
    "filter": "wolf.filter(model, ys, dtype='float32')",
    "filter_many": "wolf.filter_many(model, [ys, ys])",
    "filter_chunks": "list(wolf.filter_chunks(model, [ys]))",
    "smooth": "wolf.smooth(out)",
    "sample_paths": "wolf.sample_paths(out, num=2, key=0)",
    "forecast": "wolf.forecast(out, steps=2)",
    "fit": "wolf.fit(wolf.models.local_level, ys)",
    "step": "online.step(1.0)",
    "Online": "wolf.Online(model, 'PF', key=0)",
}


@pytest.mark.skipif(sys.platform == "win32", reason="only POSIX forks")
def test_a_child_made_by_fork_is_told_to_be_spawned():
    lines = [f"tell({name!r}, lambda: {text})" for name, text in CALLS.items()]
    program = f"""
import os, sys, wolf
model, ys = wolf.models.local_level(1.0, 1.0), [1.0, 2.0] * 4
if os.fork() == 0:  # before any use a child is sound
    wolf.filter(model, ys, save="final")
    os._exit(0)
assert os.waitstatus_to_exitcode(os.wait()[1]) == 0
out, online = wolf.filter(model, ys), wolf.Online(model)
def tell(name, call):
    try:
        call()
    except RuntimeError as error:
        print(name if '"spawn"' in str(error) and "\\n" not in str(error) else repr(error))
if os.fork() == 0:
    {"; ".join(lines)}
    sys.stdout.flush()
    os._exit(0)
assert os.waitstatus_to_exitcode(os.wait()[1]) == 0
wolf.filter(model, ys)
"""
    assert run_python(program) == list(CALLS)

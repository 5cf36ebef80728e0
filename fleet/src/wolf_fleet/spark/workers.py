"""Settings of a Python worker process of Spark, which runs many tasks."""

import gc
import sys

_frozen = False


def freeze() -> None:
    """Exclude imported modules from garbage collection.

    Spark's daemon collects garbage after each task. Scanning the objects of JAX takes 0.1 s each time, as long as
    filtering 300,000 rows, and none of them is ever garbage.
    """
    global _frozen  # Spark reuses the process
    if not _frozen and "pyspark.worker" in sys.modules:  # other processes are not ours to change
        gc.collect()
        gc.freeze()
        _frozen = True

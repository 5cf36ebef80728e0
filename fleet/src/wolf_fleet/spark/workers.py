"""What is done once in a Python process of Spark that is used for many tasks."""

import gc
import sys

_frozen = False


def freeze() -> None:
    """Take what is imported out of the garbage collector's sight.

    Spark's daemon collects garbage after each task. To look through all that JAX has made takes it 0.1 s each time,
    as much as to filter 300,000 rows; nothing of it is ever garbage.
    """
    global _frozen  # of this process, which Spark keeps
    if not _frozen and "pyspark.worker" in sys.modules:  # elsewhere it is not ours to freeze
        gc.collect()
        gc.freeze()
        _frozen = True

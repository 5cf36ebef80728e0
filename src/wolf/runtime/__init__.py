"""Effects on the process: caches of compiled programs, garbage collection, signals, threads, checkpoint files."""

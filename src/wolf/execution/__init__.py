"""Execution of a run: validation, the prepared model and method, and the choice of backend."""

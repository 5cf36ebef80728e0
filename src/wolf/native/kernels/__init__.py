"""Hand-written kernels: loops over memory instead of one instruction per number."""

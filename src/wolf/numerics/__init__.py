"""Arithmetic that is independent of filtering: small matrices, configs as pytrees, loops as one kernel."""

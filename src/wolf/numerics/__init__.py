"""Arithmetic that knows nothing of filtering: small matrices, configs as pytrees, one-kernel loops."""

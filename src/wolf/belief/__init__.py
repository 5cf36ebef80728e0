"""Beliefs about a state, and the only Kalman algebra in the package."""

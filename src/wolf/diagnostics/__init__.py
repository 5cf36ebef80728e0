"""Robustness of a method and diagnosis of its results: certificates, adversarial attacks, fault diagnosis, metrics.

The public functions are `wolf.certify`, `wolf.attack`, `wolf.explain`, `wolf.changepoints`, `wolf.metrics` and
`wolf.influence`. Nothing is imported here, so that each of them loads only its own modules.
"""

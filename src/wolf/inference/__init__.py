"""One step of one filter: linearizations, weights, noise models, filters and the registry of methods by name."""

"""From the jaxpr of a step to a graph of scalar operations."""

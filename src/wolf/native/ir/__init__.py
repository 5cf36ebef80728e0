"""The graph of scalar operations and the layout of its arguments."""

"""A bank of online filters, one for each key."""

"""Many online filters, one for each key."""

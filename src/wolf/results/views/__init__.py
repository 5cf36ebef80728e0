"""Results as tables, data sets, text and HTML."""

"""Incidents of keys: health statistics, the log of incidents, and alerts."""

"""The driver and what follows a run: steps, scans, many series, smoothing, forecasting."""

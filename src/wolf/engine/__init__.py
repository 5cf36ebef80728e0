"""The driver: steps and scans of one or many series, smoothing, sampling, forecasts."""

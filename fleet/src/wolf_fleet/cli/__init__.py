"""Commands of wolf-fleet: `wolf stream`, `wolf serve`, `wolf dataset` and `wolf pipe`."""

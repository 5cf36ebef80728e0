"""The commands of wolf-fleet."""

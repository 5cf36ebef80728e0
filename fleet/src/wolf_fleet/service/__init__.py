"""A service around a bank: rows come by HTTP, are kept before they are acknowledged, and are watched on a page."""

from wolf_fleet.service.service import Service as Service

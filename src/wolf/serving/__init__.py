"""A service around a bank: rows come by HTTP, are kept before they are acknowledged, and are watched on a page."""

from wolf.serving.service import Service as Service

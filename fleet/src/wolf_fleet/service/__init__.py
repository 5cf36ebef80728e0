"""HTTP service around a bank: requests are durable before they are acknowledged, and a live page shows key health."""

from wolf_fleet.service.server import serve as serve
from wolf_fleet.service.service import Service as Service

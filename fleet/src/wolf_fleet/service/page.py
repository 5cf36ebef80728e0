"""The live page: one HTML document without external resources."""

import base64
import hashlib
import re
from functools import cache
from importlib import resources


@cache
def page() -> tuple[str, str]:
    """Assemble the page.

    Returns:
        The HTML, and its content security policy, which permits only these scripts and requests to this server.
    """
    scripts = {"UPLOT": _asset("wolf.reports", "uPlot.iife.min.js")}
    scripts |= {"MULTIPLES": _asset("wolf_fleet.service", "small_multiples.js")}
    scripts |= {"SCRIPT": _asset("wolf_fleet.service", "live.js")}
    fields = scripts | {
        "STYLE": _asset("wolf.reports", "uPlot.min.css") + _asset("wolf_fleet.service", "live.css"),
        "LICENCE": _asset("wolf.reports", "uPlot-LICENSE.txt"),
    }
    text = re.sub(r"\{\{([A-Z]+)\}\}", lambda found: fields[found[1]], _asset("wolf_fleet.service", "live.html"))
    known = " ".join(f"'sha256-{_digest(script)}'" for script in scripts.values())
    rules = [f"script-src {known}", "style-src 'unsafe-inline'", "connect-src 'self'", "img-src data:"]
    rules += [f"{name} 'none'" for name in ("default-src", "base-uri", "form-action", "frame-ancestors")]
    return text, "; ".join(rules)


def _asset(package: str, name: str) -> str:
    return (resources.files(package) / "assets" / name).read_text(encoding="utf-8")


def _digest(script: str) -> str:
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()

"""Who may come in: by a token, by a cookie that was given for it, or from this machine alone."""

import hashlib
import hmac
import ipaddress
from pathlib import Path

from starlette.requests import Request

SHORTEST = 16  # characters of a token
COOKIE = "wolf_session"


def is_local(host: str) -> bool:
    """Say whether an address is of this machine only.

    Example:
        >>> is_local("127.0.0.1"), is_local("localhost"), is_local("0.0.0.0")
        (True, True, False)
    """
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def read_token(path: str | None) -> str | None:
    """Read a token from a file, and refuse one that can be guessed."""
    if path is None:
        return None
    token = Path(path).read_text().strip()
    if len(token) < SHORTEST or not token.isascii() or not token.isprintable() or " " in token:
        raise ValueError(
            f"{path} must hold a token of at least {SHORTEST} letters and digits; `openssl rand -hex 24` makes one"
        )
    return token


def check_host(host: str, token: str | None) -> None:
    """Refuse to listen to other machines without a token."""
    if token is None and not is_local(host):
        raise ValueError(
            f"--host {host} lets other machines in, and they need a token: write one to a file that only you can read "
            "(openssl rand -hex 24 > token; chmod 600 token) and give --token-file token"
        )


class Doorkeeper:
    """Knows the token.

    Args:
        token: that is asked for; None lets everybody in.
    """

    def __init__(self, token: str | None):
        self.token = token

    def knows(self, token: str) -> bool:
        """Say whether a token is the right one."""
        return self.token is None or hmac.compare_digest(token.encode(), self.token.encode())

    @property
    def session(self) -> str:
        """What a browser keeps in place of the token: it opens the page, and takes no measurements."""
        return hmac.new((self.token or "").encode(), b"wolf page", hashlib.sha256).hexdigest()

    def may_write(self, request: Request) -> bool:
        """Say whether a request may bring measurements."""
        kind, _, token = request.headers.get("authorization", "").partition(" ")
        return self.token is None or (kind.lower() == "bearer" and self.knows(token.strip()))

    def may_read(self, request: Request) -> bool:
        """Say whether a request may ask."""
        cookie = request.cookies.get(COOKIE, "")
        return self.may_write(request) or hmac.compare_digest(cookie.encode(), self.session.encode())

"""Authentication of requests: by token, by session cookie, or by restriction to this machine."""

import hashlib
import hmac
import ipaddress
import re
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from starlette.requests import Request

MIN_TOKEN_LENGTH = 16  # characters
CREATE_TOKEN = 'python -c "import secrets; print(secrets.token_hex())"'
COOKIE = "wolf_session"
HOST_HEADER = re.compile(r"(?:(?P<name>[A-Za-z0-9.-]+)|\[(?P<address>[0-9A-Fa-f:.]+)\])(?::[0-9]{1,5})?")


def is_local(host: str) -> bool:
    """Check whether a host name or address belongs to this machine only.

    Example:
        >>> is_local("127.0.0.1"), is_local("localhost"), is_local("0.0.0.0")
        (True, True, False)
    """
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def host_name(header: str) -> str:
    """Return the name or address in a Host header; empty for a header that is not a name with an optional port.

    Example:
        >>> host_name("localhost:8765"), host_name("[::1]:80"), host_name("localhost#.evil.example")
        ('localhost', '::1', '')
    """
    found = HOST_HEADER.fullmatch(header)
    return "" if found is None else (found["name"] or found["address"])


def read_token(path: str | None) -> str | None:
    """Read a token from a file; raise a `ValueError` if it is too short or contains spaces."""
    if path is None:
        return None
    token = Path(path).read_text(encoding="utf-8").strip()
    if len(token) < MIN_TOKEN_LENGTH or not token.isascii() or not token.isprintable() or " " in token:
        raise ValueError(
            f"{path} must contain a token of at least {MIN_TOKEN_LENGTH} letters and digits; "
            f"`{CREATE_TOKEN}` prints one"
        )
    return token


def check_host(host: str, token: str | None) -> None:
    """Raise a `ValueError` if the service would be reachable from other machines without a token."""
    if token is None and not is_local(host):
        raise ValueError(
            f"host {host} makes the service reachable from other machines, which needs a token: write one to a file "
            f"that only you can read (`{CREATE_TOKEN}` prints one) and give --token-file FILE"
        )


class Authenticator:
    """Checks the token or the session cookie of requests.

    Args:
        token: that requests must carry; None accepts all requests.
    """

    def __init__(self, token: str | None):
        self.token = token

    def is_valid(self, token: str) -> bool:
        """Check a token."""
        return self.token is None or hmac.compare_digest(token.encode(), self.token.encode())

    @property
    def session(self) -> str:
        """Content of the session cookie: it permits reading, but not posting measurements."""
        return hmac.new((self.token or "").encode(), b"wolf page", hashlib.sha256).hexdigest()

    def may_write(self, request: "Request") -> bool:
        """Check whether a request may post measurements."""
        kind, _, token = request.headers.get("authorization", "").partition(" ")
        return self.token is None or (kind.lower() == "bearer" and self.is_valid(token.strip()))

    def may_acknowledge(self, request: "Request") -> bool:
        """Check whether a request may acknowledge and mute: by token, or by the session of a page of this service.

        The cookie is not sent from other sites (SameSite=Strict); the origin is checked for browsers that ignore that.
        """
        origin = request.headers.get("origin")
        own = origin is None or urlsplit(origin).netloc == request.headers.get("host", "")
        return self.may_read(request) if own else self.token is not None and self.may_write(request)

    def may_read(self, request: "Request") -> bool:
        """Check whether a request may read."""
        cookie = request.cookies.get(COOKIE, "")
        return self.may_write(request) or hmac.compare_digest(cookie.encode(), self.session.encode())

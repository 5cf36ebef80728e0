"""What all brokers share: messages that are JSON objects, each at a place that can be gone back to."""

from typing import Any, NamedTuple
from urllib.parse import parse_qs, unquote, urlsplit


class Address(NamedTuple):
    """Where messages are: `scheme://user:password@host:port/name?option=value`."""

    scheme: str
    host: str
    port: int | None
    user: str | None
    password: str | None
    name: str
    options: dict[str, str]

    @classmethod
    def read(cls, text: str) -> "Address":
        """Read an address.

        Args:
            text: as `nats://localhost:4222/READINGS`.

        Example:
            >>> Address.read("redis://:secret@box:6379/rows?db=1").name
            'rows'
        """
        parts = urlsplit(text.replace("#", "%23"))  # a wildcard of MQTT, no part of a page
        name = unquote(parts.path.lstrip("/"))
        try:
            host, port = parts.hostname, parts.port
        except ValueError as error:
            raise ValueError(f"the address {parts.scheme}://... cannot be read: {error}") from None
        if not host or not name:
            raise ValueError(
                f"expected an address as {parts.scheme}://HOST:PORT/NAME; got no {'host' if name else 'name'}"
            )
        options = {key: values[-1] for key, values in parse_qs(parts.query).items()}
        password = None if parts.password is None else unquote(parts.password)
        return cls(parts.scheme, host, port, parts.username, password, name, options)

    @property
    def shown(self) -> str:
        """The address without who asks: for people to read."""
        port = "" if self.port is None else f":{self.port}"
        return f"{self.scheme}://{self.host}{port}/{self.name}"


class Messages:
    """Messages of a broker, as lines of JSON; what `Source` is for files.

    Args:
        address: of the stream or topic.
        place: where to go on, as `place` was; 0 for the beginning.
        follow: wait for more at the end.
    """

    def __init__(self, address: Address, place: Any, follow: bool):
        self.address, self.name, self.follow = address, address.shown, follow
        self.place: Any = place
        self.over = False
        self._ready: list[tuple[Any, str]] = []

    def first_line(self) -> str:
        """Say that messages are JSON."""
        return "{"

    def head(self, place: Any) -> str:
        """Tell this stream from another one of the same name, if the broker can; nothing otherwise."""
        return ""

    def take(self, most: int, seconds: float) -> list[str]:
        """Take messages, and move the place behind them.

        Args:
            most: how many at most.
            seconds: to wait for the first one.

        Returns:
            Their texts; none if there are none yet.
        """
        if not self._ready:
            self._ready = self._read(most, seconds if self.follow else 0.0)
            self.over = not self._ready and not self.follow and self._at_end()
        some, self._ready = self._ready[:most], self._ready[most:]
        if some:
            self.place = some[-1][0]
        # A message may have ends of lines inside; outside of texts they mean nothing to JSON.
        return [text.replace("\n", " ") for _, text in some]

    def _read(self, most: int, seconds: float) -> list[tuple[Any, str]]:
        """Read messages behind those that were read before, each with its place."""
        raise NotImplementedError

    def _at_end(self) -> bool:
        """Say whether nothing coming means that there is no more."""
        return True

    def close(self) -> None:
        """Let go of the broker."""

    def lost(self, why: object) -> OSError:
        """Make the error of a broker that does not answer."""
        words = str(why) or "no answer"  # an exception may have none
        return OSError(f"{self.name} cannot be read: {words}; start again when it is there, and the stream goes on")

    def gone(self) -> ValueError:
        """Make the error of a broker that has dropped what was not read yet."""
        return ValueError(
            f"{self.name} has dropped messages that were not read yet: let it keep them for longer, "
            "and begin anew with another state folder"
        )


def needs(scheme: str, package: str) -> ModuleNotFoundError:
    """Make the error of a client that is not installed."""
    return ModuleNotFoundError(f"{scheme}:// needs {package}: pip install 'wolf-filter[{scheme}]'")

"""Base class of broker sources: messages that are JSON objects, each at a position from which reading can resume."""

from typing import Generic, NamedTuple, TypeVar
from urllib.parse import parse_qs, unquote, urlsplit

PositionT = TypeVar("PositionT")  # of a source: where reading resumes, as JSON


class Address(NamedTuple):
    """Address of a stream or topic: `scheme://user:password@host:port/name?option=value`."""

    scheme: str
    host: str
    port: int | None
    user: str | None
    password: str | None
    name: str
    options: dict[str, str]

    @classmethod
    def parse(cls, text: str) -> "Address":
        """Parse an address.

        Args:
            text: such as `nats://localhost:4222/READINGS`.

        Example:
            >>> Address.parse("redis://:secret@box:6379/rows?db=1").name
            'rows'
        """
        parts = urlsplit(text.replace("#", "%23"))  # "#" is a wildcard of MQTT here, not a URL fragment
        name = unquote(parts.path.lstrip("/"))
        try:
            host, port = parts.hostname, parts.port
        except ValueError as error:
            raise ValueError(f"the address {parts.scheme}://... cannot be parsed: {error}") from None
        if not host or not name:
            missing = "host" if name else "name"
            raise ValueError(f"expected an address like {parts.scheme}://HOST:PORT/NAME; the {missing} is missing")
        options = {key: values[-1] for key, values in parse_qs(parts.query).items()}
        password = None if parts.password is None else unquote(parts.password)
        return cls(parts.scheme, host, port, parts.username, password, name, options)

    @property
    def display(self) -> str:
        """The address without credentials and options."""
        port = "" if self.port is None else f":{self.port}"
        return f"{self.scheme}://{self.host}{port}/{self.name}"


class BrokerSource(Generic[PositionT]):
    """Messages of a broker as JSON lines, with the interface of `Source`.

    Args:
        address: of the stream or topic.
        position: where to resume, a former value of `position`; 0 for the beginning.
        follow: wait for more messages at the end.
    """

    def __init__(self, address: Address, position: PositionT, follow: bool):
        self.address, self.name, self.follow = address, address.display, follow
        self.position = position
        self.exhausted = False
        self._ready: list[tuple[PositionT, str]] = []

    def first_line(self) -> str:
        """Return the beginning of a JSON object: messages have no header."""
        return "{"

    def fingerprint(self, position: PositionT) -> str:
        """Return what distinguishes this stream from another one of the same name; empty if the broker has nothing."""
        return ""

    def take(self, max_messages: int, seconds: float) -> list[str]:
        """Read messages and advance the position.

        Args:
            max_messages: largest number of messages.
            seconds: how long to wait for the first one.

        Returns:
            Their texts; empty if none arrived in time.
        """
        if not self._ready:
            self._ready = self._read(max_messages, seconds if self.follow else 0.0)
            self.exhausted = not self._ready and not self.follow and self._at_end()
        some, self._ready = self._ready[:max_messages], self._ready[max_messages:]
        if some:
            self.position = some[-1][0]
        # Line ends inside a message are white space to JSON, except within strings, where JSON does not allow them.
        return [text.replace("\n", " ") for _, text in some]

    def _read(self, max_messages: int, seconds: float) -> list[tuple[PositionT, str]]:
        """Read the next messages, each with its position."""
        raise NotImplementedError

    def _at_end(self) -> bool:
        """Check whether an empty read means that the end is reached."""
        return True

    def close(self) -> None:
        """Disconnect from the broker."""

    def connection_error(self, why: object) -> OSError:
        """Create the error for a broker that does not answer."""
        reason = str(why) or "no answer"  # an exception may have no text
        return OSError(f"{self.name} cannot be read: {reason}. Run the same command again once the broker is available")

    def retention_error(self) -> ValueError:
        """Create the error for messages that the broker deleted before they were read."""
        return ValueError(
            f"{self.name} has deleted messages that were not read yet: increase its retention, "
            "and start with an empty state folder"
        )


def missing_client(scheme: str, package: str) -> ModuleNotFoundError:
    """Create the error for a client library that is not installed."""
    return ModuleNotFoundError(
        f"{scheme}:// needs {package}: run pip install './fleet[{scheme}]' in a clone of the repository"
    )

"""NATS JetStream streams as sources: `nats://localhost:4222/NAME`; each message is a JSON object."""

import asyncio
from typing import TYPE_CHECKING

from wolf_fleet.streaming.brokers.base import Address, BrokerSource, missing_client

if TYPE_CHECKING:
    from nats.aio.client import Client

MAX_MESSAGES_PER_READ = 5000
TIMEOUT_SECONDS = 5.0  # for an answer of the server
MIN_WAIT_SECONDS = 0.05


async def _ignore(error: Exception) -> None:
    """Ignore an error that is raised as well."""


class JetStream(BrokerSource[int]):
    """A JetStream stream; arguments as in `BrokerSource`. The position is a sequence number."""

    def __init__(self, address: Address, position: int, follow: bool):
        super().__init__(address, position, follow)
        self._client: Client | None = None
        try:
            import nats
            from nats import errors
        except ModuleNotFoundError:
            raise missing_client("nats", "nats-py") from None
        self._nats, self._timeout_error = nats, errors.TimeoutError
        self._loop = asyncio.new_event_loop()
        try:
            self._loop.run_until_complete(self._connect())
        except (OSError, errors.Error, TimeoutError) as error:
            self.close()
            raise self.connection_error(error) from error
        except BaseException:
            self.close()
            raise

    async def _connect(self) -> None:
        from nats.js import api
        from nats.js.errors import NotFoundError

        connecting = self._nats.connect(
            f"nats://{self.address.host}:{self.address.port or 4222}",
            user=self.address.user,
            password=self.address.password,
            allow_reconnect=False,
            max_reconnect_attempts=0,
            error_cb=_ignore,
        )
        client = self._client = await asyncio.wait_for(connecting, TIMEOUT_SECONDS)
        stream = client.jetstream()
        try:
            info = await stream.stream_info(self.address.name)
        except NotFoundError:
            raise ValueError(f"{self.name} does not exist: the server has no stream of that name") from None
        self._created, self._end = str(info.created), info.state.last_seq
        if self.position and info.state.first_seq > self.position + 1:
            raise self.retention_error()
        config = api.ConsumerConfig(
            deliver_policy=api.DeliverPolicy.BY_START_SEQUENCE,
            opt_start_seq=self.position + 1,
            ack_policy=api.AckPolicy.NONE,  # the position is kept in our manifest
        )
        self._consumer = await stream.pull_subscribe("", stream=self.address.name, config=config)

    def fingerprint(self, position: int) -> str:
        """Return the creation time of the stream, which distinguishes it from another one of the same name."""
        return self._created if position else ""

    def _read(self, max_messages: int, seconds: float) -> list[tuple[int, str]]:
        from nats import errors

        try:
            wait = max(seconds, MIN_WAIT_SECONDS)
            some = self._loop.run_until_complete(
                self._consumer.fetch(min(max_messages, MAX_MESSAGES_PER_READ), timeout=wait)
            )
        except (self._timeout_error, TimeoutError):
            return []
        except (errors.Error, OSError) as error:
            raise self.connection_error(error) from error
        return [(message.metadata.sequence.stream, message.data.decode("utf-8", "replace")) for message in some]

    def _at_end(self) -> bool:
        return self.position >= self._end

    def close(self) -> None:
        """Disconnect from the server."""
        if self._client is not None and not self._loop.is_closed():
            self._loop.run_until_complete(self._client.close())
        self._loop.close()

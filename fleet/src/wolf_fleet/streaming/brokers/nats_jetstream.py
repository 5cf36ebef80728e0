"""Streams of NATS JetStream: `nats://localhost:4222/NAME`; each message is a JSON object."""

import asyncio
from typing import Any

from wolf_fleet.streaming.brokers.base import Address, Messages, needs

AT_ONCE = 5000  # messages of one request
PATIENCE = 5.0  # seconds until a server must have answered
SHORTEST = 0.05  # seconds of a wait


async def _nothing(error: Exception) -> None:
    """Say nothing of an error that is raised as well."""


class JetStream(Messages):
    """A stream of JetStream; arguments as in `Messages`. Places are sequence numbers."""

    def __init__(self, address: Address, place: Any, follow: bool):
        super().__init__(address, place, follow)
        try:
            import nats
            from nats import errors
        except ModuleNotFoundError:
            raise needs("nats", "nats-py") from None
        self._nats, self._timeout = nats, errors.TimeoutError
        self._loop = asyncio.new_event_loop()
        try:
            self._loop.run_until_complete(self._open())
        except (OSError, errors.Error, TimeoutError) as error:
            self.close()
            raise self.lost(error) from error
        except BaseException:
            self.close()
            raise

    async def _open(self) -> None:
        from nats.js import api
        from nats.js.errors import NotFoundError

        connecting = self._nats.connect(
            f"nats://{self.address.host}:{self.address.port or 4222}",
            user=self.address.user,
            password=self.address.password,
            allow_reconnect=False,
            max_reconnect_attempts=0,
            error_cb=_nothing,
        )
        self._client = await asyncio.wait_for(connecting, PATIENCE)
        stream = self._client.jetstream()
        try:
            info = await stream.stream_info(self.address.name)
        except NotFoundError:
            raise ValueError(f"{self.name} does not exist: there is no stream of that name") from None
        self._created, self._end = str(info.created), info.state.last_seq
        if self.place and info.state.first_seq > self.place + 1:
            raise self.gone()
        config = api.ConsumerConfig(
            deliver_policy=api.DeliverPolicy.BY_START_SEQUENCE,
            opt_start_seq=self.place + 1,
            ack_policy=api.AckPolicy.NONE,  # the place is ours to keep
        )
        self._consumer = await stream.pull_subscribe("", stream=self.address.name, config=config)

    def head(self, place: Any) -> str:
        """Tell this stream from another one of the same name: by when it was made."""
        return self._created if place else ""

    def _read(self, most: int, seconds: float) -> list[tuple[Any, str]]:
        from nats import errors

        try:
            wait = max(seconds, SHORTEST)
            some = self._loop.run_until_complete(self._consumer.fetch(min(most, AT_ONCE), timeout=wait))
        except (self._timeout, TimeoutError):
            return []
        except (errors.Error, OSError) as error:
            raise self.lost(error) from error
        return [(message.metadata.sequence.stream, message.data.decode("utf-8", "replace")) for message in some]

    def _at_end(self) -> bool:
        return self.place >= self._end

    def close(self) -> None:
        """Let go of the broker."""
        client = getattr(self, "_client", None)
        if client is not None and not self._loop.is_closed():
            self._loop.run_until_complete(client.close())
        self._loop.close()

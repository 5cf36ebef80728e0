"""ASGI application of the service: routes, limits, authentication, and the event stream of the live page."""

import asyncio
import json
import time as clocks
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import TypeVar

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from wolf.execution.validate import package_version
from wolf_fleet.service import prometheus, request_parsing, responses
from wolf_fleet.service.auth import COOKIE, Authenticator, host_name, is_local
from wolf_fleet.service.idempotency import MAX_ID_LENGTH, IdempotencyConflict
from wolf_fleet.service.page import page
from wolf_fleet.service.server import MAX_BODY_BYTES
from wolf_fleet.service.service import Service
from wolf_fleet.service.worker import ENDED, QueueFull, Worker
from wolf_fleet.service.write_ahead_log import Record
from wolf_fleet.streaming.incidents import alerts
from wolf_fleet.streaming.row_parser import JsonObject
from wolf_fleet.streaming.sinks import check_address
from wolf_fleet.streaming.sinks.delivery import SinkThread

NumberT = TypeVar("NumberT", int, float)

POLL_SECONDS = 0.5  # between two checks for new events
REFRESH_SECONDS = 5.0  # after which the status is sent without new rows, since keys may have become silent
MAX_OPEN_PAGES = 100
PAGE_ROWS = 500  # rows of a key on the page
WRONG_TOKEN_DELAY_SECONDS = 0.5
MAX_INLINE_ROWS = 20  # filtered by a request that is answered without another thread
MAX_READ_SECONDS = 30.0  # until the body of a request must be complete
MAX_BYTES_IN_FLIGHT = 256_000_000  # of bodies that are read or wait; further requests are rejected
RETRY = {"Retry-After": "1"}
SECURITY_HEADERS = {"X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY", "Referrer-Policy": "no-referrer"}
NO_CONTENT = "default-src 'none'; frame-ancestors 'none'"  # content security policy of everything but the page
Endpoint = Callable[[Request], Awaitable[Response]]
AlertOptions = tuple[str | None, str | None, str | None, str | None]  # webhook, command, key of the signature, sink


def make_app(
    service: Service,
    *,
    token: str | None = None,
    max_body_bytes: int = MAX_BODY_BYTES,
    alert_url: str | None = None,
    alert_command: str | None = None,
    alert_secret: str | None = None,
    incident_sink: str | None = None,
    sinks: Sequence[str] = (),
) -> Starlette:
    """Create the ASGI application of a service, for `uvicorn` or another server with one process per state folder.

    Args:
        service: closed when the application ends.
        token: that requests must carry. Without one only requests to local host names are accepted.
        max_body_bytes: largest body of a request.
        alert_url: webhook for incidents; see `alerts.AlertSender`.
        alert_command: program for incidents.
        alert_secret: key of the signature of alerts.
        incident_sink: address of a sink of incidents.
        sinks: addresses where the rows of each commit are sent too.
    """
    alerts.check(alert_url, alert_command, incident_sink)
    for address in sinks:
        check_address(address)
    alert_options = (alert_url, alert_command, alert_secret, incident_sink)
    return _Application(service, token, max_body_bytes, alert_options, sinks).app


class _Application:
    """Routes and their shared state."""

    def __init__(
        self,
        service: Service,
        token: str | None,
        max_body_bytes: int,
        alert_options: AlertOptions,
        sinks: Sequence[str],
    ):
        self.alert_options, self.alerts = alert_options, None
        self.deliveries, self.senders = [service.deliver_to(address) for address in sinks], list[SinkThread]()
        self.bytes_in_flight = 0
        self.service, self.auth, self.max_body_bytes = service, Authenticator(token), max_body_bytes
        self.timings, self.num_pages = prometheus.RequestTimings(), 0
        self.status: tuple[float, int, str] = (0.0, -1, "")  # when it was computed, version, JSON
        gets: dict[str, Endpoint] = {
            "/state": self.state,
            "/forecast": self.forecast,
            "/detectable": self.detectable,
            "/history": self.history,
            "/keys": self.keys,
            "/overview": self.overview,
            "/incidents": self.incidents,
            "/metrics": self.metrics,
            "/events": self.events,
        }
        routes = [Route(path, self._guard(endpoint, self.auth.may_read)) for path, endpoint in gets.items()]
        routes += [Route("/", self._guard(self.page)), Route("/health", self._guard(self.health))]
        routes += [Route("/session", self._guard(self.session), methods=["POST"])]
        routes += [Route("/measurements", self._guard(self.post, self.auth.may_write), methods=["POST"])]
        changes = {"/incidents/acknowledge": self.acknowledge, "/incidents/mute": self.mute}
        routes += [
            Route(path, self._guard(endpoint, self.auth.may_acknowledge), methods=["POST"])
            for path, endpoint in changes.items()
        ]
        self.app = Starlette(routes=routes, exception_handlers={HTTPException: _error_response}, lifespan=self._life)

    @asynccontextmanager
    async def _life(self, app: Starlette) -> AsyncIterator[None]:
        self.worker = Worker(self.service)
        url, command, secret, sink = self.alert_options
        if url or command or sink:
            self.alerts = alerts.AlertSender(self.service, url, command, secret, sink)
        self.senders = [SinkThread(each) for each in self.deliveries]
        try:
            yield
        finally:
            if self.alerts is not None:
                await run_in_threadpool(self.alerts.close)
            await run_in_threadpool(self.worker.close)
            await run_in_threadpool(self.service.close)
            for each in self.senders:
                await run_in_threadpool(each.close)

    def _guard(self, endpoint: Endpoint, permitted: Callable[[Request], bool] | None = None) -> Endpoint:
        """Wrap an endpoint: reject requests without permission, and convert exceptions to error responses."""

        async def guarded(request: Request) -> Response:
            # DNS rebinding: a foreign page may let its own name resolve to this machine, but it sends that name.
            if self.auth.token is None and not is_local(host := host_name(request.headers.get("host", ""))):
                raise HTTPException(403, f"without a token only localhost is served, not {host!r}")
            if permitted is not None and not permitted(request):
                wrong = "authorization" in request.headers
                words = "the token is wrong" if wrong else "a token is required"
                raise HTTPException(401, f"{words}: send the header `Authorization: Bearer TOKEN`")
            try:
                return _secure(await endpoint(request))
            except KeyError as error:
                raise HTTPException(404, str(error.args[0])) from None
            except ValueError as error:
                raise HTTPException(400, str(error)) from None

        return guarded

    async def post(self, request: Request) -> Response:
        """Accept measurements."""
        begun, code = clocks.monotonic(), 500
        try:
            answer = await self._post(request)
            code = 200
            return answer
        except HTTPException as error:
            code = error.status_code
            raise
        finally:
            self.timings.add(code, clocks.monotonic() - begun)

    async def _post(self, request: Request) -> Response:
        encoding = request.headers.get("content-encoding", "identity")
        if encoding != "identity":
            raise HTTPException(415, f"Content-Encoding {encoding} is not supported; send the body uncompressed")
        try:
            format = request_parsing.format_of(request.headers.get("content-type"))
        except ValueError as error:
            raise HTTPException(415, str(error)) from None
        request_id = request.headers.get("idempotency-key", "")
        if len(request_id) > MAX_ID_LENGTH:
            words = f"Idempotency-Key must have at most {MAX_ID_LENGTH} characters; got {len(request_id):,}"
            raise HTTPException(400, words)
        async with self._room(request):
            record = Record(request_id, format, clocks.time(), await self._read(request))
            return await self._apply(request, record)

    @asynccontextmanager
    async def _room(self, request: Request) -> AsyncIterator[None]:
        """Reserve memory for a body until it is answered, or reject the request."""
        stated = request.headers.get("content-length", str(self.max_body_bytes))
        size = min(int(stated), self.max_body_bytes) if stated.isdigit() else self.max_body_bytes
        if self.bytes_in_flight and self.bytes_in_flight + size > MAX_BYTES_IN_FLIGHT:
            raise HTTPException(503, "too many bytes of requests are waiting; try again in a second", RETRY)
        self.bytes_in_flight += size
        try:
            yield
        finally:
            self.bytes_in_flight -= size

    async def _apply(self, request: Request, record: Record) -> Response:
        try:
            answer = await asyncio.wrap_future(self.worker.post(record))
        except IdempotencyConflict as error:
            raise HTTPException(409, str(error)) from None
        except ValueError as error:
            raise HTTPException(400, str(error)) from None
        except QueueFull as error:
            raise HTTPException(503, str(error), RETRY) from None
        except OSError as error:
            raise HTTPException(503, str(error)) from None
        results = request.query_params.get("results") in ("1", "true")
        if len(answer.get("filtered", ((), ()))[0]) <= MAX_INLINE_ROWS:  # a thread would cost more than the answer
            return JSONResponse(responses.measurements(self.service, answer, results))
        return JSONResponse(await run_in_threadpool(responses.measurements, self.service, answer, results))

    async def _read(self, request: Request) -> bytes:
        """Read the body up to the size limit."""
        limit = f"the body may have at most {self.max_body_bytes:,} bytes; send it in several requests"
        length = request.headers.get("content-length", "0")
        if not length.isdigit() or int(length) > self.max_body_bytes:
            raise HTTPException(413, limit)
        whole = bytearray()
        try:
            async with asyncio.timeout(MAX_READ_SECONDS):
                async for some in request.stream():
                    whole += some
                    if len(whole) > self.max_body_bytes:
                        raise HTTPException(413, limit)
        except TimeoutError:
            raise HTTPException(408, f"the body did not arrive within {MAX_READ_SECONDS:g} seconds") from None
        except ClientDisconnect:
            raise HTTPException(400, "the connection was closed before the body was complete") from None
        return bytes(whole)

    async def state(self, request: Request) -> Response:
        """Return the filter state of a key."""
        return JSONResponse(await run_in_threadpool(responses.state, self.service, _key(request)))

    async def forecast(self, request: Request) -> Response:
        """Return a forecast for a key."""
        steps, level = _number(request, "steps", 10, int), _number(request, "level", self.service.level, float)
        return JSONResponse(await run_in_threadpool(responses.forecast, self.service, _key(request), steps, level))

    async def detectable(self, request: Request) -> Response:
        """Return the smallest fault of a key that would be flagged."""
        return JSONResponse(await run_in_threadpool(responses.detectable, self.service, _key(request)))

    async def history(self, request: Request) -> Response:
        """Return the last rows of a key."""
        key, rows = _key(request), _number(request, "rows", PAGE_ROWS, int)
        responses.check_key(self.service, key)
        return JSONResponse(await run_in_threadpool(responses.history, self.service, key, rows))

    async def keys(self, request: Request) -> Response:
        """Return the keys with problems; with ?search=TEXT or ?sort=ORDER all keys, or those that contain a text."""
        limit = _number(request, "limit", responses.DEFAULT_NUM_KEYS, int)
        search, sort = request.query_params.get("search"), request.query_params.get("sort")
        if search is None and sort is None:
            return JSONResponse(await run_in_threadpool(responses.keys, self.service, None, limit))
        order = (search or "", sort or responses.ORDERS[0], limit)
        return JSONResponse(await run_in_threadpool(responses.search_keys, self.service, *order))

    async def overview(self, request: Request) -> Response:
        """Return the last rows of the worst keys, for small pictures."""
        column = _number(request, "column", 0, int)
        return JSONResponse(await run_in_threadpool(responses.overview, self.service, column))

    async def incidents(self, request: Request) -> Response:
        """Return incidents, open ones first; with ?open=1 only those."""
        only_open = request.query_params.get("open") in ("1", "true")
        limit = _number(request, "limit", responses.DEFAULT_NUM_INCIDENTS, int)
        return JSONResponse(await run_in_threadpool(responses.incidents, self.service, only_open, limit))

    async def acknowledge(self, request: Request) -> Response:
        """Acknowledge an incident: {"incident": 7}."""
        facts = await self._object(request)
        number = facts.get("incident")
        if type(number) is not int:
            raise ValueError(f'expected {{"incident": NUMBER}}; got {number!r}')
        found = await run_in_threadpool(self.service.acknowledge, number)
        return JSONResponse(responses.incident_facts(self.service, found))

    async def mute(self, request: Request) -> Response:
        """Mute the alerts of a key: {"key": "hall", "seconds": 3600}."""
        facts = await self._object(request)
        key, seconds = facts.get("key"), facts.get("seconds")
        if not isinstance(key, str) or not isinstance(seconds, int | float):
            raise ValueError('expected {"key": NAME, "seconds": NUMBER}')
        await run_in_threadpool(self.service.mute, key, seconds)
        return JSONResponse({"key": key, "muted_seconds": seconds})

    async def _object(self, request: Request) -> JsonObject:
        try:
            facts = json.loads(await self._read(request))
        except (ValueError, RecursionError):
            raise ValueError("the body is not JSON") from None
        if not isinstance(facts, dict):
            raise ValueError("expected a JSON object")
        return facts

    async def metrics(self, request: Request) -> Response:
        """Return metrics for Prometheus."""
        text = await run_in_threadpool(prometheus.text, self.service, self.timings)
        return Response(text, media_type=prometheus.CONTENT_TYPE)

    async def health(self, request: Request) -> Response:
        """Return whether rows are accepted; contains no measurements and needs no token."""
        broken = self.service.broken or ("" if self.worker.alive else ENDED)
        errors = [self.service.warning, "" if self.alerts is None else self.alerts.error]
        warning = next((error for error in [*errors, *(each.error for each in self.senders)] if error), "")
        status = "broken" if broken else "warning" if warning else "ok"
        facts = {"status": status, "message": broken or warning, "version": package_version()}
        return JSONResponse(facts, 503 if broken else 200)

    async def session(self, request: Request) -> Response:
        """Set a session cookie in exchange for the token."""
        try:
            token = str(json.loads(await self._read(request))["token"])
        except (ValueError, KeyError, TypeError, RecursionError):
            raise HTTPException(400, 'expected {"token": "..."}') from None
        if not self.auth.is_valid(token):
            await asyncio.sleep(WRONG_TOKEN_DELAY_SECONDS)
            raise HTTPException(401, "the token is wrong")
        answer = JSONResponse({"status": "ok"})
        secure = request.url.scheme == "https"
        answer.set_cookie(COOKIE, self.auth.session, httponly=True, samesite="strict", secure=secure)
        return answer

    async def page(self, request: Request) -> Response:
        """Return the live page; its data come from /events."""
        text, policy = page()
        return HTMLResponse(text, headers={"Content-Security-Policy": policy, "Cache-Control": "no-cache"})

    async def events(self, request: Request) -> Response:
        """Return a stream of server-sent events for the live page."""
        if self.num_pages >= MAX_OPEN_PAGES:
            raise HTTPException(503, f"{MAX_OPEN_PAGES} pages are open already")
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        key = request.query_params.get("key")
        return StreamingResponse(self._events(key), media_type="text/event-stream", headers=headers)

    async def _events(self, key: str | None) -> AsyncIterator[str]:
        columns = self.service.columns
        about = {"key": columns.key, "values": columns.values, "time": columns.time, "level": self.service.level}
        yield _event("about", json.dumps(about | {"version": package_version()}))
        self.num_pages += 1
        try:
            last, sent = -1, ""
            while True:
                status = await self._fleet()
                if status != sent:
                    yield _event("fleet", status)
                    sent = status
                if key is not None:
                    rows = await run_in_threadpool(responses.history, self.service, key, PAGE_ROWS, last)
                    if rows["times"] or last < 0:
                        rows["dated"] = self.service.is_dated
                        yield _event("rows", json.dumps(rows))
                    last = rows["last"]
                await asyncio.sleep(POLL_SECONDS)
        finally:
            self.num_pages -= 1

    async def _fleet(self) -> str:
        """Return the status of all keys as JSON, computed once for all open pages."""
        made, version, _ = self.status
        now = clocks.monotonic()
        if version != self.service.version or now - made > REFRESH_SECONDS:
            version = self.service.version
            self.status = now, version, json.dumps(await run_in_threadpool(responses.fleet, self.service))
        return self.status[2]


def _event(name: str, data: str) -> str:
    return f"event: {name}\ndata: {data}\n\n"


def _key(request: Request) -> str:
    key = request.query_params.get("key")
    if key is None:
        raise ValueError("the key is missing; give it as ?key=NAME")
    return key


def _number(request: Request, name: str, default: NumberT, kind: type[NumberT]) -> NumberT:
    text = request.query_params.get(name, str(default))
    try:
        return kind(text)
    except ValueError:
        raise ValueError(f"{name} must be {'an integer' if kind is int else 'a number'}; got {text!r}") from None


async def _error_response(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return _secure(JSONResponse({"error": error.detail}, error.status_code, error.headers))


def _secure(answer: Response) -> Response:
    """Add the headers that forbid a browser to guess types, to frame the answer or to run anything in it."""
    for name, value in (SECURITY_HEADERS | {"Content-Security-Policy": NO_CONTENT}).items():
        answer.headers.setdefault(name, value)
    return answer

"""The service by HTTP: routes, limits, who may come in, and the stream of events that the page lives on."""

import asyncio
import json
import time as clocks
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from wolf.execution.validate import package_version
from wolf_fleet.service import prometheus, request_parsing, responses
from wolf_fleet.service.auth import COOKIE, Doorkeeper, is_local
from wolf_fleet.service.idempotency import LONGEST, Clash
from wolf_fleet.service.page import page
from wolf_fleet.service.service import Service
from wolf_fleet.service.worker import Busy, Worker
from wolf_fleet.service.write_ahead_log import Record

BODY = 8_000_000  # bytes of a request at most
TICK = 0.5  # seconds between two looks for news
STILL = 5.0  # seconds after which the page is told even if nothing came: who is silent changes
LISTENERS = 100  # pages at once
ROWS = 500  # that the page shows of a key
PENALTY = 0.5  # seconds that a wrong token waits
Endpoint = Callable[[Request], Awaitable[Response]]


def make_app(service: Service, *, token: str | None = None, body: int = BODY) -> Starlette:
    """Make an ASGI application, for `uvicorn` or another server; one process, since a state has one.

    Args:
        service: that it opens; it is closed when the application ends.
        token: that requests must carry. Without one only requests to this machine's own names are answered.
        body: largest body of a request, in bytes.
    """
    return _Served(service, token, body).app


class _Served:
    """What the routes share."""

    def __init__(self, service: Service, token: str | None, body: int):
        self.service, self.keeper, self.body = service, Doorkeeper(token), body
        self.timings, self.listeners = prometheus.Timings(), 0
        self.board: tuple[float, int, str] = (0.0, -1, "")
        gets: dict[str, Endpoint] = {
            "/state": self.state,
            "/forecast": self.forecast,
            "/history": self.history,
            "/keys": self.keys,
            "/metrics": self.metrics,
            "/events": self.events,
        }
        routes = [Route(path, self._guard(endpoint, self.keeper.may_read)) for path, endpoint in gets.items()]
        routes += [Route("/", self._guard(self.page)), Route("/health", self._guard(self.health))]
        routes += [Route("/session", self._guard(self.session), methods=["POST"])]
        routes += [Route("/measurements", self._guard(self.post, self.keeper.may_write), methods=["POST"])]
        self.app = Starlette(routes=routes, exception_handlers={HTTPException: _explain}, lifespan=self._life)

    @asynccontextmanager
    async def _life(self, app: Starlette) -> AsyncIterator[None]:
        self.worker = Worker(self.service)
        try:
            yield
        finally:
            await run_in_threadpool(self.worker.close)
            await run_in_threadpool(self.service.close)

    def _guard(self, endpoint: Endpoint, may: Callable[[Request], bool] | None = None) -> Endpoint:
        """Let in who may come in, and turn what was refused into an answer in words."""

        async def guarded(request: Request) -> Response:
            # A page elsewhere may have its name point to this machine; then its name is in the request.
            if self.keeper.token is None and not is_local(request.url.hostname or ""):
                raise HTTPException(403, f"without a token only localhost is served, not {request.url.hostname!r}")
            if may is not None and not may(request):
                wrong = "authorization" in request.headers
                words = "this is not the token of this service" if wrong else "a token is needed"
                raise HTTPException(401, f"{words}: send the header `Authorization: Bearer TOKEN`")
            try:
                return await endpoint(request)
            except KeyError as error:
                raise HTTPException(404, str(error.args[0])) from None
            except ValueError as error:
                raise HTTPException(400, str(error)) from None

        return guarded

    async def post(self, request: Request) -> Response:
        """Take measurements."""
        begun, code = clocks.monotonic(), 500
        try:
            answer = await self._take(request)
            code = 200
            return answer
        except HTTPException as error:
            code = error.status_code
            raise
        finally:
            self.timings.add(code, clocks.monotonic() - begun)

    async def _take(self, request: Request) -> Response:
        packed = request.headers.get("content-encoding", "identity")
        if packed != "identity":
            raise HTTPException(415, f"Content-Encoding {packed} is not read; send the body as it is")
        try:
            kind = request_parsing.kind_of(request.headers.get("content-type"))
        except ValueError as error:
            raise HTTPException(415, str(error)) from None
        name = request.headers.get("idempotency-key", "")
        if len(name) > LONGEST:
            raise HTTPException(400, f"Idempotency-Key must have at most {LONGEST} characters; got {len(name):,}")
        record = Record(name, kind, clocks.time(), await self._read(request))
        try:
            answer = await asyncio.wrap_future(self.worker.post(record))
        except Clash as error:
            raise HTTPException(409, str(error)) from None
        except ValueError as error:
            raise HTTPException(400, str(error)) from None
        except Busy as error:
            raise HTTPException(503, str(error), {"Retry-After": "1"}) from None
        except OSError as error:
            raise HTTPException(503, str(error)) from None
        results = request.query_params.get("results") in ("1", "true")
        return JSONResponse(await run_in_threadpool(responses.posted, self.service, answer, results))

    async def _read(self, request: Request) -> bytes:
        """Read the body, as far as it may go."""
        limit = f"the body may have at most {self.body:,} bytes; send it in pieces"
        told = request.headers.get("content-length", "0")
        if not told.isdigit() or int(told) > self.body:
            raise HTTPException(413, limit)
        whole = bytearray()
        async for some in request.stream():
            whole += some
            if len(whole) > self.body:
                raise HTTPException(413, limit)
        return bytes(whole)

    async def state(self, request: Request) -> Response:
        """Tell where the filter of a key stands."""
        return JSONResponse(await run_in_threadpool(responses.state, self.service, _key(request)))

    async def forecast(self, request: Request) -> Response:
        """Look ahead."""
        steps, level = _number(request, "steps", 10, int), _number(request, "level", self.service.level, float)
        return JSONResponse(await run_in_threadpool(responses.forecast, self.service, _key(request), steps, level))

    async def history(self, request: Request) -> Response:
        """Tell the last rows of a key."""
        key, rows = _key(request), _number(request, "rows", ROWS, int)
        if key not in self.service.flow.bank:
            raise KeyError(f"{key!r} was not heard of")
        return JSONResponse(await run_in_threadpool(responses.history, self.service, key, rows))

    async def keys(self, request: Request) -> Response:
        """Tell which keys have to be looked at."""
        most = _number(request, "most", responses.WORST, int)
        return JSONResponse(await run_in_threadpool(responses.keys, self.service, None, most))

    async def metrics(self, request: Request) -> Response:
        """Give counts for Prometheus."""
        return Response(
            await run_in_threadpool(prometheus.text, self.service, self.timings), media_type=prometheus.TYPE
        )

    async def health(self, request: Request) -> Response:
        """Say whether rows are taken; nothing about what they are."""
        problem = self.service.broken or ("" if self.worker.alive else "the worker has ended; start again")
        told = {"status": "broken" if problem else "warning" if self.service.warning else "ok"}
        told |= {"problem": problem or self.service.warning, "version": package_version()}
        return JSONResponse(told, 503 if problem else 200)

    async def session(self, request: Request) -> Response:
        """Give a browser a cookie for the token."""
        try:
            token = str(json.loads(await self._read(request))["token"])
        except (ValueError, KeyError, TypeError):
            raise HTTPException(400, 'expected {"token": "..."}') from None
        if not self.keeper.knows(token):
            await asyncio.sleep(PENALTY)
            raise HTTPException(401, "this is not the token")
        answer = JSONResponse({"status": "ok"})
        secure = request.url.scheme == "https"
        answer.set_cookie(COOKIE, self.keeper.session, httponly=True, samesite="strict", secure=secure)
        return answer

    async def page(self, request: Request) -> Response:
        """Give the page; what it shows comes by /events."""
        text, policy = page()
        return HTMLResponse(text, headers={"Content-Security-Policy": policy, "Cache-Control": "no-cache"})

    async def events(self, request: Request) -> Response:
        """Tell what happens as it happens."""
        if self.listeners >= LISTENERS:
            raise HTTPException(503, f"{LISTENERS} pages are open already")
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        key = request.query_params.get("key")
        return StreamingResponse(self._tell(key), media_type="text/event-stream", headers=headers)

    async def _tell(self, key: str | None) -> AsyncIterator[str]:
        columns = self.service.columns
        told = {"key": columns.key, "values": columns.values, "time": columns.time, "level": self.service.level}
        yield _event("about", json.dumps(told | {"version": package_version()}))
        self.listeners += 1
        try:
            last, sent = -1, ""
            while True:
                board = await self._fleet()
                if board != sent:
                    yield _event("fleet", board)
                    sent = board
                if key is not None:
                    rows = await run_in_threadpool(responses.history, self.service, key, ROWS, last)
                    if rows["times"] or last < 0:
                        rows["dated"] = bool(self.service.flow.dated) or columns.time is None
                        yield _event("rows", json.dumps(rows))
                    last = rows["last"]
                await asyncio.sleep(TICK)
        finally:
            self.listeners -= 1

    async def _fleet(self) -> str:
        """Tell how all are doing; worked out once for all pages."""
        made, version, _ = self.board
        now = clocks.monotonic()
        if version != self.service.version or now - made > STILL:
            version = self.service.version
            self.board = now, version, json.dumps(await run_in_threadpool(responses.fleet, self.service))
        return self.board[2]


def _event(name: str, data: str) -> str:
    return f"event: {name}\ndata: {data}\n\n"


def _key(request: Request) -> str:
    key = request.query_params.get("key")
    if key is None:
        raise ValueError("say which key is meant, as in ?key=NAME")
    return key


def _number(request: Request, name: str, usual: Any, kind: type) -> Any:
    told = request.query_params.get(name, str(usual))
    try:
        return kind(told)
    except ValueError:
        raise ValueError(f"{name} must be {'an integer' if kind is int else 'a number'}; got {told!r}") from None


async def _explain(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return JSONResponse({"error": error.detail}, error.status_code, error.headers)

"""`wolf_fleet.serve`: a service behind an HTTP server."""

import socket
import warnings
from collections.abc import Callable, Sequence
from os import PathLike
from typing import Any

from wolf import validation
from wolf.interfaces import Filter
from wolf.online.bank.bank import Bank
from wolf.statespace import LinearModel
from wolf_fleet.service import auth
from wolf_fleet.service.service import BATCH_ROWS, COMMIT_SECONDS, HISTORY_ROWS, MAX_KEYS, Service
from wolf_fleet.streaming.incidents import alerts
from wolf_fleet.streaming.key_models import ModelLearner

MISSING = (
    "wolf_fleet.serve needs starlette, uvicorn and httptools: run pip install './fleet[serve]' in a clone of the "
    "repository"
)
SHUTDOWN_SECONDS = 1  # that open connections get at the end
MAX_BODY_BYTES = 8_000_000  # of a request
PORT = 8765


def serve(
    model: Bank | LinearModel | ModelLearner,
    state: str | PathLike[str],
    *,
    key: str,
    values: str | Sequence[str],
    time: str | None = None,
    method: str | Filter | None = None,
    host: str = "127.0.0.1",
    port: int = PORT,
    token: str | None = None,
    max_body_bytes: int = MAX_BODY_BYTES,
    allowed_lateness: float = 0.0,
    step: float = 1.0,
    idle_timeout: float | None = None,
    level: float = 0.95,
    out: str | PathLike[str] | None = None,
    batch_rows: int = BATCH_ROWS,
    commit_interval: float = COMMIT_SECONDS,
    history_rows: int = HISTORY_ROWS,
    max_keys: int = MAX_KEYS,
    max_ahead: float | None = None,
    recover: bool = False,
    alert_url: str | None = None,
    alert_command: str | None = None,
    alert_secret: str | None = None,
    incident_sink: str | None = None,
    sinks: Sequence[str] = (),
    on_start: Callable[[str], None] | None = None,
    log_level: str = "warning",
) -> None:
    """Serve a bank of filters over HTTP, with a live page, until the process is interrupted.

    Args:
        model: a linear model, or a `wolf.Bank`, whose states are replaced by those of an earlier run; or a
            `wolf_fleet.WarmUp`, which learns the model of each key from its first rows.
        state: folder for the states and the write-ahead log; use the same one to resume.
        key: name of the field that identifies the series of a row.
        values: name of the field to filter, or names.
        time: name of the field of times; see `Service`.
        method: as in `wolf.filter`; only with a model, since a bank has its own.
        host: address to listen on; other machines can reach addresses that are not local, which needs a token.
        port: to listen on; 0 chooses a free one.
        token: that requests must carry. Without one only requests from this machine are accepted.
        max_body_bytes: largest body of a request.
        allowed_lateness: see `Service`, as for the following ones.
        step: length of a model step.
        idle_timeout: silence after which a key is dropped.
        level: probability of the intervals.
        out: folder for all rows with their results.
        batch_rows: number of rows per commit.
        commit_interval: seconds between commits.
        history_rows: number of recent rows in memory.
        max_keys: largest number of keys.
        max_ahead: how far a row may be ahead of the clock.
        recover: start although files are damaged, with what is intact.
        alert_url: webhook that gets each incident as JSON when it opens and when it closes, at least once.
        alert_command: program with arguments that gets it on standard input.
        alert_secret: key of the signature of the webhook's body, in the header X-Wolf-Signature.
        incident_sink: address of a sink of incidents; see `wolf_fleet.streaming.sinks`.
        sinks: addresses where the rows of each commit are sent too.
        on_start: called with the address once the server listens.
        log_level: of uvicorn.
    """
    try:
        import uvicorn

        from wolf_fleet.service.app import make_app
        from wolf_fleet.service.http_limits import LimitedProtocol
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(f"{MISSING} ({error})") from error
    auth.check_host(host, token)
    alerts.check(alert_url, alert_command, incident_sink)
    options: dict[str, Any] = {"allowed_lateness": allowed_lateness, "step": step, "idle_timeout": idle_timeout}
    options |= {"level": level, "out": out, "batch_rows": batch_rows, "commit_interval": commit_interval}
    options |= {"history_rows": history_rows, "max_keys": max_keys, "max_ahead": max_ahead, "recover": recover}
    service = Service(_make_bank(model, method), state, key=key, values=values, time=time, **options)
    for loss in service.losses:
        warnings.warn(f"recovered without what was damaged: {loss}", stacklevel=2)
    app = make_app(
        service,
        token=token,
        max_body_bytes=max_body_bytes,
        alert_url=alert_url,
        alert_command=alert_command,
        alert_secret=alert_secret,
        incident_sink=incident_sink,
        sinks=sinks,
    )
    limits: dict[str, Any] = {"http": LimitedProtocol, "timeout_graceful_shutdown": SHUTDOWN_SECONDS}
    config = uvicorn.Config(app, log_level=log_level, access_log=False, **limits)
    try:
        with _listen(host, port) as listener:
            if on_start is not None:
                on_start(_address(host, listener))
            uvicorn.Server(config).run(sockets=[listener])
    finally:
        service.close()


def _make_bank(model: Bank | LinearModel | ModelLearner, method: str | Filter | None) -> Bank | ModelLearner:
    if not isinstance(model, Bank | ModelLearner):
        return Bank(model, method)
    if method is not None:
        raise ValueError(
            f"method must be None with a bank or a warm-up, which has its own; got {validation.short_repr(method)}"
        )
    return model


def _listen(host: str, port: int) -> socket.socket:
    try:
        listener = socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except OSError as error:
        raise OSError(f"cannot listen on {host} port {port}: {error.strerror or error}") from None
    # Inherited by connections. asyncio sets it only on sockets whose protocol number is known, and without it the
    # body of an answer waits for the delayed acknowledgement of its head: 40 ms.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener


def _address(host: str, listener: socket.socket) -> str:
    name = f"[{host}]" if ":" in host else host
    return f"http://{name}:{listener.getsockname()[1]}"

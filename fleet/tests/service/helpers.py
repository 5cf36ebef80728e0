"""Services, requests and a real server, for the tests of the service."""

import json
import socket
import threading
import urllib.error
import urllib.request

import numpy as np
import uvicorn

import wolf
from wolf_fleet.service import Service
from wolf_fleet.service.http_limits import LimitedProtocol

LEVEL = wolf.models.local_level(0.1, 1.0)
NAMES = {"key": "id", "values": "v", "time": "t"}


def open_service(folder, **options):
    return Service(wolf.Bank(LEVEL), folder, **NAMES | options)


def body(rows):
    return json.dumps([{"id": key, "t": t, "v": v} for key, t, v in rows]).encode()


def crash(service):
    """Leave a service as a kill would: nothing is committed, the folder is free."""
    service._journal.close()
    service._checkpoint.close()


def some_rows(size=40, keys=3, seed=0):
    rng = np.random.default_rng(seed)
    return [(f"s{rng.integers(keys)}", float(t), round(float(rng.standard_cauchy()), 3)) for t in range(size)]


def states(service):
    return {key: service.pipeline.bank.dump(key) for key in service.pipeline.bank}


class Server:
    """A real server in a thread."""

    def __init__(self, app):
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.address = f"http://127.0.0.1:{self.socket.getsockname()[1]}"
        self.server = uvicorn.Server(
            uvicorn.Config(app, http=LimitedProtocol, log_level="error", timeout_graceful_shutdown=1)
        )
        self.thread = threading.Thread(target=self.server.run, kwargs={"sockets": [self.socket]})
        self.thread.start()

    def ask(self, path, data=None, kind="application/json", **headers):
        headers = {name.replace("_", "-"): value for name, value in headers.items()}
        headers |= {} if data is None or kind is None else {"Content-Type": kind}
        try:
            request = urllib.request.Request(self.address + path, data, headers)
            with urllib.request.urlopen(request, timeout=30) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def get(self, path, **headers):
        code, text = self.ask(path, **headers)
        assert code == 200, text
        return json.loads(text)

    def post(self, rows, path="/measurements", **headers):
        code, text = self.ask(path, body(rows), **headers)
        assert code == 200, text
        return json.loads(text)

    def close(self):
        self.server.should_exit = True
        self.thread.join()
        self.socket.close()

"""Kill a service with signal 9 while measurements are posted, start it again each time, and post what was not answered.

python fleet/tests/service/serving_kills.py FOLDER KILLS SEED

Prints how many kills there were, and how many requests were answered in all. The states are in FOLDER/state. Children
are forked before JAX starts, so that each begins at once.
"""

import http.client
import json
import os
import random
import signal
import socket
import sys
import threading
from pathlib import Path

import uvicorn

import wolf
from wolf_fleet.service import Service
from wolf_fleet.service.app import make_app

VARIANCES = (0.1, 1.0)  # of the level and of the noise
LONGEST, SOON = 120.0, 0.5  # seconds until an answer: of a service that starts, and of one that runs


def start(folder, listening):
    child = os.fork()
    if child:
        return child
    bank = wolf.Bank(wolf.models.local_level(*VARIANCES))
    service = Service(bank, folder / "state", key="id", values="v", time="t", batch_rows=37)
    uvicorn.Server(uvicorn.Config(make_app(service), log_level="error")).run(sockets=[listening])
    os._exit(0)


def post(port, number, seconds):
    """Post a measurement, with the same id each time; say whether it was answered."""
    body = json.dumps({"id": f"s{number % 5}", "t": number, "v": number * number % 17})
    headers = {"Content-Type": "application/json", "Idempotency-Key": f"request {number}"}
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=seconds)
    try:
        connection.request("POST", "/measurements", body, headers)
        answer = connection.getresponse()
        told = answer.read()
        assert answer.status == 200, told
        return True
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def main(folder, kills, seed):
    rng, answered = random.Random(seed), 0
    listening = socket.create_server(("127.0.0.1", 0), backlog=64)
    port = listening.getsockname()[1]
    for _ in range(kills):
        child = start(folder, listening)
        # What was sent and not answered before the kill waits in the socket too, and comes twice.
        assert post(port, answered, LONGEST)
        answered += 1
        timer = threading.Timer(0.3 * rng.random(), os.kill, (child, signal.SIGKILL))
        timer.start()
        while timer.is_alive():
            answered += post(port, answered, SOON)
        assert os.waitpid(child, 0)[1] == signal.SIGKILL
    print(kills, answered)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))

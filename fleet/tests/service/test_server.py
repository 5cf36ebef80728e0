"""`wolf_fleet.serve`: the server in front of a service."""

import json
import os
import socket
import subprocess
import sys
import urllib.request

import pytest

import wolf
import wolf_fleet
from wolf_fleet.service import server

pytest.importorskip("llvmlite")
pytest.importorskip("uvicorn", reason="the service needs the extra serve")
pytestmark = pytest.mark.thorough
LEVEL = wolf.models.local_level(0.1, 1.0)
NAMES = {"key": "id", "values": "v"}
PROGRAM = """
import sys, wolf, wolf_fleet
model = wolf.models.local_level(0.1, 1.0)
start = lambda address: print(address, flush=True)
wolf_fleet.serve(model, sys.argv[1], key="id", values="v", port=0, on_start=start)
"""


def test_measurements_are_kept_over_a_restart(tmp_path):
    for count in (1, 2):
        command = [sys.executable, "-c", PROGRAM, str(tmp_path / "state")]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=os.environ)
        address = process.stdout.readline().strip()
        headers = {"Content-Type": "text/csv"}
        request = urllib.request.Request(f"{address}/measurements", b"id,v\na,1.5\n", headers)
        with urllib.request.urlopen(request, timeout=60) as answer:
            assert json.load(answer)["used"] == 1
        with urllib.request.urlopen(f"{address}/state?key=a", timeout=60) as answer:
            assert json.load(answer)["measurements"] == count
        process.terminate()
        process.communicate()


def test_an_error_at_the_start_releases_the_state(tmp_path):
    def fail(address):
        assert address.startswith("http://127.0.0.1:")
        raise KeyboardInterrupt

    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            wolf_fleet.serve(wolf.Bank(LEVEL), tmp_path / "state", port=0, on_start=fail, **NAMES)


@pytest.mark.parametrize(
    ("options", "words"),
    [({"host": "0.0.0.0"}, "needs a token"), ({"method": "KF"}, "method must be None with a bank")],
)
def test_invalid_arguments_are_explained(tmp_path, options, words):
    with pytest.raises(ValueError, match=words):
        wolf_fleet.serve(wolf.Bank(LEVEL), tmp_path / "state", port=0, **NAMES, **options)
    assert not (tmp_path / "state").exists()


def test_a_missing_web_server_is_explained(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install '\./fleet\[serve\]'"):
        wolf_fleet.serve(LEVEL, tmp_path / "state", **NAMES)


def test_answers_do_not_wait_for_the_acknowledgement_of_their_first_part():
    with server._listen("127.0.0.1", 0) as listener, socket.create_connection(listener.getsockname()):
        accepted, _ = listener.accept()
        with accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)

"""The live page in a real browser: a new fault comes by itself, nothing is loaded from elsewhere, text stays text."""

import json
import shutil
import socket
import threading
import urllib.request

import numpy as np
import pytest

import wolf

pytest.importorskip("llvmlite")
uvicorn = pytest.importorskip("uvicorn", reason="the service needs the extra serve")
playwright = pytest.importorskip("playwright.sync_api", reason="the browser tests need playwright")
from wolf_fleet.service import Service  # noqa: E402
from wolf_fleet.service.app import POLL_SECONDS, make_app  # noqa: E402

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = [
    pytest.mark.thorough,
    pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium here; Debian has it as the package chromium"),
]
SOON = 2.0  # seconds within which a fault is on the page of a machine that is not busy
TOKEN = "0123456789abcdef0123"
ODD = '<img src=x onerror="document.title=1">'  # a key that would be dangerous as HTML


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    bank = wolf.Bank(wolf.models.local_level(0.1, 1.0))
    service = Service(bank, tmp_path_factory.mktemp("state"), key="id", values="v", time="at")
    listening = socket.create_server(("127.0.0.1", 0))
    app = make_app(service, token=TOKEN)
    server = uvicorn.Server(uvicorn.Config(app, log_level="error", timeout_graceful_shutdown=1))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    server.should_exit = True
    thread.join()
    listening.close()


@pytest.fixture(scope="module")
def browser():
    with playwright.sync_playwright() as started:
        launched = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield launched
        launched.close()


def post(address, rows):
    body = json.dumps([{"id": key, "at": 1.7e9 + t, "v": v} for key, t, v in rows]).encode()
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {TOKEN}"}
    with urllib.request.urlopen(urllib.request.Request(f"{address}/measurements", body, headers)) as answer:
        return json.load(answer)


def opened(browser, address, **options):
    page, errors = browser.new_page(**options), []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
    page.on("request", lambda request: errors.append(request.url) if not request.url.startswith(address) else None)
    page.goto(address)
    page.fill("#token", TOKEN)
    page.click("#enter button")
    page.wait_for_selector(".card")
    refused = [error for error in errors if "401" in error]  # what was asked before the token was given
    return page, errors, refused


def colours(page):
    """Count the colours of the picture."""
    return page.evaluate(
        """() => { const c = document.querySelector("#plot canvas"), x = c.getContext("2d"), s = new Set();
        const d = x.getImageData(0, 0, c.width, c.height).data;
        for (let i = 0; i < d.length; i += 4) if (d[i + 3] > 200) s.add(d[i] + 256 * d[i + 1] + 65536 * d[i + 2]);
        return s.size; }"""
    )


def break_sensor(page, address, key):
    """Let a sensor break, and wait until the page shows it."""
    told = post(address, [(key, 12.0, 60.0), (key, 13.0, -60.0)])
    assert told["outliers"] == 2
    page.wait_for_selector(f'#worst button.bad:has-text("{key}")')
    page.wait_for_selector(f'#latest li:has-text("{key}"):has-text("above the estimate")')


def test_a_new_fault_comes_to_the_page_by_itself(browser, address):
    rng = np.random.default_rng(0)
    keys = [f"sensor-{i}" for i in range(50)] + [ODD]
    for t in range(12):
        post(address, [(key, float(t), rng.normal()) for key in keys])
    page, errors, refused = opened(browser, address, viewport={"width": 1200, "height": 900}, color_scheme="light")
    assert page.locator("#worst button", has_text="sensor-7").count() == 0
    assert POLL_SECONDS < 0.5 * SOON  # how often it looks; seconds are not taken here, where others are at work too
    for name in ("sensor-9", "sensor-8", "sensor-7"):
        break_sensor(page, address, name)
    assert page.locator("#worst button b").first.inner_text() == "sensor-7"
    assert "2 outliers in the last 14 rows" in page.locator("#worst li").first.inner_text()

    incident = page.locator("#incidents li", has_text="sensor-7")
    assert "2 outliers in the last 14 rows" in incident.inner_text()
    incident.get_by_role("button", name="Acknowledge").click()
    incident.wait_for(state="detached")
    page.locator("#incidents li", has_text="sensor-8").get_by_role("button", name="Mute").click()
    page.locator("#incidents li", has_text="sensor-8").wait_for(state="detached")

    page.click('#worst button:has-text("sensor-7")')
    page.wait_for_selector('#flags tr:has-text("below the estimate")')
    assert page.locator("#flags tr").count() == 2
    assert "2023-11-14 22:13:33" in page.locator("#flags tr").first.inner_text()
    assert "2023-11-14 22:13:33" in page.locator("#latest li").first.inner_text()
    assert colours(page) > 3
    assert "2 outliers" in page.get_attribute("#plot", "aria-label")
    post(address, [("sensor-7", 14.0, 77.0)])
    page.wait_for_selector('#flags tr:has-text("77")')  # it goes on by itself

    page.fill("#key", "<IMG")
    page.wait_for_selector("#listed:text-is('Keys')")
    page.press("#key", "Enter")
    page.wait_for_function("name => document.querySelector('#name').textContent === name", arg=ODD)
    page.fill("#key", "")
    page.wait_for_selector("#listed:text-is('Keys with problems')")
    post(address, [(ODD, 12.0, 60.0), (ODD, 13.0, 60.0)])
    page.wait_for_selector(f"#worst button:has-text({json.dumps(ODD)})")
    assert page.locator("img").count() == 0
    assert errors == refused
    page.context.close()


def test_keys_are_searched_and_sorted_and_the_worst_ones_have_small_pictures(browser, address):
    keys = [f"site{i}" for i in range(14)]
    for t in range(8):
        post(address, [(key, float(t), 0.1 * t) for key in keys])
    for t in (8.0, 9.0):
        post(address, [("site9", t, 500.0 + t)])
    page, errors, refused = opened(browser, address, viewport={"width": 1200, "height": 900}, color_scheme="light")
    page.wait_for_selector("#multiples button:has-text('site9')")
    assert page.locator("#multiples button").count() == 12
    assert page.locator("#multiples button.bad", has_text="site9").count() == 1
    drawn = """() => [...document.querySelectorAll("#multiples canvas")].every((c) => {
        const d = c.getContext("2d").getImageData(0, 0, c.width, c.height).data;
        return d.some((v, i) => i % 4 === 3 && v > 200); })"""
    assert page.evaluate(drawn)
    page.fill("#key", "SITE1")
    page.wait_for_selector("#listed:text-is('Keys')")
    page.select_option("#sort", "key")
    page.wait_for_function("document.querySelectorAll('#worst button').length === 5")
    names = page.locator("#worst button b").all_inner_texts()
    assert names == ["site1", "site10", "site11", "site12", "site13"]
    page.fill("#key", "nowhere")
    page.wait_for_selector("#healthy:has-text('No such key.')")
    page.click("#multiples button:has-text('site9')")
    assert page.inner_text("#name") == "site9"
    assert errors == refused
    page.context.close()


def test_it_fits_a_phone_and_the_dark(browser, address):
    post(address, [("phone", float(t), 5.0 + 90 * (t > 8)) for t in range(10)])
    page, errors, refused = opened(browser, address, viewport={"width": 390, "height": 844}, color_scheme="dark")
    page.wait_for_selector("#plot canvas")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") != "rgb(255, 255, 255)"
    page.click("#theme")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert page.evaluate('document.querySelector("#problems").getBoundingClientRect().top') < page.evaluate(
        'document.querySelector("#one").getBoundingClientRect().top'
    )
    assert errors == refused
    page.context.close()

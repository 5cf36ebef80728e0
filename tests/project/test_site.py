"""The site in a browser: every page fits, loads and links; searches find pages; copied code runs."""

import contextlib
import http.server
import os
import re
import shutil
import subprocess
import sys
import threading
from functools import partial
from pathlib import Path
from urllib.parse import quote, unquote, urldefrag, urljoin, urlparse

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
WIDTHS = (1366, 390)  # a small laptop, a phone
# Text of code and tables that have to be scrolled sideways; folded source excepted.
SCROLLED_TEXT = """() => [...document.querySelectorAll("pre code, .md-typeset__scrollwrap")]
    .filter(each => each.scrollWidth > each.clientWidth + 1 && each.innerText)
    .map(each => each.innerText.slice(0, 80))"""
QUERIES = {  # words that people search for -> pages of which one is among the first three that are found
    "anomaly": {"readings", "gallery"},
    "anomaly pandas": {"gallery", "readings"},
    "remove outliers csv": {"readings"},
    "spike removal": {"readings", "gallery"},
    "alert": {"service"},
    "webhook": {"service"},
    "Grafana": {"service"},
    "Prometheus": {"service"},
    "Kafka": {"fleet", "service"},
    "MQTT": {"fleet", "service"},
    "exogenous": {"exogenous", "fitting", "model-zoo"},
    "covariates": {"exogenous", "fitting", "model-zoo"},
    "backtest": {"backtest", "fitting"},
    "forecast intervals": {"quickstart", "worlds", "backtest"},
    "process noise": {"fitting", "default-method", "learned-noise", "course/2-motion", "course/1-noisy-thermometer"},
    "measurement noise": {"fitting", "default-method", "learned-noise", "course/1-noisy-thermometer"},
    "estimate Q and R": {"fitting", "course/4-unknown-noise"},
    "maximum likelihood": {"fitting", "course/4-unknown-noise"},
    "autocorrelated": {"special-models", "learned-noise", "course/4-unknown-noise"},
    "coloured noise": {"special-models", "learned-noise", "course/4-unknown-noise"},
    "imputation": {"readings", "asked-elsewhere"},
    "gap filling": {"readings", "asked-elsewhere"},
    "missing values": {"quickstart", "asked-elsewhere", "how-it-works", "course/1-noisy-thermometer"},
    "AHRS": {"special-models", "model-zoo"},
    "attitude quaternion": {"special-models", "model-zoo"},
    "OOSM": {"fusion", "api/online"},
    "delayed measurement": {"fusion", "api/online"},
    "gating": {"course/3-outliers", "rivals", "choosing-a-method", "asked-elsewhere"},
    "NIS": {"diagnostics", "course/2-motion"},
    "innovation": {"diagnostics", "course/2-motion", "notation"},
    "RTS smoother": {"quickstart", "comparison", "coming-from"},
    "unscented": {"choosing-a-method", "course/5-nonlinear"},
    "extended Kalman filter": {"course/5-nonlinear", "choosing-a-method"},
    "particle filter": {"course/5-nonlinear", "api/methods", "rivals"},
    "ensemble Kalman filter": {"ensembles"},
    "localisation": {"ensembles"},
    "changepoint": {"changepoints"},
    "level shift": {"certificate", "readings", "changepoints"},
    "gps track gpx": {"gps-track"},
    "sensor fusion": {"fusion"},
    "sensor different rates": {"fusion"},
    "robot": {"course/6-robot", "fusion"},
    "ROS": {"fusion", "course/6-robot", "microcontroller"},
    "arduino": {"microcontroller"},
    "C code": {"microcontroller", "course/6-robot"},
    "thousands of series": {"gallery", "fleet", "scale"},
    "resume stream": {"fleet"},
    "Spark": {"spark"},
    "bad ticks": {"gallery"},
    "angle": {"fusion", "course/5-nonlinear"},
    "decimal comma": {"readings"},
    "own weight": {"choosing-a-weight", "extending"},
    "Huber": {"choosing-a-weight", "rivals"},
    "Student-t": {"rivals", "choosing-a-weight"},
    "scikit-learn": {"readings", "online-learning"},
    "river": {"online-learning", "coming-from", "comparison"},
    "OpenCV": {"coming-from"},
    "filterpy": {"coming-from", "comparison", "gallery"},
    "GPU": {"jax", "comparison"},
    "gradient": {"jax", "how-it-works"},
    "influence function": {"influence", "course/3-outliers"},
    "filter_frame": {"readings", "api/readings"},
}


class Quiet(http.server.SimpleHTTPRequestHandler):
    """Handler that serves files without logging."""

    def log_message(self, *_):
        pass


@contextlib.contextmanager
def serving(folder):
    """Serve a folder, and yield its address."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/"
        finally:
            server.shutdown()


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """Build the site as `make docs` does; yield its folder and its address."""
    for module in ("mkdocs", "jupytext", "latex2mathml"):
        pytest.importorskip(module, reason="the site needs docs/requirements.txt")
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "-q", "-d", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    with serving(folder) as base:
        yield folder, base


@pytest.fixture(scope="module")
def browser():
    playwright = pytest.importorskip("playwright.sync_api", reason="the browser tests need playwright")
    if CHROMIUM is None:
        pytest.skip("there is no chromium on this machine; Debian has it as the package chromium")
    with playwright.sync_playwright() as started:
        launched = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield launched
        launched.close()


def pages_of(folder):
    return sorted(path.parent.relative_to(folder).as_posix() for path in folder.rglob("index.html"))


def address(base, page):
    return base if page == "." else f"{base}{page}/"


@pytest.mark.parametrize("width", WIDTHS)
def test_every_page_fits_loads_nothing_external_and_has_no_script_error(site, browser, width):
    folder, base = site
    faults = []
    view = browser.new_page(viewport={"width": width, "height": 800})
    view.on("pageerror", lambda error: faults.append((view.url, str(error))))
    view.on("request", lambda request: None if request.url.startswith((base, "data:")) else faults.append(request.url))
    view.on("response", lambda response: faults.append(response.url) if response.status >= 400 else None)
    pages = pages_of(folder)
    assert len(pages) > 50
    for page in pages:
        view.goto(address(base, page), wait_until="load")
        wide = view.evaluate("document.documentElement.scrollWidth")
        if wide > width:
            faults.append((page, wide))
        if width == WIDTHS[0]:
            faults += [(page, words) for words in view.evaluate(SCROLLED_TEXT)]
    view.close()
    assert not faults


def test_every_internal_link_leads_to_an_existing_place(site):
    folder, base = site
    anchors, links = {}, []
    for page in pages_of(folder):
        html, home = (folder / page / "index.html").read_text(), address(base, page)
        anchors[home] = set(re.findall(r'\bid="?([^"\s>]+)', html))
        links += [(home, urljoin(home, link)) for link in re.findall(r'(?:href|src)="?([^"\s>]+)', html)]
    broken = []
    for home, link in {each for each in links if each[1].startswith(base)}:
        place, anchor = urldefrag(link)
        file = folder / unquote(urlparse(place).path).lstrip("/")
        there = (file / "index.html").exists() if place.endswith("/") or place == base else file.exists()
        known = anchors.get(place)
        if not there or (anchor and known is not None and unquote(anchor) not in known and anchor != "__skip"):
            broken.append((home, link))
    assert not broken


def first_found(site, browser, words):
    """Return the first six different pages that the search of the site finds."""
    view = browser.new_page(viewport={"width": 1366, "height": 800})
    view.goto(f"{site[1]}?q={quote(words)}", wait_until="load")
    view.wait_for_selector(".md-search-result__item > a", timeout=60_000)
    links = view.eval_on_selector_all(".md-search-result__item > a", "all => all.map(each => each.href)")
    view.close()
    return list(dict.fromkeys(urlparse(link).path.strip("/") for link in links))[:6]


def test_there_are_sixty_queries():
    assert len(QUERIES) >= 60


@pytest.mark.parametrize("words", QUERIES)
def test_the_search_finds_the_page_among_the_first_three(site, browser, words):
    assert set(first_found(site, browser, words)[:3]) & QUERIES[words]


def test_code_copied_from_a_session_has_no_prompt_and_no_output(site, browser):
    context = browser.new_context(viewport={"width": 1366, "height": 800})
    context.grant_permissions(["clipboard-read", "clipboard-write"])
    view = context.new_page()
    view.goto(f"{site[1]}quickstart/", wait_until="load")
    view.locator("button[data-clipboard-target], button.md-clipboard, button.md-code__button").first.click(force=True)
    copied = view.evaluate("navigator.clipboard.readText()")
    context.close()
    assert "import" in copied
    assert ">>>" not in copied
    compile(copied, "copied", "exec")


def test_the_site_follows_the_colour_scheme_of_the_browser(site, browser):
    light = {}
    for scheme in ("light", "dark"):
        view = browser.new_page(color_scheme=scheme)
        view.goto(site[1], wait_until="load")
        colour = view.evaluate("getComputedStyle(document.body).backgroundColor")
        light[scheme] = sum(map(float, re.findall(r"[\d.]+", colour)[:3]))
        view.close()
    assert light["dark"] < 200 < 600 < light["light"]


def test_formulas_are_rendered(site, browser):
    view = browser.new_page()
    view.goto(f"{site[1]}how-it-works/", wait_until="load")
    heights = view.eval_on_selector_all(".formula math", "all => all.map(each => each.getBoundingClientRect().height)")
    view.close()
    assert len(heights) == 2
    assert heights[1] > 2.5 * 16  # three lines


def test_the_header_switches_between_released_versions(browser, tmp_path):
    pytest.importorskip("mike", reason="the site needs docs/requirements.txt")
    git = partial(subprocess.run, check=True, capture_output=True, cwd=tmp_path / "clone")
    subprocess.run(["git", "clone", "-q", "--depth=1", f"file://{ROOT}", tmp_path / "clone"], check=True)
    who = {f"GIT_{role}_{what}": "docs@example.org" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    env = os.environ | who | {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}  # for mkdocs
    mike = [sys.executable, "-c", "import sys; from mike.driver import main; sys.exit(main())"]
    for version in (["0.1"], ["0.2", "latest"]):
        git([*mike, "deploy", "--update-aliases", *version], env=env)
    git([*mike, "set-default", "latest"], env=env)
    git(["git", "checkout", "-q", "-f", "gh-pages"])
    with serving(tmp_path / "clone") as base:
        view = browser.new_page(viewport={"width": 1366, "height": 800})
        view.goto(base, wait_until="load")
        view.wait_for_selector(".md-version__link", state="attached")
        links = view.eval_on_selector_all(".md-version__link", "all => all.map(each => [each.innerText, each.href])")
        assert view.url == f"{base}latest/"
        view.close()
    assert links == [["0.2", f"{base}0.2/"], ["0.1", f"{base}0.1/"]]

"""The playground in a real browser: what is pasted is checked there, and nothing leaves the page."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from importlib import import_module
from typing import Any

import pytest

from tests.support.node_programs import needs_packages
from tools.browser import QUIET
from tools.site.playground import EXAMPLES, SOURCES, build_playground

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
PATIENCE = 180_000
"""Milliseconds: on a busy machine Python takes half a minute to be loaded."""

SOON = 1000
"""Milliseconds to the first findings after Python is there: the first or the last check, since others run beside."""

COURSE = EXAMPLES["The course script, as it was published"].read_text(encoding="utf-8")
FRAGMENT = """for x, y in loader:
    loss = F.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
"""
AUDIT = """
axe.run(document, {resultTypes: ["violations"]})
    .then((found) => found.violations.map((one) => one.id + ": " + one.nodes[0].html))
"""

pytestmark = pytest.mark.slow


class Files(SimpleHTTPRequestHandler):
    """A plain server of files."""

    extensions_map = {**SimpleHTTPRequestHandler.extensions_map, ".mjs": "text/javascript", ".wasm": "application/wasm"}

    def handle(self) -> None:
        """A browser that is closed leaves files half read."""
        with suppress(ConnectionError):
            super().handle()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name in the base class
        """Say nothing."""


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    needs_packages(SOURCES)
    if CHROMIUM is None:
        pytest.skip("Chromium is not installed (`apt-get install chromium`)")
    folder = tmp_path_factory.mktemp("playground")
    build_playground(folder / "build", folder / "site")
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Files, directory=str(folder / "site")))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/playground/index.html"
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="module")
def browser(address: str) -> Iterator[Any]:  # Any: playwright has types of its own, which the tests do without
    with import_module("playwright.sync_api").sync_playwright() as browsers:
        opened = browsers.chromium.launch(executable_path=CHROMIUM, args=[*QUIET])
        yield opened
        opened.close()


@pytest.fixture(scope="module")
def loaded(browser: Any, address: str) -> Any:
    """The page when its first text is checked, without a network from then on."""
    page = browser.new_context(viewport={"width": 1200, "height": 800}).new_page()
    page.set_default_timeout(PATIENCE)
    requests: list[str] = []
    page.on("request", lambda request: requests.append(request.url))
    page.errors = []
    page.on("pageerror", lambda error: page.errors.append(str(error)))
    page.goto(address)
    page.wait_for_selector("body[data-text]")
    page.context.set_offline(True)
    page.requests = requests
    requests.clear()
    return page


def wait_until(page: Any, condition: str) -> None:
    """Wait for a condition; the page forbids itself what playwright's own waiting does in it."""
    end = time.monotonic() + PATIENCE / 1000
    while not page.evaluate(condition):
        assert time.monotonic() < end, f"never came true: {condition}"
        page.wait_for_timeout(100)


def paste(page: Any, text: str) -> str:
    """Put a text in the place of the page's, and wait for what is said of it."""
    page.click(".cm-content")
    page.keyboard.press("Control+A")
    page.keyboard.press("Delete")
    wait_until(page, "document.body.dataset.text === '0'")
    page.keyboard.insert_text(text)
    wait_until(page, f"document.body.dataset.text === '{len(text)}'")
    said: str = page.inner_text("#state")
    return said


def shown_rules(page: Any) -> list[str]:
    return [link.inner_text() for link in page.query_selector_all("article .where a")]


def test_the_course_script_is_checked_a_second_after_python_is_there(loaded: Any) -> None:
    assert "7 findings" in loaded.inner_text("#state")
    assert "logits-in-metric" in shown_rules(loaded)
    assert "undefined-name" in shown_rules(loaded), "ruff found nothing"
    paste(loaded, FRAGMENT)
    paste(loaded, COURSE)
    took = loaded.evaluate("performance.getEntriesByName('lintrain-check').map(each => each.duration)")
    assert min(took[0], took[-1]) <= SOON, f"the findings came after {took} ms"


def test_a_fragment_and_a_traceback_are_pasted(loaded: Any) -> None:
    assert "finding" in paste(loaded, FRAGMENT)
    assert "missing-zero-grad" in shown_rules(loaded)
    traceback = EXAMPLES["A traceback"].read_text(encoding="utf-8")
    assert "IndexError: Target 2 is out of bounds." in paste(loaded, traceback)
    assert "missing-num-labels" in shown_rules(loaded)


def test_a_fix_is_written_into_the_text_and_taken_back(loaded: Any) -> None:
    paste(loaded, FRAGMENT)
    card = loaded.locator("article", has_text="missing-zero-grad")
    card.get_by_role("button", name="fix").click()
    wait_until(loaded, "document.querySelector('.cm-content').innerText.includes('zero_grad()')")
    wait_until(
        loaded, "![...document.querySelectorAll('article a')].some(one => one.innerText === 'missing-zero-grad')"
    )
    loaded.keyboard.press("Control+Z")
    wait_until(loaded, "[...document.querySelectorAll('article a')].some(one => one.innerText === 'missing-zero-grad')")


def test_a_pasted_text_is_never_read_as_html(loaded: Any) -> None:
    name = '<img src=x onerror="document.title=1">'
    paste(loaded, f"import torch\nmodel.load({name!r})\nprint(nowhere)  # {name}\nraise ValueError('{name}')\n")
    paste(loaded, f"RuntimeError: {name}")
    assert loaded.query_selector("main img") is None
    assert loaded.title() == "Playground - lintrain"


def test_keys_alone_reach_everything(loaded: Any) -> None:
    paste(loaded, FRAGMENT)
    loaded.click(".cm-content")
    loaded.keyboard.press("Tab")
    assert loaded.evaluate("document.activeElement.closest('.cm-editor')") is None
    loaded.click(".cm-content")
    loaded.keyboard.press("F8")
    assert loaded.evaluate("document.activeElement.closest('.cm-editor') !== null")


@pytest.mark.parametrize(("width", "is_dark"), [(1200, False), (1200, True), (390, False)])
def test_an_audit_finds_no_obstacle(loaded: Any, width: int, is_dark: bool) -> None:
    loaded.set_viewport_size({"width": width, "height": 800})
    if (loaded.get_attribute("#theme", "aria-pressed") == "true") != is_dark:
        loaded.click("#theme")
    paste(loaded, COURSE)
    loaded.evaluate((SOURCES / "node_modules" / "axe-core" / "axe.min.js").read_text(encoding="utf-8"))
    assert loaded.evaluate(AUDIT) == []
    assert loaded.evaluate("document.documentElement.scrollWidth") <= width
    loaded.set_viewport_size({"width": 1200, "height": 800})


def test_a_link_holds_the_text(loaded: Any, browser: Any) -> None:
    paste(loaded, FRAGMENT + "# ünïcödé 🙂\n")
    loaded.click("#share")
    wait_until(loaded, "location.hash.startsWith('#code=')")
    other = browser.new_page()
    other.goto(loaded.url)
    wait_until(other, "document.querySelector('.cm-content').innerText.includes('🙂')")
    other.close()


def test_a_link_that_unpacks_to_more_than_a_script_is_cut(browser: Any, address: str) -> None:
    page = browser.new_page()
    page.goto(address)
    page.wait_for_selector(".cm-content")
    length = page.evaluate(
        """async () => {
            const zeros = new Blob([new Uint8Array(50_000_000).fill(97)]).stream();
            const stream = zeros.pipeThrough(new CompressionStream('deflate-raw'));
            const packed = new Uint8Array(await new Response(stream).arrayBuffer());
            const letters = btoa(Array.from(packed, (each) => String.fromCharCode(each)).join(''));
            location.hash = '#code=' + letters.replaceAll('+', '-').replaceAll('/', '_').replaceAll('=', '');
            return letters.length;
        }"""
    )
    assert length < 100_000
    page.reload()
    wait_until(page, "document.querySelector('.cm-content').innerText.startsWith('aaaa')")
    page.close()


def test_nothing_leaves_the_page(loaded: Any) -> None:
    paste(loaded, FRAGMENT)
    assert loaded.requests == []
    assert loaded.errors == []
    refused = "fetch('http://127.0.0.1:9/').then(() => '', error => error.name)"
    violations = (
        "new Promise(tell => document.addEventListener('securitypolicyviolation', one => tell(one.effectiveDirective)))"
    )
    loaded.evaluate(f"void (window.refusal = {violations})")
    assert loaded.evaluate(refused) == "TypeError"
    assert loaded.evaluate("window.refusal") == "connect-src"

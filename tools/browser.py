"""A browser that is driven as a user does, with a picture of each thing that is seen: playwright and Chromium."""

from __future__ import annotations

import shutil
import socket
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

PATIENCE = 60_000
"""Milliseconds that anything on the screen may take."""

QUIET = (
    "--no-sandbox",  # a container's root may have none
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
"""The browser speaks to nobody but the page."""


class User:
    """Hands and eyes at a page."""

    def __init__(self, page: Any, pictures: Path) -> None:  # Any: playwright is installed for this alone
        self.page, self.pictures = page, pictures
        page.set_default_timeout(PATIENCE)

    def picture(self, name: str) -> None:
        """Wait until things are at rest, and keep what is seen."""
        self.page.wait_for_timeout(1500)
        self.page.screenshot(path=str(self.pictures / f"{name}.png"))

    def press(self, keys: str, picture: str = "") -> None:
        """Press keys."""
        self.page.keyboard.press(keys)
        self.page.wait_for_timeout(300)
        if picture:
            self.picture(picture)

    def write(self, text: str, picture: str = "") -> None:
        """Write into what is open, and confirm."""
        self.page.keyboard.type(text)
        self.page.wait_for_timeout(800)
        self.press("Enter", picture)

    def sees(self, what: str, picture: str) -> None:
        """Wait for something on the page, and keep what is seen."""
        try:
            self.page.wait_for_selector(what)
        except Exception:
            self.picture(f"{picture}-missing")
            raise
        self.picture(picture)

    def misses(self, what: str, picture: str) -> None:
        """Wait until something is no longer on the page, and keep what is seen."""
        self.page.wait_for_selector(what, state="detached")
        self.picture(picture)

    def hover(self, what: str, picture: str) -> None:
        """Point at something."""
        self.page.hover(what, force=True)
        self.picture(picture)


def look(address: str, pictures: Path, what: Callable[[Any, Path], None]) -> None:  # Any: as above
    """Do something at a page, with pictures."""
    playwright: Any = import_module("playwright.sync_api")
    with playwright.sync_playwright() as browsers:
        browser = browsers.chromium.launch(executable_path=shutil.which("chromium"), args=[*QUIET])
        page = browser.new_page(viewport={"width": 1200, "height": 760})
        page.goto(address, timeout=PATIENCE)
        what(page, pictures)
        browser.close()


def free_port() -> int:
    """A port of this machine that nothing listens at."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port


def wait_for(port: int) -> None:
    """Return when something listens."""
    end = time.monotonic() + PATIENCE / 1000
    while time.monotonic() < end:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.2)
    raise TimeoutError(f"nothing listens at port {port}")

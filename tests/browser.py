"""A real headless Chromium for tests; `browser` tests are skipped where there is none."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

NAMES = ("chromium", "chromium-browser", "google-chrome")
CHROMIUM = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)
DESKTOP, PHONE = (1280, 900), (390, 844)

needs_browser = pytest.mark.skipif(
    CHROMIUM is None, reason="no Chromium on PATH (apt install chromium), and CHROMIUM is not set"
)


@contextmanager
def chromium() -> Iterator[Browser]:
    """The browser; its sandbox is off for root only, who cannot have one."""
    sandbox = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=sandbox)
        try:
            yield browser
        finally:
            browser.close()


class Watched:
    """A page without network, and everything it asked for or complained of."""

    def __init__(self, browser: Browser, size: tuple[int, int] = DESKTOP, **context: Any) -> None:
        self.context = browser.new_context(
            viewport={"width": size[0], "height": size[1]}, offline=True, **context
        )
        self.page: Page = self.context.new_page()
        self.requests: list[str] = []
        self.errors: list[str] = []
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("console", lambda message: self.errors.append(message.text))

    def open(self, file: Path) -> Page:
        """The page, drawn."""
        self.page.goto(file.resolve().as_uri())
        self.page.wait_for_selector("body[data-ready=yes]", timeout=60_000)
        return self.page

"""Debian's Chromium without a window, driven by its own driver. One that is missing is a failure, never a skip."""

import shutil
from pathlib import Path

from selenium.webdriver import Chrome, ChromeOptions
from selenium.webdriver.chrome.service import Service

PHONE, DESK = (360, 740), (1100, 900)
ARGUMENTS = ("--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--disable-dev-shm-usage")


def open_browser() -> Chrome:
    """A browser that keeps what pages write to the console."""
    chromium, driver = shutil.which("chromium"), shutil.which("chromedriver")
    assert chromium and driver, "Chromium or its driver is missing. Run: apt-get install chromium chromium-driver"
    options = ChromeOptions()
    options.binary_location = chromium
    for argument in ARGUMENTS:
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    return Chrome(options=options, service=Service(driver))


def show(browser: Chrome, path: Path, size: tuple[int, int] = DESK, scheme: str = "light") -> None:
    """Open a file on a screen of a size, light or dark."""
    width, height = size
    metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
    browser.get(path.absolute().as_uri())

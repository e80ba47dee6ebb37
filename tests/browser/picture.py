"""Take the picture of the demo's report that the README shows: python tests/browser/picture.py

It opens `results/demo/report.html`, which `make demo` makes, and writes its beginning to `docs/report.png`.
"""

import sys
from pathlib import Path

from PIL import Image

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "helpers"))
from test_report import browser_here, seen  # noqa: E402 - it imports helpers

REPORT, PICTURE = ROOT / "results/demo/report.html", ROOT / "docs/report.png"
SIZE = 1280, 900
COLOURS = 64
"""Colours of the picture, so that it is small."""


def main() -> None:
    """Run the program."""
    browser = browser_here()
    try:
        browser.set_window_size(*SIZE)
        height = browser.execute_script("return window.innerHeight")
        browser.set_window_size(SIZE[0], 2 * SIZE[1] - height)
        browser.get(REPORT.as_uri())
        seen(browser, "//*[text()='Workflow']")
        seen(browser, "//*[contains(@class, 'prose')]//*[name()='svg']")
        browser.save_screenshot(str(PICTURE))
    finally:
        browser.quit()
    Image.open(PICTURE).convert("RGB").quantize(COLOURS).save(PICTURE, optimize=True)


if __name__ == "__main__":
    main()

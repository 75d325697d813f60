"""How long the page takes in a real Chromium, with 16 and with 200 trials: `python3 -m tests.benchmark_viewer`.

Opening is from the navigation to the end of the page's script and its first layout; filtering is to the new list.
"""

from __future__ import annotations

import os
import tempfile
import time

from tests.browser import Browser
from tests.test_viewer import filled, many, published

LAID_OUT = "document.body.offsetHeight"


def main() -> None:
    browser = Browser()
    try:
        with tempfile.TemporaryDirectory() as folder:
            for name, document in (("published, 16 trials", published()), ("200 trials", many(200))):
                path = os.path.join(folder, "page.html")
                with open(path, "w", encoding="utf-8") as file:
                    size = file.write(filled(document))
                browser.look()
                opened = measured(browser, f"file://{path}")
                filtered = measured(browser, "#overview?outcome=fail")
                print(f"{name}: {size:,} characters, opens in {opened:.0f} ms, filters in {filtered:.0f} ms")
    finally:
        browser.close()


def measured(browser: Browser, to: str) -> float:
    """Milliseconds until the address is shown and laid out."""
    start = time.perf_counter()
    if to.startswith("#"):
        browser.go(to)
    else:
        browser.open(to)
    browser.run(LAID_OUT)
    return (time.perf_counter() - start) * 1000


if __name__ == "__main__":
    main()

"""The top of a report as a picture: python docs/figures/report.py runs/compare/report.html docs/figures/report.png"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))
from support.browser import BROWSER, Browser

assert BROWSER, "install chromium, or name a browser in DSGT_BROWSER"
page, picture = map(Path, sys.argv[1:])
browser = Browser(BROWSER)
browser.send("Emulation.setScrollbarsHidden", hidden=True)
browser.open(page, width=1100, height=1360)
browser.screenshot(picture)
browser.close()

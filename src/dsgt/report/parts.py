"""The parts of the pages: templates, scripts, and a policy that lets these scripts run and no other."""

from __future__ import annotations

import base64
import hashlib
from importlib.resources import files

from dsgt.extras import explained

with explained():
    from jinja2 import Environment, PackageLoader, StrictUndefined, Template
    from plotly.offline import get_plotlyjs


def template(name: str) -> Template:
    environment = Environment(
        loader=PackageLoader("dsgt.report", "assets"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    # An infinite number is no JSON: better an error here than a page that does not open.
    environment.policies["json.dumps_kwargs"] = {"allow_nan": False, "separators": (",", ":")}
    return environment.get_template(name)


def asset(name: str) -> str:
    return files("dsgt.report").joinpath("assets", name).read_text(encoding="utf-8")


def scripts(own: str) -> list[str]:
    """Plotly, and the page's own with what the pages have in common."""
    return [get_plotlyjs(), asset("figures.js") + asset(own)]


def policy(texts: list[str]) -> str:
    """A content security policy: these scripts run and no other, and nothing is fetched."""
    hashes = (base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in texts)
    allowed = " ".join(f"'sha256-{value}'" for value in hashes)
    return f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; img-src data: blob:"

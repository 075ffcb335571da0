"""One self-contained page: data, style and script in it, nothing fetched, and a policy that says so.

Conversation text can never run: the data stands in a JSON block whose angle brackets are escaped, the script
sets it as text only, and the policy lets exactly the page's own two scripts run, by their hashes. One of them
is plotly.js, taken from the installed package `plotly` when the page is made.
"""

import base64
import hashlib
import json
from importlib.resources import files
from typing import Any, Final

from plotly.offline import get_plotlyjs

from sandbox_judge.canonical import sanitised

_ASSETS: Final = ("page.html", "page.css", "page.js")


def _assets() -> dict[str, str]:
    place = files("sandbox_judge.store") / "page"
    return {name: (place / name).read_text("utf-8") for name in _ASSETS} | {"chart.js": _chart_library()}


def _chart_library() -> str:
    """plotly.js as a script element may hold it: nothing in it can end the element or open a comment."""
    source = str(get_plotlyjs())
    # Inside a string or a regular expression, the only places of such text, the escape means the same.
    return source.replace("</script", "<\\/script").replace("<!--", "<\\!--")


def _source(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def policy(assets: dict[str, str]) -> str:
    """The content security policy of the page."""
    scripts = " ".join(_source(assets[name]) for name in ("chart.js", "page.js"))
    # The chart library makes an empty style element and adds its rules to it one by one: the empty text is
    # let through too.
    styles = " ".join(_source(text) for text in (assets["page.css"], ""))
    return (
        f"default-src 'none'; script-src {scripts}; style-src {styles}; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


def data_block(data: Any) -> str:
    """JSON that may stand in a script element: nothing in it can end the element or begin a comment."""
    text = json.dumps(sanitised(data), ensure_ascii=True, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def html(data: Any) -> bytes:
    """The page as UTF-8."""
    assets = _assets()
    parts = {
        "csp": policy(assets),
        "page_css": assets["page.css"],
        "chart_js": assets["chart.js"],
        "page_js": assets["page.js"],
        "data": data_block(data),
    }
    # Not str.format: the scripts are full of braces. Each place is filled once, from the template's own text.
    page, rest = "", assets["page.html"]
    while "{" in rest:
        before, _, after = rest.partition("{")
        name, _, rest = after.partition("}")
        page += before + parts[name]
    return (page + rest).encode()

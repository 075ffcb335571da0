"""Where a request goes: origins out of URLs, and the proxy that the environment names for one. Pure."""

import base64
import ipaddress
from collections.abc import Mapping
from typing import Final, Literal
from urllib.parse import SplitResult, unquote, urlsplit

import msgspec

Trouble = Literal["timeout", "connection", "bad_reply", "redirect", "unusable"]
_PORTS: Final = {"http": 80, "https": 443}


class HttpFailure(Exception):
    """An exchange that gave no response.

    `connection`: name, connect, TLS, proxy, or cut off. `bad_reply`: not HTTP, too big, or a coding that was
    not asked for. `redirect`: to where no key may go. `unusable`: the URL or the proxy setting itself.
    """

    def __init__(self, trouble: Trouble, message: str) -> None:
        super().__init__(message)
        self.trouble: Trouble = trouble
        self.message = message


class Origin(msgspec.Struct, frozen=True):
    scheme: str
    host: str
    port: int

    @property
    def authority(self) -> str:
        """As a `Host` header has it: the port only where it is not the scheme's own."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if _PORTS.get(self.scheme) == self.port else f"{host}:{self.port}"

    @property
    def host_and_port(self) -> str:
        """As CONNECT wants it: always with the port."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    def __str__(self) -> str:
        return f"{self.scheme}://{self.authority}"


class Proxy(msgspec.Struct, frozen=True):
    origin: Origin
    authorization: str | None = None

    def __repr__(self) -> str:
        return f"Proxy({self.origin})"


def _split(url: str, what: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        parts.port  # noqa: B018  # raises for a port out of range
    except ValueError as error:
        raise HttpFailure("unusable", f"{what} cannot be read: {error}") from error
    if parts.scheme not in _PORTS or not parts.hostname:
        raise HttpFailure("unusable", f"{what} is not an http or https URL with a host")
    return parts


def _origin(parts: SplitResult, what: str) -> Origin:
    host = parts.hostname or ""
    if not host.isascii():
        try:
            host = host.encode("idna").decode("ascii")
        except UnicodeError as error:
            raise HttpFailure("unusable", f"{what} has a host name that cannot be resolved") from error
    port = parts.port
    return Origin(parts.scheme, host, _PORTS[parts.scheme] if port is None else port)


def origin_and_target(url: str) -> tuple[Origin, str]:
    """The origin of `url` and the request target on it. Raises HttpFailure (`unusable`)."""
    parts = _split(url, "the endpoint's URL")
    target = parts.path or "/"
    if parts.query:
        target += f"?{parts.query}"
    if not target.isascii() or any(c <= " " or c == "\x7f" for c in target):
        raise HttpFailure("unusable", "the endpoint's URL has a path with blanks or non-ASCII characters")
    return _origin(parts, "the endpoint's URL"), target


def proxy_for(origin: Origin, environ: Mapping[str, str]) -> Proxy | None:
    """The proxy for `origin` as curl and Python's own clients read the environment, lower case first.

    Raises HttpFailure (`unusable`) for a proxy that is not http or https (SOCKS).
    """
    if _bypassed(origin, environ.get("no_proxy") or environ.get("NO_PROXY") or ""):
        return None
    names = [f"{origin.scheme}_proxy", f"{origin.scheme.upper()}_PROXY", "all_proxy", "ALL_PROXY"]
    if "REQUEST_METHOD" in environ:
        names.remove(f"{origin.scheme.upper()}_PROXY")  # a CGI client can set HTTP_PROXY: "httpoxy"
    for name in names:
        value = environ.get(name, "").strip()
        if value:
            return _proxy(value, name)
    return None


def _proxy(value: str, name: str) -> Proxy:
    parts = _split(value if "://" in value else f"http://{value}", f"the proxy in {name}")
    authorization = None
    if parts.username is not None:
        pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        authorization = "Basic " + base64.b64encode(pair.encode("utf-8", "replace")).decode("ascii")
    return Proxy(_origin(parts, f"the proxy in {name}"), authorization)


def _bypassed(origin: Origin, no_proxy: str) -> bool:
    return any(_covers(entry.strip().lower(), origin) for entry in no_proxy.split(","))


def _covers(entry: str, origin: Origin) -> bool:
    """Does this entry of NO_PROXY name `origin`: `*`, a host, domain, address or network, maybe a port."""
    if not entry:
        return False
    if entry == "*":
        return True
    host, colon, port = entry.rpartition(":")
    if colon and port.isdigit() and (":" not in host or host.endswith("]")):
        if int(port) != origin.port:
            return False
        entry = host
    entry = entry.strip("[]").removeprefix("*")
    try:
        return ipaddress.ip_address(origin.host) in ipaddress.ip_network(entry, strict=False)
    except ValueError:
        domain = entry.lstrip(".")
        return bool(domain) and (origin.host == domain or origin.host.endswith(f".{domain}"))

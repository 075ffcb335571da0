"""Whether `llm.local.base_url` is an address that the recipe format takes. A leaf.

The format reads it as the WHATWG URL standard says (its checker uses Rust's `url` crate), so this does too,
as far as that decides: http or https, a host, no credentials, no query, no fragment; https unless the host is
this machine. Python's `urllib.parse` takes and refuses other addresses.
"""

import re
import socket
from typing import Final
from urllib.parse import unquote_to_bytes

_SCHEME: Final = re.compile(r"(https?):(.*)", re.IGNORECASE | re.DOTALL | re.ASCII)
_EDGES: Final = "".join(map(chr, range(0x21)))
_REMOVED: Final = str.maketrans("", "", "\t\n\r")
_FORBIDDEN_HOST: Final = re.compile(r"[\x00-\x20#%/:<>?@\[\\\]^|\x7f]")
_LABEL_DOTS: Final = re.compile("[.\u3002\uff0e\uff61]")
_JOINERS: Final = ("\u200c", "\u200d")
_NUMBER: Final = re.compile(r"0[xX][0-9a-fA-F]*|[0-9]+", re.ASCII)
_LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1"})


def fault_of(raw: str) -> str | None:
    """Why `raw` may not be a local endpoint's base URL, or None where it may."""
    found = _SCHEME.fullmatch(raw.strip(_EDGES).translate(_REMOVED))
    if not found:
        return "it must start with http:// or https://"
    rest = found.group(2).replace("\\", "/").lstrip("/")
    if "#" in rest:
        return "it must have no fragment (#...)"
    if "?" in rest:
        return "it must have no query (?...)"
    authority = rest.partition("/")[0]
    credentials, at, place = authority.rpartition("@")
    if at and credentials not in ("", ":"):
        return "it must have no user name or password: the key comes from api_key_env"
    if at and not place:
        return "it has no host"
    host = _host(place)
    if host is None:
        return "it has no valid host and port"
    if found.group(1).lower() == "http" and host not in _LOOPBACK:
        return "it must use https: http is for localhost, 127.0.0.1 and [::1] alone"
    return None


def _host(place: str) -> str | None:
    """The normalised host of `host[:port]`, or None where the standard has none."""
    if place.startswith("["):
        inner, bracket, after = place[1:].partition("]")
        if not bracket or not _is_port(after):
            return None
        return _ipv6(inner)
    name, colon, port = place.partition(":")
    if not name or not _is_port(colon + port):
        return None
    return _name(name)


def _is_port(text: str) -> bool:
    if text in ("", ":"):
        return True
    digits = text[1:]
    return text[0] == ":" and digits.isascii() and digits.isdigit() and int(digits[-6:]) < 65_536 and (
        len(digits.lstrip("0")) <= 5
    )  # fmt: skip


def _ipv6(text: str) -> str | None:
    try:
        return socket.inet_ntop(socket.AF_INET6, socket.inet_pton(socket.AF_INET6, text))
    except (OSError, ValueError):
        return None


def _name(raw: str) -> str | None:
    """A domain in lower-case ASCII, or an IPv4 address in its usual form."""
    try:
        name = unquote_to_bytes(raw).decode("utf-8")
    except UnicodeDecodeError:
        return None
    labels = []
    for label in _LABEL_DOTS.split(name):
        encoded = _label(label)
        if encoded is None:
            return None
        labels.append(encoded)
    name = ".".join(labels)
    if not name or _FORBIDDEN_HOST.search(name):
        return None
    if labels[-1] == "" and len(labels) > 1:
        labels.pop()
    if labels[-1].isdigit() or _NUMBER.fullmatch(labels[-1]):
        return _ipv4(labels)
    return name


def _label(label: str) -> str | None:
    """One part of a domain in lower-case ASCII, or None where it has no such form."""
    if any(joiner in label for joiner in _JOINERS):
        return None
    try:
        encoded = label.encode("idna").decode("ascii") if not label.isascii() else label.lower()
        if encoded.startswith("xn--"):
            decoded = encoded.encode("ascii").decode("idna")
            if (
                decoded.isascii()
                or not decoded.isprintable()
                or decoded.encode("idna").decode("ascii") != encoded
            ):
                return None
    except UnicodeError:
        return None
    return encoded


def _ipv4(parts: list[str]) -> str | None:
    """`127.1`, `0x7f.0.0.1` and `2130706433` are addresses too."""
    if len(parts) > 4:
        return None
    numbers = []
    for part in parts:
        if not _NUMBER.fullmatch(part) or len(part) > 40:
            return None
        try:
            if part[:2] in ("0x", "0X"):
                numbers.append(int(part[2:] or "0", 16))
            else:
                numbers.append(int(part, 8 if len(part) > 1 and part[0] == "0" else 10))
        except ValueError:
            return None
    *first, last = numbers
    if any(n > 255 for n in first) or last >= 256 ** (5 - len(numbers)):
        return None
    value = last + sum(n << (8 * (3 - i)) for i, n in enumerate(first))
    return ".".join(str(value >> shift & 255) for shift in (24, 16, 8, 0))

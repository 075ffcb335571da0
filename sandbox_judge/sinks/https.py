"""Events to an HTTP collector: POST of NDJSON, one or several lines a request (design, section 11).

The address may name the variable that holds a bearer token: `https://host/path#token_env=NAME`. The token
itself, like user names and queries (which often hold keys), has no place in an address: addresses are written
to the spool, shown, and logged. 2xx is taken. What the collector refuses (4xx, redirects) stays in the spool
with its answer; 408, 425, 429 and 5xx may pass.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Final
from urllib.parse import urlsplit

import anyio

from sandbox_judge.errors import DeliveryError, SettingsError
from sandbox_judge.lanes.address import HttpFailure
from sandbox_judge.lanes.http import HttpClient, Response
from sandbox_judge.masking import mask
from sandbox_judge.sinks.base import Line, SinkRefused, Taken

_LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1"})
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_TOKEN: Final = re.compile(r"[\x21-\x7e]+")
_MAY_PASS: Final = frozenset({408, 425, 429})
# Refusals that another line might not meet: then each line of the request is asked for by itself.
_OF_ONE_LINE: Final = frozenset({400, 413, 422})
_REQUEST_S: Final = 10.0
_SHOWN: Final = 200


class HttpsSink:
    """`address` as the user wrote it. Raises SettingsError for one that is unsafe or names no token."""

    spooled = True
    takes_ledger = True

    def __init__(self, address: str, *, environ: Mapping[str, str]) -> None:
        self._url, self._variable = _parsed(address)
        self.name = self._url + (f"#token_env={self._variable}" if self._variable else "")
        self._environ = environ
        self._client: HttpClient | None = None
        self._token()

    async def send(self, lines: Sequence[Line], *, deadline: float, taken: Taken) -> None:
        response = await self._posted(lines, deadline)
        if 200 <= response.status < 300:
            for line in lines:
                taken(line.event_id)
            return
        if response.status in _OF_ONE_LINE and len(lines) > 1:
            await self._each(lines, deadline=deadline, taken=taken)
            return
        text = f"the collector answered {response.status}{self._shown(response)}."
        if response.status in _MAY_PASS or response.status >= 500:
            raise DeliveryError(text, where=self.name)
        raise SinkRefused(text, where=self.name)

    async def finish(self, *, deadline: float, taken: Taken) -> None:
        """Every request was settled by its answer."""

    async def aclose(self) -> None:
        if self._client is not None:
            await self._client.aclose()
        self._client = None

    async def _each(self, lines: Sequence[Line], *, deadline: float, taken: Taken) -> None:
        refusal: SinkRefused | None = None
        for line in lines:
            try:
                await self.send([line], deadline=deadline, taken=taken)
            except SinkRefused as error:
                refusal = error
        if refusal is not None:
            raise refusal

    async def _posted(self, lines: Sequence[Line], deadline: float) -> Response:
        headers = {"Content-Type": "application/x-ndjson"}
        token = self._token()
        if token:
            headers["Authorization"] = f"Bearer {token}"
        self._client = self._client or HttpClient(self._environ)
        try:
            return await self._client.post(
                self._url,
                headers=headers,
                content=b"".join(line.data + b"\n" for line in lines),
                deadline=min(deadline, anyio.current_time() + _REQUEST_S),
            )
        except HttpFailure as error:
            text = mask(f"{error.message}.", [token] if token else ())
            kind = SinkRefused if error.trouble in ("redirect", "unusable") else DeliveryError
            raise kind(text, where=self.name) from error

    def _token(self) -> str:
        """Read at each request: tokens are renewed while we run. Raises SettingsError."""
        if not self._variable:
            return ""
        token = self._environ.get(self._variable, "").strip()
        if _TOKEN.fullmatch(token):
            return token
        what = "holds characters that no token has" if token else "is not set"
        raise SettingsError(
            f"the environment variable {self._variable}, which is to hold its bearer token, {what}.",
            where=self.name,
            remedy="Set it, or leave #token_env out of the address.",
        )

    def _shown(self, response: Response) -> str:
        """The start of an error's body, without our token, should the collector echo it."""
        token = self._token()
        text = " ".join(response.body[: 4 * _SHOWN].decode("utf-8", "replace").split())
        text = mask(text, [token] if token else ())[:_SHOWN]
        return f": {text}" if text else ""


def _parsed(address: str) -> tuple[str, str]:
    """(URL without fragment, name of the token's variable or ""). Messages never show the address itself."""
    try:
        parts = urlsplit(address)
        host, port = parts.hostname or "", parts.port
    except ValueError as error:
        raise _bad("the URL cannot be read.") from error
    if not host or not address.isascii() or not address.isprintable() or " " in address:
        raise _bad("the URL has no host, or characters that must be percent-encoded.")
    if parts.username is not None or parts.password is not None or "?" in address.partition("#")[0]:
        raise _bad("the URL has a user name, password or query, which would be written to spool and logs.")
    if parts.scheme == "http" and host not in _LOOPBACK:
        raise _bad("plain http is for loopback hosts only.")
    key, _, variable = parts.fragment.partition("=")
    if parts.fragment and (key != "token_env" or not _VARIABLE.fullmatch(variable)):
        raise _bad("after # only token_env=NAME may stand, with the NAME of an environment variable.")
    authority = f"[{host}]" if ":" in host else host
    if port is not None:
        authority += f":{port}"
    return f"{parts.scheme}://{authority}{parts.path or '/'}", variable


def _bad(message: str) -> SettingsError:
    return SettingsError(
        message, where="an https: sink", remedy="Write https://host/path#token_env=NAME_OF_A_VARIABLE."
    )

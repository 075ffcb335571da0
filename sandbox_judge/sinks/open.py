"""Addresses of sinks, as users write them, to sinks."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from sandbox_judge.canonical import without_surrogates
from sandbox_judge.errors import SettingsError, UsageError
from sandbox_judge.sinks.base import Sink
from sandbox_judge.sinks.file import FileSink
from sandbox_judge.sinks.stdout import StdoutSink
from sandbox_judge.sinks.unix import UnixSink

KNOWN: Final = "stdout, file:PATH, unix:PATH, unix+ack:PATH, https://HOST/PATH and otlp:URL"
_WITHOUT_SPOOL: Final = frozenset({"stdout", "file"})


def open_sinks(
    addresses: Sequence[str],
    *,
    environ: Mapping[str, str],
    cwd: Path,
    stdout: int | None = 1,
    dry_run: bool = False,
) -> list[Sink]:
    """The sinks at `addresses`, each once, in their order; nothing is connected yet, but files are tried.

    `stdout` is the descriptor for events (None: it was closed at start). A dry run goes to stdout or a file
    only (design, section 4). Raises UsageError, SettingsError and MissingExtra.
    """
    sinks: dict[str, Sink] = {}
    for address in addresses:
        scheme = address.partition(":")[0]
        if dry_run and scheme not in _WITHOUT_SPOOL and scheme in _SCHEMES:
            raise UsageError(
                f"a dry run cannot send events to a {scheme}: sink.",
                where="--sink",
                remedy="Use stdout or file:PATH, or leave out what makes it a dry run.",
            )
        sink = _opened(scheme, address, environ=environ, cwd=cwd, stdout=stdout)
        sinks.setdefault(sink.name, sink)
    return list(sinks.values())


_SCHEMES: Final = frozenset({"stdout", "file", "unix", "unix+ack", "https", "http", "otlp"})


def _opened(scheme: str, address: str, *, environ: Mapping[str, str], cwd: Path, stdout: int | None) -> Sink:
    if address == "stdout":
        return StdoutSink(stdout)
    if scheme == "file":
        file = FileSink(_path(address, cwd))
        file.probe()
        return file
    if scheme in ("unix", "unix+ack"):
        return UnixSink(_path(address, cwd), acks=scheme == "unix+ack")
    if scheme in ("https", "http"):
        # An HTTP client is loaded only where one is asked for: most hooks write to stdout or a socket.
        from sandbox_judge.sinks.https import HttpsSink  # noqa: PLC0415

        return HttpsSink(address, environ=environ)
    if scheme == "otlp":
        # OpenTelemetry's SDK: an optional install, and a second to import.
        from sandbox_judge.sinks.otlp import OtlpSink  # noqa: PLC0415

        return OtlpSink(address)
    # What follows an unknown scheme may be a URL with a password: it is not shown.
    raise UsageError(
        f"{scheme[:40]!r} is no kind of sink.", where="--sink", remedy=f"The known ones are {KNOWN}."
    )


def _path(address: str, cwd: Path) -> Path:
    """Absolute, so that `flush` finds it from anywhere; links in it are left as they are."""
    text = address.partition(":")[2]
    if not text or "\0" in text:
        raise SettingsError("no path.", where=address[:40], remedy="Write file:PATH or unix:PATH.")
    if without_surrogates(text) != text:  # the spool keeps addresses as JSON
        raise SettingsError("the path is not UTF-8.", where=address[:40], remedy="Give it another name.")
    return cwd / Path(text)

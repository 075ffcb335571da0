"""Logging: structlog, to stderr only. The one module that imports structlog.

stdout is a contract (events only), and structlog writes there unless told otherwise. Nothing is configured
globally: a host that imports the package keeps its own logging.
"""

import sys
from collections.abc import Mapping, MutableMapping
from typing import Any, Literal, TextIO

from sandbox_judge.terminal import escaped

LogFormat = Literal["text", "json"]
_LEVELS = {"debug": 10, "info": 20, "warning": 30, "error": 40}


class Log:
    """What the program has to say to its operator. `verbosity`: -1 errors, 0 warnings, 1 info, 2 debug."""

    def __init__(
        self, stream: TextIO | None = None, *, format: LogFormat = "text", verbosity: int = 0
    ) -> None:
        self.quiet = verbosity < 0
        self._level = {-1: 40, 0: 30, 1: 20}.get(max(-1, verbosity), 10)
        self._stream = stream
        self._format = format
        self._logger: Any = None

    def debug(self, event: str, **fields: Any) -> None:
        self._say("debug", event, fields)

    def info(self, event: str, **fields: Any) -> None:
        self._say("info", event, fields)

    def warning(self, event: str, **fields: Any) -> None:
        self._say("warning", event, fields)

    def error(self, event: str, **fields: Any) -> None:
        self._say("error", event, fields)

    def _say(self, level: str, event: str, fields: Mapping[str, Any]) -> None:
        if _LEVELS[level] < self._level:
            return
        # A log that cannot be written (stderr closed, disk full) must never cost a judgement.
        try:
            self._logger = self._logger or self._made()
            getattr(self._logger, level)(event, **fields)
        except (OSError, ValueError):
            return

    def _made(self) -> Any:
        # 40 ms to import: most hooks have nothing to say.
        import structlog

        ending: list[Any] = [_plain]
        if self._format == "json":
            ending = [
                structlog.processors.TimeStamper(fmt="iso", utc=True),
                structlog.processors.JSONRenderer(sort_keys=True),
            ]
        return structlog.wrap_logger(
            structlog.WriteLogger(self._stream if self._stream is not None else sys.stderr),
            processors=[structlog.processors.add_log_level, *ending],
            wrapper_class=structlog.make_filtering_bound_logger(self._level),
            context_class=dict,
            cache_logger_on_first_use=False,
        )


def _plain(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> str:
    level = event.pop("level")
    text = escaped(str(event.pop("event")))
    fields = "".join(f" {key}={escaped(str(value))}" for key, value in event.items())
    return f"sandbox-judge: {level}: {text}{fields}"

"""The command line of the thin client: which arguments a request carries, which are for the one-shot run.

Read by hand, not by argparse, and with the standard library alone: importing argparse takes as long as the
rest of the client.
"""

import json
import math
import os

# Flags that a request may carry, and where in its header.
_CARRIED = {
    "--conversation-id": ("conversation_id",),
    "--status": ("status",),
    "--environment": ("environment",),
    "--service": ("service_name",),
    "--runtime-id": ("runtime_id",),
    "--runtime-group-id": ("runtime_group_id",),
    "--trace-id": ("trace_id",),
    "--span-id": ("span_id",),
    "--experiment-id": ("experiment", "id"),
    "--experiment-arm-id": ("experiment", "arm_id"),
    "--commit": ("recipe", "commit"),
}
# Flags of `run` that the server has fixed: they are for the one-shot run alone. True: a value follows.
_FIXED = {
    "--recipe": True,
    "--recipe-id": True,
    "--settings": True,
    "--sink": True,
    "--concurrency": True,
    "--log-format": True,
    "--insecure": False,
    "-v": False,
    "-vv": False,
    "--verbose": False,
}


class Fault(Exception):
    """What ends the call: a message and an exit code."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code


class Options:
    """The command line, taken apart. `alone`: an option that only a run of one's own can serve."""

    def __init__(self, argv: list[str], environ: dict[str, str]) -> None:
        self.path: str | None = None
        self.file: str | None = None
        self.ping = self.no_fallback = self.exit_zero = self.quiet = self.help = False
        self.report = False
        self.report_file: str | None = None
        self.fail_on: str | None = None
        self.budget_s: float | None = None
        if environ.get("SANDBOX_JUDGE_BUDGET"):
            self.budget_s = seconds(environ["SANDBOX_JUDGE_BUDGET"])
        self.alone: str | None = None
        self.header: dict[str, object] = {}
        self.run: list[str] = []
        uid = environ.get("SANDBOX_JUDGE_SERVER_UID", "")
        self.uids = {os.geteuid(), 0, *([int(uid)] if uid.isdecimal() else [])}
        self._variables(environ)
        words = list(argv)
        while words:
            self._take(words.pop(0), words)

    def _take(self, word: str, rest: list[str]) -> None:
        name, equals, value = word.partition("=") if word.startswith("--") else (word, "", "")
        if word == "-" or not word.startswith("-"):
            self._positional(word)
        elif name in ("--ping", "--no-fallback", "-h", "--help"):
            attribute = {"-h": "help"}.get(name, name.lstrip("-").replace("-", "_"))
            setattr(self, attribute, True)
        elif name == "--server-uid":
            self.uids.add(_number(self._value(name, equals, value, rest), name))
        elif name in ("--exit-zero", "-q", "--quiet"):
            self.exit_zero |= name == "--exit-zero"
            self.quiet |= name != "--exit-zero"
            self.run.append(word)
        elif name in ("--budget", "--report", "--report-file", "--fail-on", "--feedback", *_CARRIED):
            value = self._value(name, equals, value, rest)
            self.run += [name, value]
            self._carry(name, value)
        elif name in _FIXED:
            self.run.append(name)
            if _FIXED[name]:
                self.run.append(self._value(name, equals, value, rest))
        else:
            self.alone = self.alone or word
            self.run += [word, *rest]
            rest.clear()

    def _positional(self, word: str) -> None:
        if self.path is None:
            self.path = word
        elif self.file is None:
            self.file = word
        else:
            raise Fault(f"{word!r} is one argument too many.", 2)

    def _carry(self, name: str, value: str) -> None:
        if name == "--budget":
            self.budget_s = seconds(value)
        elif name == "--report":
            self.report = value == "json"
        elif name == "--report-file":
            self.report_file = value
        elif name == "--fail-on":
            self.fail_on = value
        elif name == "--feedback":
            self._set(("feedback",), [*_list(self.header.get("feedback")), *_feedback(value)])
        else:
            self._set(_CARRIED[name], value)

    def _variables(self, environ: dict[str, str]) -> None:
        for flag, keys in _CARRIED.items():
            name = {"--service": "SERVICE_NAME"}.get(flag, flag[2:].replace("-", "_").upper())
            if environ.get(f"SANDBOX_JUDGE_{name}"):
                self._set(keys, environ[f"SANDBOX_JUDGE_{name}"])

    def _set(self, keys: tuple[str, ...], value: object) -> None:
        if len(keys) == 1:
            self.header[keys[0]] = value
        else:
            inner = self.header.setdefault(keys[0], {})
            assert isinstance(inner, dict), "only experiment and recipe are nested"
            inner[keys[1]] = value

    def _value(self, name: str, equals: str, value: str, rest: list[str]) -> str:
        if equals:
            return value
        if not rest:
            raise Fault(f"{name} needs a value.", 2)
        return rest.pop(0)


def seconds(text: str) -> float:
    units = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
    text = text.strip().lower()
    unit = next((unit for unit in units if text.endswith(unit)), "")
    try:
        seconds = float(text.removesuffix(unit)) * units.get(unit, 1.0)
    except ValueError:
        seconds = math.nan
    if not math.isfinite(seconds):
        raise Fault(f"--budget: {text!r} is not a duration. Write 1500ms, 40s, 2m or a number of seconds.", 2)
    return seconds


def _number(text: str, name: str) -> int:
    if not text.isdecimal():
        raise Fault(f"{name}: {text!r} is no user id.", 2)
    return int(text)


def _feedback(text: str) -> list[object]:
    try:
        if text.startswith("@"):
            with open(text[1:], "rb") as file:
                value = json.load(file)
        else:
            value = json.loads(text)
    except (OSError, ValueError, RecursionError) as error:
        raise Fault(f"--feedback is not JSON: {error}.", 2) from None
    return value if isinstance(value, list) else [value]


def _list(value: object) -> list[object]:
    return value if isinstance(value, list) else []

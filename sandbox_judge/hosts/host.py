"""What a host is to us: names, units, limits, the form of its answer, where its transcripts lie. Pure values.

Plain classes, not structs: a hook reads one of these tables at the end of every turn, and importing msgspec
or dataclasses for it takes longer than all else that it does.
"""

from importlib import import_module

SESSION_END = "session-end"
IDLE = "idle"
TURN = "turn"
WHENS = (SESSION_END, IDLE, TURN)

# The shims that there are; each is one module of this package, with underscores for hyphens.
NAMES = (
    "claude-code",
    "codex",
    "codex-notify",
    "gemini-cli",
    "copilot",
    "cursor",
    "openhands",
    "goose",
    "cline",
    "opencode",
    "pi",
)


# What in-process integrations spool under (`sandbox_judge.integrations`).
IN_PROCESS = "in-process"


class Wiring:
    """Where a host is told of us. `user` and `project` are paths below the home and below the project; None:
    the host has no such place. `kind` names the shape (`sandbox_judge.hosts.shapes`); `events` are the events
    to ask for, by when a session is judged; `a_second` is how the host counts its timeouts."""

    def __init__(
        self,
        *,
        kind: str,
        user: str | None,
        project: str | None,
        events: dict[str, tuple[str, ...]] | None = None,
        a_second: int = 1,
        home_variable: str | None = None,
        note: str = "",
    ) -> None:
        self.kind, self.user, self.project = kind, user, project
        self.events, self.a_second = events or {}, a_second
        self.home_variable, self.note = home_variable, note


class Host:
    """One host. `ends` and `turns`: its events, as it names them, for a session's and a turn's end; `failed`
    those of them that tell of a failure. `limits`: seconds that it waits, by event, `""` for all others.
    `answer`: what it takes for "nothing to say". `transcripts`: patterns below the home; `{session}` is the
    session's id. `job_host`: the name under which double fires of two shims meet."""

    def __init__(
        self,
        name: str,
        *,
        versions: str,
        ends: tuple[str, ...] = (),
        turns: tuple[str, ...] = (),
        failed: tuple[str, ...] = (),
        limits: dict[str, float] | None = None,
        answer: bytes = b"",
        transcripts: tuple[str, ...] = (),
        argument: bool = False,
        when: str = SESSION_END,
        job_host: str = "",
        wiring: Wiring | None = None,
    ) -> None:
        self.name, self.versions = name, versions
        self.ends, self.turns, self.failed = ends, turns, failed
        self.limits = limits or {}
        self.answer, self.transcripts, self.argument = answer, transcripts, argument
        self.when, self.job_host, self.wiring = when, job_host or name, wiring

    def is_end(self, event: str) -> bool:
        return _plain(event) in map(_plain, self.ends)

    def is_turn(self, event: str) -> bool:
        return _plain(event) in map(_plain, self.turns)

    def is_failure(self, event: str) -> bool:
        return _plain(event) in map(_plain, self.failed)

    def limit_s(self, event: str) -> float:
        """Seconds that the host waits for this event's hook."""
        for name, seconds in self.limits.items():
            if name and _plain(name) == _plain(event):
                return seconds
        return self.limits.get("", 30.0)


def by_when(end: str, turn: str) -> dict[str, tuple[str, ...]]:
    """The events to ask for of a host that tells of both ends."""
    return {SESSION_END: (end,), TURN: (turn,), IDLE: (turn, end)}


def host_named(name: str) -> Host:
    """The table of one host. Raises KeyError for a name that is none."""
    if name not in NAMES and name != IN_PROCESS:
        raise KeyError(name)
    found = import_module(f"sandbox_judge.hosts.{name.replace('-', '_')}").HOST
    assert isinstance(found, Host), name
    return found


def _plain(event: str) -> str:
    """Versions of one host have written `SessionEnd`, `sessionEnd` and `session_end`."""
    return event.replace("_", "").replace("-", "").lower()

"""Codex CLI's `notify`: the payload is the last argument, and nobody waits."""

from sandbox_judge.hosts.codex import ROLLOUTS
from sandbox_judge.hosts.host import IDLE, Host, Wiring

HOST = Host(
    "codex-notify",
    versions="Codex CLI 0.20 to 0.146",
    turns=("agent-turn-complete",),
    transcripts=ROLLOUTS,
    argument=True,
    # It never tells of a session's end.
    when=IDLE,
    job_host="codex",
    wiring=Wiring(kind="notify", user=".codex/config.toml", project=None, home_variable="CODEX_HOME"),
)

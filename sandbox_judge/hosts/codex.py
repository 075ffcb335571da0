"""Codex CLI's hooks: `hooks.json`, a rollout as JSON Lines."""

from sandbox_judge.hosts.host import Host, Wiring, by_when

ROLLOUTS = (
    ".codex/sessions/*/*/*/rollout-*{session}.jsonl",
    ".codex/archived_sessions/rollout-*{session}.jsonl",
)

HOST = Host(
    "codex",
    versions="Codex CLI 0.114 to 0.146",
    ends=("SessionEnd",),
    turns=("Stop", "StopFailure"),
    failed=("StopFailure",),
    # SessionEnd has 1 s, and never more than 3 whatever its entry says.
    limits={"SessionEnd": 3.0, "": 600.0},
    transcripts=ROLLOUTS,
    wiring=Wiring(
        kind="groups",
        user=".codex/hooks.json",
        project=".codex/hooks.json",
        events=by_when("SessionEnd", "Stop"),
        home_variable="CODEX_HOME",
        note="Codex asks once whether it may trust a new hook: answer it in `/hooks`.",
    ),
)

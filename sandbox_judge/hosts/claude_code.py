"""Claude Code: command hooks of `settings.json`, a session as JSON Lines."""

from sandbox_judge.hosts.host import Host, Wiring

HOST = Host(
    "claude-code",
    versions="Claude Code 2.0 to 2.1",
    ends=("SessionEnd",),
    turns=("Stop", "StopFailure"),
    failed=("StopFailure",),
    # SessionEnd gets 1.5 s unless its entry says otherwise; what is installed says 10.
    limits={"SessionEnd": 10.0, "": 600.0},
    transcripts=(".claude/projects/*/{session}.jsonl",),
    wiring=Wiring(
        kind="groups",
        user=".claude/settings.json",
        project=".claude/settings.json",
        timeout=10,
        home_variable="CLAUDE_CONFIG_DIR",
    ),
)

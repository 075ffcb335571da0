"""Claude Code: command hooks of `settings.json`, a session as JSON Lines."""

from sandbox_judge.hosts.host import Host, Wiring, by_when

HOST = Host(
    "claude-code",
    versions="Claude Code 2.0 to 2.1",
    ends=("SessionEnd",),
    turns=("Stop", "StopFailure"),
    failed=("StopFailure",),
    # SessionEnd gets 1.5 s unless its entry says otherwise; what is installed says 60.
    limits={"SessionEnd": 60.0, "": 600.0},
    transcripts=(".claude/projects/*/{session}.jsonl",),
    wiring=Wiring(
        kind="groups",
        user=".claude/settings.json",
        project=".claude/settings.json",
        events=by_when("SessionEnd", "Stop"),
        home_variable="CLAUDE_CONFIG_DIR",
    ),
)

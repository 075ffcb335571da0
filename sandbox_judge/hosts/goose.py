"""Goose: a plugin directory of our own. `{}` on its stdout is a warning: nothing is said with nothing."""

from sandbox_judge.hosts.host import Host, Wiring, by_when

HOST = Host(
    "goose",
    versions="Goose 1.38 and later (Open Plugins hooks)",
    ends=("SessionEnd",),
    turns=("Stop",),
    limits={"": 30.0},
    # Its sessions lie in SQLite: `sandbox_judge.hosts.goose_store` reads them.
    transcripts=(".local/share/goose/sessions/sessions.db", ".local/share/goose/sessions/{session}.jsonl"),
    wiring=Wiring(
        kind="goose-plugin",
        user=".agents/plugins/sandbox-judge",
        project=".agents/plugins/sandbox-judge",
        events=by_when("SessionEnd", "Stop"),
    ),
)

"""Cursor: `hooks.json`. Its CLI fires only `sessionEnd` in print mode, its cloud agents only `stop`; it also
runs Claude Code's hooks, so that one turn may come twice."""

from sandbox_judge.hosts.host import IDLE, Host, Wiring, by_when

HOST = Host(
    "cursor",
    versions="Cursor 1.7 to 3.7",
    ends=("sessionEnd",),
    turns=("stop",),
    limits={"": 30.0},
    answer=b"{}\n",
    transcripts=(
        ".cursor/projects/*/agent-transcripts/{session}/{session}.jsonl",
        ".cursor/projects/*/agent-transcripts/{session}.jsonl",
    ),
    # Where `sessionEnd` never comes, idleness is the end.
    when=IDLE,
    wiring=Wiring(
        kind="flat",
        user=".cursor/hooks.json",
        project=".cursor/hooks.json",
        events=by_when("sessionEnd", "stop"),
    ),
)

"""GitHub Copilot's CLI and cloud agent: a file of our own among its hook files. Event names in Pascal case
give the snake_case payload."""

from sandbox_judge.hosts.host import IDLE, Host, Wiring, by_when

HOST = Host(
    "copilot",
    versions="Copilot CLI 0.0.420 to 1.0.77",
    ends=("SessionEnd",),
    turns=("Stop", "agentStop"),
    limits={"": 30.0},
    transcripts=(".copilot/session-state/{session}/events.jsonl", ".copilot/session-state/{session}.jsonl"),
    when=IDLE,
    wiring=Wiring(
        kind="copilot-file",
        user=".copilot/hooks/sandbox-judge.json",
        project=".github/hooks/sandbox-judge.json",
        events=by_when("SessionEnd", "Stop"),
        home_variable="COPILOT_HOME",
    ),
)

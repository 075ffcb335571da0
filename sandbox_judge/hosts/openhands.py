"""OpenHands: `.openhands/hooks.json`; its `stop` means that the agent has finished. One file an event."""

from sandbox_judge.hosts.host import WHENS, Host, Wiring

HOST = Host(
    "openhands",
    versions="OpenHands SDK 1.x",
    ends=("stop", "session_end"),
    limits={"": 60.0},
    transcripts=(
        ".openhands/conversations/{session_bare}/events",
        ".openhands/conversations/{session}/events",
        "workspace/conversations/{session_bare}/events",
    ),
    wiring=Wiring(
        kind="openhands",
        user=".openhands/hooks.json",
        project=".openhands/hooks.json",
        events=dict.fromkeys(WHENS, ("Stop",)),
    ),
)

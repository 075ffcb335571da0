"""pi: an extension hands over the path of the session's file."""

from sandbox_judge.hosts.host import Host, Wiring

HOST = Host(
    "pi",
    versions="pi 0.50 and later",
    ends=("session_shutdown",),
    turns=("agent_end",),
    transcripts=(".pi/agent/sessions/*/*_{session}.jsonl",),
    wiring=Wiring(
        kind="pi-extension",
        user=".pi/agent/extensions/sandbox-judge.ts",
        project=".pi/extensions/sandbox-judge.ts",
    ),
)

"""OpenCode: a plugin in JavaScript hands over the session that its client API gives."""

from sandbox_judge.hosts.host import IDLE, Host, Wiring

HOST = Host(
    "opencode",
    versions="OpenCode 1.x",
    turns=("session.idle",),
    # The plugin writes the session's export and names it as the transcript.
    when=IDLE,
    wiring=Wiring(
        kind="opencode-plugin",
        user=".config/opencode/plugins/sandbox-judge.js",
        project=".opencode/plugins/sandbox-judge.js",
    ),
)

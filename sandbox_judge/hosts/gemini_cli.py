"""Gemini CLI: command hooks of `settings.json`, timeouts in milliseconds; anything but `{}` and exit 0 denies
the turn."""

from sandbox_judge.hosts.host import Host, Wiring, by_when

HOST = Host(
    "gemini-cli",
    versions="Gemini CLI 0.26 to 0.40",
    ends=("SessionEnd",),
    turns=("AfterAgent",),
    limits={"": 60.0},
    answer=b"{}\n",
    transcripts=(".gemini/tmp/*/chats/session-*{session_short}*.json*",),
    wiring=Wiring(
        kind="named-groups",
        user=".gemini/settings.json",
        project=".gemini/settings.json",
        events=by_when("SessionEnd", "AfterAgent"),
        a_second=1_000,
        note="Gemini CLI strips variables named like keys in CI: name `api_key_file` in the settings.",
    ),
)

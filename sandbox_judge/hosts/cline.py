"""Cline: one executable file a hook, named after it. Its answer is read as JSON."""

from sandbox_judge.hosts.host import WHENS, Host, Wiring

HOST = Host(
    "cline",
    versions="Cline 3.36 and later, Cline SDK hooks (agent_end)",
    ends=("TaskComplete", "TaskCancel", "TaskError", "agent_end", "agent_error"),
    failed=("TaskError", "agent_error"),
    limits={"": 30.0},
    answer=b"{}\n",
    transcripts=(
        ".cline/data/tasks/{session}/api_conversation_history.json",
        ".config/Code/User/globalStorage/*.claude-dev/tasks/{session}/api_conversation_history.json",
        ".vscode-server/data/User/globalStorage/*.claude-dev/tasks/{session}/api_conversation_history.json",
    ),
    wiring=Wiring(
        kind="cline-files",
        user="Documents/Cline/Hooks",
        project=".clinerules/hooks",
        events=dict.fromkeys(WHENS, ("TaskComplete", "TaskCancel")),
    ),
)

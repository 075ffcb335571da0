"""Plugins of hosts that run JavaScript: loaded by node, fired with their events, with a client of our own."""

import json
import shutil
import subprocess

import pytest

NODE = shutil.which("node")
pytestmark = pytest.mark.skipif(NODE is None, reason="no node here")

OPENCODE = """\
import { SandboxJudge } from %s
const messages = %s
const client = { session: { messages: async ({ path }) => ({ data: messages }) } }
const hooks = await SandboxJudge({ client, directory: "/tmp" })
await hooks.event({ event: { type: "session.updated", properties: {} } })
await hooks.event({ event: { type: "session.idle", properties: { sessionID: "../evil" } } })
await hooks.event({ event: { type: "session.idle", properties: { sessionID: "ses_1" } } })
const broken = await SandboxJudge({ client: {}, directory: "/tmp" })
await broken.event({ event: { type: "session.idle", properties: { sessionID: "ses_2" } } })
"""

PI = """\
import extension from %s
const handlers = {}
extension({ on: (name, handler) => { handlers[name] = handler } })
const sessionManager = { getSessionFile: () => %s, getSessionId: () => "p1" }
await handlers.agent_end({}, { sessionManager, cwd: "/tmp" })
await handlers.session_shutdown({}, { sessionManager, cwd: "/tmp" })
await handlers.session_shutdown({}, {})
"""


def run(stage, script):
    path = stage.folder / "host.mjs"
    path.write_text(script)
    done = subprocess.run(
        [NODE, str(path)], env=stage.environ, cwd=stage.cwd, capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def message(role, text):
    return {"info": {"role": role, "sessionID": "ses_1"}, "parts": [{"type": "text", "text": text}]}


def test_opencodes_plugin_hands_over_what_its_client_gives(stage, model):
    stage.hooks("install", "opencode", "--recipe", stage.recipe, "--when", "turn")
    plugin = stage.folder / "plugin.mjs"  # OpenCode's own runtime takes it as it is
    plugin.write_text((stage.home / ".config/opencode/plugins/sandbox-judge.js").read_text())
    talk = [message("user", "hello"), message("assistant", "hi from opencode")]
    run(stage, OPENCODE % (json.dumps(str(plugin)), json.dumps(talk)))
    (event,) = stage.events()
    assert event["conversation_id"] == "ses_1"
    assert event["payload"]["result"] == "pass"
    assert "hi from opencode" in json.dumps(model.requests[-1].json)


def test_pis_extension_hands_over_the_sessions_file(stage, shared):
    stage.hooks("install", "pi", "--recipe", stage.recipe)
    source = (stage.home / ".pi/agent/extensions/sandbox-judge.ts").read_text()
    plugin = stage.folder / "extension.mjs"
    plugin.write_text(source.replace(": any", ""))  # the types are all that is not JavaScript
    path = stage.transcript(shared / "data/hosts/pi/agent-sessions/small.jsonl", "session.jsonl")
    run(stage, PI % (json.dumps(str(plugin)), json.dumps(str(path))))
    (event,) = stage.events()
    assert event["conversation_id"] == "p1"
    assert event["payload"]["result"] == "pass"

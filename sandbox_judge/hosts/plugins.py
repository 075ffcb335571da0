"""The files that are wholly ours: plugins in JavaScript, and the plugin folder of Goose. Pure text.

Hosts without command hooks load a module. Ours starts the same shim, does not wait for it, and never throws.
"""

import json
import shlex
from typing import Final

from sandbox_judge.hosts.host import Host
from sandbox_judge.version import __version__

_OPENCODE: Final = """\
// Made by `sandbox-judge hooks install opencode`. Written against OpenCode 1.x.
// When a session is idle, its messages go to the judge's shim: a file, whose path the shim is told.
import { spawn } from "node:child_process"
import { mkdirSync, renameSync, writeFileSync } from "node:fs"
import { join } from "node:path"

const SHIM = %(command)s
const FOLDER = %(folder)s

export const SandboxJudge = async ({ client, directory }) => ({
  event: async ({ event }) => {
    try {
      if (event.type !== "session.idle" || process.env.SANDBOX_JUDGE_ACTIVE === "1") return
      const id = event.properties.sessionID
      if (!/^[A-Za-z0-9_-]{1,200}$/.test(id)) return
      const answer = await client.session.messages({ path: { id } })
      mkdirSync(FOLDER, { recursive: true, mode: 0o700 })
      const path = join(FOLDER, `${id}.json`)
      const text = JSON.stringify({ info: { id }, messages: answer.data ?? answer })
      writeFileSync(`${path}.tmp`, text, { mode: 0o600 })
      renameSync(`${path}.tmp`, path)
      hand({ event: "session.idle", session_id: id, transcript_path: path, cwd: directory })
    } catch {
      // A judge that cannot run is no reason to disturb the session.
    }
  },
})

function hand(payload) {
  const child = spawn(SHIM, [], { detached: true, stdio: ["pipe", "ignore", "ignore"] })
  child.on("error", () => {})
  child.stdin.on("error", () => {})
  child.stdin.end(JSON.stringify(payload))
  child.unref()
}
"""

_PI: Final = """\
// Made by `sandbox-judge hooks install pi`. Written against pi 0.50 and later.
// At a session's end (and at each turn's) the path of its file goes to the judge's shim.
import { spawnSync } from "node:child_process"

const SHIM = %(command)s

export default function (pi: any) {
  for (const name of ["session_shutdown", "agent_end"]) {
    pi.on(name, async (_event: any, ctx: any) => {
      try {
        const path = ctx.sessionManager.getSessionFile()
        if (!path || process.env.SANDBOX_JUDGE_ACTIVE === "1") return
        const session_id = ctx.sessionManager.getSessionId?.() ?? ""
        const input = JSON.stringify({ event: name, session_id, transcript_path: path, cwd: ctx.cwd })
        // Waited for, because pi may exit at once; the shim returns in a fraction of a second.
        spawnSync(SHIM, [], { input, stdio: ["pipe", "ignore", "ignore"], timeout: 3000 })
      } catch {
        // A judge that cannot run is no reason to disturb the session.
      }
    })
  }
}
"""


def own_files(host: Host, command: str, when: str, folder: str) -> dict[str, tuple[str, int]]:
    """Paths below the wiring's own path (empty: that path itself) with text and mode. `folder` is where a
    plugin may leave transcripts for us."""
    assert host.wiring is not None, host.name
    kind = host.wiring.kind
    if kind == "opencode-plugin":
        return {"": (_OPENCODE % {"command": json.dumps(command), "folder": json.dumps(folder)}, 0o644)}
    if kind == "pi-extension":
        return {"": (_PI % {"command": json.dumps(command)}, 0o644)}
    if kind == "cline-files":
        script = f"#!/bin/sh\n# Made by `sandbox-judge hooks install cline`.\nexec {shlex.quote(command)}\n"
        return dict.fromkeys(host.wiring.events[when], (script, 493))
    assert kind == "goose-plugin", kind
    manifest = {
        "name": "sandbox-judge",
        "version": __version__,
        "description": "Judges each finished session.",
    }
    hooks = {
        event: [
            {
                "hooks": [
                    {"type": "command", "command": shlex.quote(command), "timeout": int(host.limit_s(event))}
                ]
            }
        ]
        for event in host.wiring.events[when]
    }
    return {
        "plugin.json": (json.dumps(manifest, indent=2) + "\n", 0o644),
        "hooks/hooks.json": (json.dumps({"hooks": hooks}, indent=2) + "\n", 0o644),
    }

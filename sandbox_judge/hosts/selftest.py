"""Does an installed shim work: its host's payload played to it, in a folder of its own. Nothing is judged."""

import json
import os
import subprocess
import tempfile
from collections.abc import Mapping
from typing import Final

from sandbox_judge.hosts.host import SESSION_END, Host

_LONGEST_S: Final = 10.0


def fault_of(host: Host, shim: str, when: str, environ: Mapping[str, str]) -> str:
    """What is wrong with a shim that judges at `when`, an empty text where nothing is."""
    with tempfile.TemporaryDirectory() as folder:
        transcript = os.path.join(folder, "transcript.jsonl")
        with open(transcript, "wb") as file:
            file.write(b"{}\n")
        payload = json.dumps(_payload(host, when, transcript))
        state = os.path.join(folder, "state")
        words = [shim, payload] if host.argument else [shim]
        try:
            done = subprocess.run(
                words,
                input=b"" if host.argument else payload.encode(),
                env={**environ, "SANDBOX_JUDGE_STATE_DIR": state, "SANDBOX_JUDGE_SPOOL_ONLY": "1"},
                capture_output=True,
                timeout=_LONGEST_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return f"it did not return within {_LONGEST_S:.0f} s"
        except OSError as error:
            return f"it cannot be started ({error.strerror})"
        if done.returncode or done.stdout != host.answer or done.stderr:
            return f"it said {done.stdout[:80]!r} and {done.stderr[:80]!r}, exit {done.returncode}"
        jobs = os.path.join(state, "jobs")
        if not (os.path.isdir(jobs) and any(name.endswith(".job") for name in os.listdir(jobs))):
            return f"it spooled no job{_logged(state)}"
    return ""


def _payload(host: Host, when: str, transcript: str) -> dict[str, object]:
    """What the host would say at an event that is judged at `when`."""
    asked = host.wiring.events.get(when, ()) if host.wiring is not None else ()
    events = asked or (host.turns if when != SESSION_END else host.ends) or (*host.ends, *host.turns)
    return {
        "type" if host.argument else "hook_event_name": events[0],
        "session_id": "self-test",
        "turn_id": "1",
        "transcript_path": transcript,
        "last_assistant_message": "self-test",
    }


def _logged(state: str) -> str:
    try:
        with open(os.path.join(state, "hooks.log"), encoding="utf-8", errors="replace") as file:
            return f" ({file.read(300).strip()})"
    except OSError:
        return ", and logged nothing"

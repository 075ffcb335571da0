"""A stage on which a host plays itself: a recipe, a model over HTTP, a home, and the checkout's shims."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from cli.surfaces import run_main
from recipes import committed, judge_text

ROOT = Path(__file__).parent.parent.parent


class Stage:
    """`environ` is the host's own environment; `state` our state folder."""

    def __init__(self, folder: Path, url: str, *, judges: int = 1):
        folder.chmod(0o700)
        self.folder, self.home, self.state = folder, folder / "home", folder / "state"
        self.home.mkdir()
        self.recipe = folder / "recipe"
        self.commit = committed(
            self.recipe, {f"judges/j{n}.yaml": judge_text(f"j{n}") for n in range(judges)}
        )
        key = folder / "key"
        key.write_text("sk-test-0000000000")
        settings = self.home / ".config/sandbox-judge/settings.json"
        settings.parent.mkdir(parents=True)
        # The key stands in a file: hosts strip variables that look like keys.
        openai = {"base_url": url, "api_key_file": str(key)}
        settings.write_text(json.dumps({"providers": {"openai": openai}}))
        self.cwd = folder / "work"
        self.cwd.mkdir()
        self.environ = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.home),
            "SANDBOX_JUDGE_PYTHON": sys.executable,
            "SANDBOX_JUDGE_STATE_DIR": str(self.state),
            "SANDBOX_JUDGE_RECIPE": str(self.recipe),
        }

    def transcript(self, source: Path, below: str) -> Path:
        path = self.home / below
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(source.read_bytes())
        return path

    def fire(self, host, payload=None, *arguments, limit=30.0, close=True, environ=None, shim=None):
        """What a host does: starts the hook in a group of its own, gives the payload, waits until nobody
        holds the pipes any more, and kills the group at the limit. Exit code, stdout, stderr, seconds."""
        data = payload if isinstance(payload, bytes) else json.dumps(payload).encode() if payload else b""
        started = time.monotonic()
        child = subprocess.Popen(
            [str(shim or ROOT / "hooks" / host), *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=self.environ if environ is None else environ,
            cwd=self.cwd,
            start_new_session=True,
        )
        try:
            with contextlib.suppress(BrokenPipeError):
                child.stdin.write(data)
                child.stdin.flush()
                if close:
                    child.stdin.close()
            out, err = child.stdout.read(), child.stderr.read()
            code = child.wait(limit)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
            child.wait()
            for stream in (child.stdin, child.stdout, child.stderr):
                with contextlib.suppress(BrokenPipeError):  # a hook need not read what it is given
                    stream.close()
        return code, out, err, time.monotonic() - started

    def events(self, *, at_least=1, seconds=20.0):
        """The judgements that arrived, once there are `at_least` and no job waits."""
        path = self.state / "judgements.jsonl"
        end = time.monotonic() + seconds
        while True:
            lines = path.read_bytes().splitlines() if path.exists() else []
            found = [json.loads(line) for line in lines]
            found = [event for event in found if event["event_name"] == "introspection.judgement"]
            if (len(found) >= at_least and not self.jobs("job")) or time.monotonic() > end:
                assert len(found) >= at_least, self.log()
                return found
            time.sleep(0.02)

    def jobs(self, ending):
        folder = self.state / "jobs"
        return sorted(folder.glob(f"*.{ending}")) if folder.exists() else []

    def log(self):
        path = self.state / "hooks.log"
        return path.read_text() if path.exists() else ""

    def hooks(self, *words, code=0, environ=None):
        """What `sandbox-judge hooks ...` says on stdout."""
        done = run_main("hooks", *words, environ=self.environ if environ is None else environ, cwd=self.cwd)
        assert done.code == code, done.out + done.err
        return done.out

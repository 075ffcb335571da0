"""The shell shim that a host starts. Pure text.

The shell, not Python, says "nothing to say" and exits 0: so it does whatever becomes of Python, a missing
interpreter and an import error included. What `hooks install` was told is written into it, so that the
command in the host's configuration stays the same whatever changes (Codex trusts a hook by its command).
"""

import shlex
from collections.abc import Mapping, Sequence

from sandbox_judge.hosts.host import Host

_SEARCH = """\
python=${SANDBOX_JUDGE_PYTHON:-}
if [ -z "$python" ]; then
  here=${0%/*}
  [ "$here" = "$0" ] && here=.
  if [ -x "$here/../.venv/bin/python" ]; then
    python=$here/../.venv/bin/python
  else
    python=python3
  fi
fi
"""


def shim_text(
    host: Host,
    *,
    python: str | None = None,
    variables: Mapping[str, str] | None = None,
    arguments: Sequence[str] = (),
) -> str:
    """A shim for `host`. `python` None: it looks for the interpreter as `hooks/post-completion` does.
    `variables` are set where the host's environment does not set them."""
    lines = [
        "#!/bin/sh",
        f"# The judge's hook for {host.name} ({host.versions}): spools what has ended and returns.",
        "# Whatever goes wrong, the host gets its own form of nothing to say, and exit 0.",
    ]
    for name, value in (variables or {}).items():
        lines += [f'[ -n "${{{name}:-}}" ] || {name}={shlex.quote(value)}', f"export {name}"]
    text = "\n".join(lines) + "\n"
    text += _SEARCH if python is None else f"python={shlex.quote(python)}\n"
    more = "".join(f" {shlex.quote(word)}" for word in arguments)
    text += f'"$python" -I -m sandbox_judge.hosts {host.name}{more} "$@" >/dev/null 2>&1\n'
    if host.answer:
        text += f"printf '%s\\n' {shlex.quote(host.answer.decode().strip())}\n"
    return text + "exit 0\n"

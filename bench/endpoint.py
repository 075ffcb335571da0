"""A model's endpoint in a process of its own: prints its base URL, answers `pass` after a latency.

Ends when stdin closes.
"""

import sys

from sandbox_judge.testing.answers import verdict
from sandbox_judge.testing.model_server import ModelServer

with ModelServer(verdict("pass", delay_s=float(sys.argv[1])), longest_s=3600) as server:
    print(server.base_url, flush=True)
    sys.stdin.read()

"""`python -I -m sandbox_judge.hosts HOST`: what a host's configuration starts."""

import os
import sys

from sandbox_judge.hosts.entry import main

if __name__ == "__main__":
    os._exit(main(sys.argv[1:], dict(os.environ)))

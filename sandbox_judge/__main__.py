"""`python -m sandbox_judge`; in a sandbox start it isolated, `python -I -m sandbox_judge` (design 14)."""

import os
import sys

if sys.argv[1:2] == ["call"]:
    from sandbox_judge.client import main

    os._exit(main(sys.argv[2:], dict(os.environ)))
else:
    from sandbox_judge.cli.main import console

    console()

"""`python -m sandbox_judge`; in a sandbox start it isolated, `python -I -m sandbox_judge` (design 14)."""

import os
import sys

if sys.argv[1:2] == ["call"]:
    # The thin client: a shim must not wait for the whole command line to be imported.
    from sandbox_judge.client import main

    os._exit(main(sys.argv[2:], dict(os.environ)))
else:
    import gc
    import signal

    # Importing and parsing allocate much and leave no cycles: at its usual pace the collector would look at
    # them all a hundred times, which is a tenth of a hook's own time.
    gc.set_threshold(100_000, 20, 20)
    # A signal while modules are imported waits until the command can answer it with nulls.
    signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGTERM, signal.SIGINT, signal.SIGHUP))

    from sandbox_judge.cli.main import console

    console()

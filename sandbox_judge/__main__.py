"""`python -m sandbox_judge`; in a sandbox start it isolated, `python -I -m sandbox_judge` (design 14)."""

import gc

# Importing and parsing allocate much and leave no cycles: at its usual pace the collector would look at them
# all a hundred times, which is a tenth of a hook's own time.
gc.set_threshold(100_000, 20, 20)

from sandbox_judge.cli.main import console  # noqa: E402

console()

"""`python -m sandbox_judge`; in a sandbox start it isolated, `python -I -m sandbox_judge` (design 14)."""

from sandbox_judge.cli.main import console

console()

"""The package's version; a leaf, so that `--version` costs nothing."""

__version__ = "0.1.0"

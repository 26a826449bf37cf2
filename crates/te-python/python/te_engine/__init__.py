"""Read and write pieces of other machines' memory."""

from te_engine._native import __version__

__all__ = ["__version__"]

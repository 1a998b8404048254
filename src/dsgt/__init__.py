"""Peer-to-peer training in PyTorch, without a server, exact on uneven data."""

from dsgt._version import __version__

__all__ = ["__version__"]

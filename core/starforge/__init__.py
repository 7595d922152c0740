"""StarForge. This package root enters foreign images: it imports the standard library alone, on Python 3.8 and newer."""

__version__ = "0.1.0+forge"

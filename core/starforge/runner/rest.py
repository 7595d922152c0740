"""What is needed once the training process runs, imported at once: from then on the job may move or remove any file.

The runner's own modules come from the archive's open descriptor, so only the image's library can be in the job's reach,
and that for the few milliseconds this takes. It is not imported before the start, which would take twice as long.
"""

from __future__ import annotations

import contextlib

from starforge.runner import conclude, sender, watch, wire

__all__ = ["conclude", "sender", "watch", "wire"]

# What a minimal Python may lack; whoever uses it says so. Codecs are else loaded by the first name of a host or file.
with contextlib.suppress(ImportError):
    import ctypes  # noqa: F401 - loaded for later
with contextlib.suppress(ImportError):
    import gzip  # noqa: F401 - the same
with contextlib.suppress(ImportError):
    import ssl  # noqa: F401 - the same
with contextlib.suppress(ImportError):
    import encodings.idna
with contextlib.suppress(ImportError):
    import encodings.ascii  # noqa: F401 - the same

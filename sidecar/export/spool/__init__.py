"""Spans on disk while the collector is away, so that neither a restart nor a crash of the sidecar loses them.

Every process writes into a folder of its own, which it holds by a lock; what a dead one left is sent by the next.
"""

from sidecar.export.spool.disk import Spool

__all__ = ["Spool"]

# The compiled module has what its twins have, so it is typed as they are.

from sidecar.http1.chunked import whole_chunks as whole_chunks
from sidecar.http1.receiving import Receiver as Receiver
from sidecar.inspection.lane import Lane as Lane
from sidecar.inspection.stamper import Stamper as Stamper

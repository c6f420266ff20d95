"""The sidecar: a proxy that stands beside a server, passes streams on byte for byte, and stamps what flows through.

    listener → relay → recorder → body (coding, splitter, dialects, stamper) → records → exporter

Five words. An *exchange* is one request and its response. An *arrival* is what one read brought, with one time. An
*event* is one framed unit of a stream. A *stamp* is an event's number, times, class and position. The *end* says how
an exchange ended, who ended it and how far it had come.
"""

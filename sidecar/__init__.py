"""The sidecar: a proxy that stands beside a server, passes streams on byte for byte, and stamps what flows through.

    downstream → relay → carriage ⇄ upstream over http1
                            └→ recording ← inspection → export            bounds, operation: around all of it

Five words. An *exchange* is one request and its response. An *arrival* is what one read brought, with one time. An
*event* is one framed unit of a stream. A *stamp* is an event's number, times, class and position. The *end* says how
an exchange ended, who ended it and how far it had come.
"""

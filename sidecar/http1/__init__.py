"""HTTP/1.1 as the upstream speaks it (RFC 9110 and 9112): heads, framing and chunks, without a socket."""

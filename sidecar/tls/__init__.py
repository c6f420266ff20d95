"""TLS on both sides: certificates and trust, and a transport behind which the kernel's buffer is the next one."""

"""The pure core: bytes and stamps in, values out. No clock, no await, no socket, no logging."""

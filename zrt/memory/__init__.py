"""Memory: allocators, buffers, numpy views."""

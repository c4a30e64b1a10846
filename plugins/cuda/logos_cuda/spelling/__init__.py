"""How each op becomes launches of kernels: one function an op, one file a family of ops."""

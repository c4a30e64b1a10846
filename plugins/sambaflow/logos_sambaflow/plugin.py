"""The rdu-sambaflow plugin: what it offers through the hooks."""

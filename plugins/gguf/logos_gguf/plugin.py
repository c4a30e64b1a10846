"""The gguf plugin: what it offers through the hooks."""

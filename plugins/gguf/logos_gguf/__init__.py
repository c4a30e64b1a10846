"""The gguf plugin: the GGUF container, and the model families that it names."""

from logos_gguf.names import gguf_name

__all__ = ["gguf_name"]

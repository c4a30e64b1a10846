"""The gguf plugin: the GGUF container, and the model families that it names."""

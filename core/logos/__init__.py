"""LOGOS: a plugin-based build system for inference programs written as readable sentences."""

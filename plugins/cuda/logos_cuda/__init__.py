"""The cuda target: one program becomes one self-contained CUDA program."""

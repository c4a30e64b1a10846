"""Text for a GGUF checkpoint: its own vocabulary, pre-tokenizer, special tokens and chat template."""

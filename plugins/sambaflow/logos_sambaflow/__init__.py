"""The rdu-sambaflow target."""

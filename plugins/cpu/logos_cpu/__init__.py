"""The cpu target: programs as one self-contained C++ source, for any machine with a C++ compiler."""

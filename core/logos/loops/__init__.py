"""Loops: plain statements over scalars, which an op's sentence stands for, and which a program may hold."""

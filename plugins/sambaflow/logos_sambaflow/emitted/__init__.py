"""The text that goes into artifacts: real modules, tested alone, from which the emitter copies what a program uses.

They parse as Python 3.7, need nothing but the standard library, torch and numpy, and are the user's to keep (MIT-0).
"""

"""The driver of emitted C++ programs: their command line, files and output, the same for every target that has one."""

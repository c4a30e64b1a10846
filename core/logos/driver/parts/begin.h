// The driver: reads the leaves, makes the steps, checks and prints. `--help` says how it is called. What differs from
// target to target is behind the functions that are declared below, after the tables.

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <string>
#include <vector>

// Named, since what has no name bears a hash of the folder it was compiled in.
namespace driver {

enum { DONE = 0, REFUSED = 1, USAGE = 2, FAILED = 3 };

// How a leaf without a file starts: zero with the program's fills, the ramp, or as a row number (0; `pos` the step's).
enum Start { FILLS, RAMP, ROW };

struct Leaf {
    const char *name;
    int buffer;
    Size rows, columns;
    bool real, transposed, state;
    Start start;
    Size first, items;
    const char *stem;  // of its files' names, where that is not its own
};

struct Item {
    Size place;
    double real;
    Int integer;
};

// A value that can be read after a stage (-1: before the first): `x`, or `x@1` for an earlier one of a name.
struct Value {
    const char *name;
    int buffer;
    Size rows, columns;
    bool real, transposed;
    int stage;
};

// What is wrong at a place of the program; the text takes the number that is.
struct Words {
    int line, column;
    const char *text;
};

// A row number that is checked before a step.
struct Row {
    int buffer;
    Size rows;
    Words words;
};

struct Message {
    int stage, kind;
    Words words;
};

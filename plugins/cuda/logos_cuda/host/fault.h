// What a kernel does wrong, said on standard error; the program ends there with exit code 86.
#pragma once

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "types.h"

namespace logos_host {

constexpr int FAULT_EXIT = 86;

// A place in the program's text: the default argument of every primitive, so that it is the caller's.
struct Site {
    const char *file;
    int line;
    static constexpr Site here(const char *file = __builtin_FILE(), int line = __builtin_LINE()) {
        return {file, line};
    }
    bool operator==(const Site &other) const {
        return line == other.line && (file == other.file || strcmp(file, other.file) == 0);
    }
};

// A line of text of bounded length that grows by printf.
struct Text {
    char characters[4096];
    int length = 0;
    Text() { characters[0] = 0; }
    __attribute__((format(printf, 2, 3))) void add(const char *format, ...) {
        va_list arguments;
        va_start(arguments, format);
        int room = int(sizeof characters) - length;
        int wanted = vsnprintf(characters + length, size_t(room), format, arguments);
        va_end(arguments);
        length += wanted < room ? wanted : room - 1;
    }
};

// Prints `what` (its lines without the last newline) and what to do next; does not return. Other threads of the
// program may be inside a kernel: nothing of theirs is run down.
[[noreturn]] inline void end_with(const char *what, const char *next) {
    static char said;
    if (__atomic_test_and_set(&said, __ATOMIC_SEQ_CST)) {
        for (;;) pause();
    }
    fflush(stdout);
    fprintf(stderr, "host: %s\n  next: %s\n", what, next);
    fflush(stderr);
    _exit(FAULT_EXIT);
}

// A setting of the environment as a number of at least `least`, or `otherwise` where it is not set.
inline long setting(const char *name, long otherwise, long least) {
    const char *text = getenv(name);
    if (text == nullptr || *text == 0) return otherwise;
    char *end;
    long value = strtol(text, &end, 10);
    if (*end == 0 && value >= least) return value;
    Text what;
    what.add("%s is '%s': a number of at least %ld is wanted", name, text, least);
    end_with(what.characters, "set it to such a number, or unset it");
}

// LOGOS_HOST_POISON=1: memory that nothing has written holds a pattern that is NaN in float, double, half and
// bfloat16, and an int64 near the largest: what reads it shows.
inline bool poisoning() {
    static const bool wanted = setting("LOGOS_HOST_POISON", 0, 0) != 0;
    return wanted;
}

inline void poison(void *memory, size_t bytes) {
    unsigned char *at = static_cast<unsigned char *>(memory);
    for (size_t i = 0; i < bytes; i++) at[i] = i % 2 ? 0x7f : 0xfb;
}

}  // namespace logos_host

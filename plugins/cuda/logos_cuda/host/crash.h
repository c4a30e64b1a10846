// A signal in a kernel, named: what a GPU would report as an illegal address. The address sanitizer has its own.
#pragma once

#include <signal.h>

#include "diagnosis.h"

namespace logos_host {

inline void on_signal(int number, siginfo_t *, void *) {
    if (worker == nullptr) {
        signal(number, SIG_DFL);
        raise(number);
        return;
    }
    if (number == SIGFPE) end_thread("it divides an integer by zero", "on a GPU the result is any number: test for zero");
    end_thread("it reads or writes memory that is not there, or its stack is full",
               "build it with the address sanitizer, which says where; a thread's own arrays have 128 KB");
}

// Called once by each OS thread. The handler has a stack of its own: the thread's may be what is full.
inline void watch_signals() {
#ifndef LOGOS_HOST_ASAN
    stack_t own = {};
    own.ss_size = PAGE;
    own.ss_sp = malloc(own.ss_size);
    if (own.ss_sp == nullptr || sigaltstack(&own, nullptr) != 0) return;
    struct sigaction action = {};
    action.sa_sigaction = on_signal;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
    const int numbers[] = {SIGSEGV, SIGBUS, SIGFPE};
    for (int number : numbers) sigaction(number, &action, nullptr);
#endif
}

}  // namespace logos_host

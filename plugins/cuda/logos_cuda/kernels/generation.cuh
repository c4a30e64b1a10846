// What ends a step of generation: its output becomes the next step's token, without the host.
#pragma once

#include "logos.cuh"

// The step that is being made, from 0, and how many ids the prompt gives.
struct Turn {
    Int step, given;
};

// What a step made; the host reads one while the device writes the other.
struct Made {
    Int id;
    Fault fault;
};

enum { MADE = 2 };

// One thread. `position` is nullptr in a program that does not take it.
__device__ inline void next_step(const Int *output, const Int *prompt, Int *token, Int *position, Turn *turn,
                                 Made *made, const Fault *fault) {
    const Int step = turn->step, next = step + 1;
    made[step % MADE].id = *output;
    made[step % MADE].fault = *fault;
    *token = next < turn->given ? prompt[next] : *output;
    if (position != nullptr) *position = next;
    turn->step = next;
}

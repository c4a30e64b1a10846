// Generation by the processor: a step's output is there when it is made.

const char *const WAYS_USE = "";

bool take_way(const std::string &) { return false; }

void begin_prompts(Size) {}

Size count_at_once(Size left) { return left < CHUNK_STEPS ? left : Size(CHUNK_STEPS); }

void make_at_once(const std::vector<Int> &ids, Size first, Size many) {
    for (Size i = 0; i < many; i++) {
        integer(CHUNK_TOKEN)[i] = ids[size_t(first + i)];
        if (CHUNK_POSITION >= 0) integer(CHUNK_POSITION)[i] = first + i;
    }
    make_stages(chunk_stages, 0, CHUNK_STAGES, many);
}

void go_on(Answer &answer, const std::vector<Int> &ids, Size step, Int token, Size total) {
    const Size given = Size(ids.size());
    for (; step < total && answer.goes_on(); step++) {
        *integer(TOKEN) = step < given ? ids[size_t(step)] : token;
        if (POSITION >= 0) *integer(POSITION) = step;
        make_stages(0, STAGES);
        if (fault.kind != NO_FAULT && !options.unchecked) {
            answer.finish("fault");
            check_fault();
        }
        token = *integer(values[OUTPUT].buffer);
        if (step + 1 >= given) answer.take(token);
    }
}

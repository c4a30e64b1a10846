// The stages of a step on the device.

// Launches all stages of a step at once, where the kind of program does: false where it cannot.
bool (*launch_together)() = nullptr;
bool launched = false;

void make_stages(int first, int end) {
    if (first == 0) launched = launch_together != nullptr && launch_together();
    for (int i = first; i < end && !launched; i++) stages[i]();
}

Int fetch_integer(int buffer) {
    Int found;
    CHECK(cudaMemcpy(&found, memory[buffer], sizeof found, cudaMemcpyDeviceToHost));
    return found;
}

Report fetch_fault() {
    CHECK(cudaStreamSynchronize(stream));
    Fault found;
    CHECK(cudaMemcpy(&found, fault, sizeof found, cudaMemcpyDeviceToHost));
    return {found.kind, found.stage, found.value};
}

void clear_fault() { CHECK(cudaMemset(fault, 0, sizeof(Fault))); }

// Buffers from KEPT on are of values that only their own stage reads: it writes them where there is room.
void make_room(int buffer) {
    if (memory[buffer] != nullptr) return;
    const cudaError_t error = cudaMalloc(&memory[buffer], size_t(buffers[buffer].bytes));
    if (error != cudaSuccess)
        end(FAILED, "no room for " + std::to_string(buffers[buffer].bytes) + " bytes of " + buffers[buffer].name +
                               " on the device: " + cudaGetErrorString(error));
}

void find_device() {
    int count = 0;
    const cudaError_t error = cudaGetDeviceCount(&count);
    if (error == cudaSuccess && count > 0) return;
    end(FAILED, std::string("there is no GPU here that the CUDA runtime can use: ") + cudaGetErrorString(error) +
                           "\n  next: run it where there are an NVIDIA GPU and its driver; without one, `logos run` and "
                           "`logos generate` take `--engine cuda -D device=host`");
}

void prepare() {
    find_device();
    CHECK(cudaStreamCreate(&stream));
    for (int i = 0; i < KEPT; i++) make_room(i);
    CHECK(cudaMalloc(reinterpret_cast<void **>(&fault), sizeof(Fault)));
    clear_fault();
    if (ARRIVALS > 0) {
        CHECK(cudaMalloc(reinterpret_cast<void **>(&arrivals), ARRIVALS * sizeof(int)));
        CHECK(cudaMemset(arrivals, 0, ARRIVALS * sizeof(int)));
    }
    allow_shared();
    load_leaves();
}

void finish() { CHECK(cudaDeviceSynchronize()); }

const char *const MACHINE_USE = "";

bool take_machine_flag(const std::string &) { return false; }

bool take_machine_option(const std::string &, const std::string &) { return false; }

bool run_apart() { return false; }

// What the device keeps: as it is, as float16, or in Q8_0, a float16 scale for each 32 elements.

void send(int buffer, Size start, const void *from, size_t bytes) {
    CHECK(cudaMemcpy(static_cast<char *>(memory[buffer]) + start, from, bytes, cudaMemcpyHostToDevice));
}

// `count` elements of a leaf from `first` on, whole blocks, rounded as the device keeps them.
void send_rounded(const Leaf &leaf, Size first, const Real *from, Size count) {
    const Memory &kept = buffers[leaf.buffer];
    if (kept.element == HALVES) {
        std::vector<Half> halves(static_cast<size_t>(count));
        for (size_t i = 0; i < halves.size(); i++) halves[i] = half_bits(from[i]);
        return send(leaf.buffer, first * Size(sizeof(Half)), halves.data(), halves.size() * sizeof(Half));
    }
    std::vector<Quant> quants(static_cast<size_t>(count));
    std::vector<Half> scales(static_cast<size_t>(count / BLOCK));
    for (size_t i = 0; i < scales.size(); i++)
        scales[i] = round_block(leaf, from + BLOCK * Size(i), &quants[size_t(BLOCK) * i]);
    send(leaf.buffer, first, quants.data(), quants.size());
    send(kept.scales, first / BLOCK * Size(sizeof(Half)), scales.data(), scales.size() * sizeof(Half));
}

void store(const Leaf &leaf, Size first, const void *from, Size count) {
    if (buffers[leaf.buffer].element != PLAIN) return send_rounded(leaf, first, static_cast<const Real *>(from), count);
    send(leaf.buffer, first * bytes_of(leaf.real), from, size_t(count * bytes_of(leaf.real)));
}

bool keep_file(const Leaf &, const std::string &) { return false; }

// A file of bytes as the device keeps them.
void load_bytes(const Leaf &leaf, const std::string &path, int buffer) {
    const Size due = buffers[buffer].bytes;
    Reader reader(path, leaf, due);
    std::vector<char> chunk(size_t(due < CHUNK ? due : CHUNK));
    for (Size done = 0; done < due; done += CHUNK) {
        const Size count = CHUNK < due - done ? CHUNK : due - done;
        reader.read(chunk.data(), count, 1);
        send(buffer, done, chunk.data(), size_t(count));
    }
}

// A file of float32 scales, which Q8_0 has in float16 and so does the device.
void load_scales(const Leaf &leaf, const std::string &path, int buffer) {
    const Size due = buffers[buffer].bytes / Size(sizeof(Half));
    Reader reader(path, leaf, due * Size(sizeof(Real)));
    std::vector<Real> chunk(size_t(due < CHUNK ? due : CHUNK));
    std::vector<Half> halves(chunk.size());
    for (Size done = 0; done < due; done += CHUNK) {
        const Size count = CHUNK < due - done ? CHUNK : due - done;
        reader.read(chunk.data(), count, Size(sizeof(Real)));
        for (size_t i = 0; i < size_t(count); i++) halves[i] = scale_bits(chunk[i], path);
        send(buffer, done * Size(sizeof(Half)), halves.data(), size_t(count) * sizeof(Half));
    }
}

const char *const WEIGHT_FILES = "NAME.f32, NAME.i64, NAME.q and NAME.s";

bool takes_q8(int buffer) { return buffers[buffer].element == QUANTS; }

bool load_q8(const Leaf &leaf, const std::string &stem) {
    if (!takes_q8(leaf.buffer) || size_of_file(stem + ".q") < 0) return false;
    load_bytes(leaf, stem + ".q", leaf.buffer);
    load_scales(leaf, stem + ".s", buffers[leaf.buffer].scales);
    return true;
}

void bring(int buffer, void *to) {
    CHECK(cudaMemcpyAsync(to, memory[buffer], size_t(buffers[buffer].bytes), cudaMemcpyDeviceToHost, stream));
    CHECK(cudaStreamSynchronize(stream));
}

// All elements of a buffer that keeps them rounded.
void bring_widened(int buffer, Real *to) {
    const Memory &kept = buffers[buffer];
    std::vector<char> found(static_cast<size_t>(kept.bytes));
    bring(buffer, found.data());
    if (kept.element == HALVES) {
        const Half *halves = reinterpret_cast<const Half *>(found.data());
        for (Size i = 0; i < kept.bytes / Size(sizeof(Half)); i++) to[i] = half_value(halves[i]);
        return;
    }
    std::vector<Half> scales(static_cast<size_t>(kept.bytes / BLOCK));
    bring(kept.scales, scales.data());
    for (Size i = 0; i < kept.bytes; i++)
        to[i] = static_cast<Quant>(found[size_t(i)]) * half_value(scales[size_t(i / BLOCK)]);
}

void fetch(const Value &value, void *to) {
    if (buffers[value.buffer].element == PLAIN) bring(value.buffer, to);
    else bring_widened(value.buffer, static_cast<Real *>(to));
}

// The leaves: from files, from the program's fills, or the ramp.

std::string shape_of(const Leaf &leaf) {
    return std::to_string(leaf.rows) + " by " + std::to_string(leaf.columns) + " of " + type_of(leaf.real);
}

bool ends_with(const std::string &text, const char *ending) {
    const size_t length = strlen(ending);
    return text.size() >= length && text.compare(text.size() - length, length, ending) == 0;
}

Size size_of_file(const std::string &path) {
    struct stat found;
    return stat(path.c_str(), &found) == 0 && S_ISREG(found.st_mode) ? Size(found.st_size) : Size(-1);
}

class Reader {
  public:
    Reader(const std::string &path, const Leaf &leaf, Size due, bool wide = false) : path(path), wide(wide) {
        const Size there = size_of_file(path);
        if (there >= 0 && there != due)
            end(REFUSED, path + " holds " + std::to_string(there) + " bytes; " + leaf.name + ", " + shape_of(leaf) +
                             ", takes " + std::to_string(due));
        file = fopen(path.c_str(), "rb");
        if (file == nullptr) end(REFUSED, "cannot read " + path + ": " + strerror(errno));
    }

    ~Reader() { fclose(file); }

    // The next elements; doubles are rounded to float.
    void read(void *into, Size count, Size size) {
        if (!wide) return take(into, count, size);
        doubles.resize(size_t(count));
        take(doubles.data(), count, Size(sizeof(double)));
        for (Size i = 0; i < count; i++) static_cast<Real *>(into)[i] = static_cast<Real>(doubles[size_t(i)]);
    }

  private:
    void take(void *into, Size count, Size size) {
        if (fread(into, size_t(size), size_t(count), file) != size_t(count)) end(REFUSED, "cannot read all of " + path);
    }

    std::string path;
    bool wide;
    FILE *file;
    std::vector<double> doubles;
};

void upload(const Leaf &leaf, Size first, const void *from, Size count) {
    if (buffers[leaf.buffer].element != PLAIN) return send_rounded(leaf, first, static_cast<const Real *>(from), count);
    send(leaf.buffer, first * bytes_of(leaf.real), from, size_t(count * bytes_of(leaf.real)));
}

template <typename T>
void upload_transposed(const Leaf &leaf, const T *from) {
    std::vector<T> turned(size_t(leaf.rows * leaf.columns));
    for (Size r = 0; r < leaf.rows; r++)
        for (Size c = 0; c < leaf.columns; c++) turned[size_t(c * leaf.rows + r)] = from[r * leaf.columns + c];
    upload(leaf, 0, turned.data(), leaf.rows * leaf.columns);
}

// A whole leaf in the program's shape, as the device keeps it.
void upload_whole(const Leaf &leaf, const void *from) {
    if (!leaf.transposed) return upload(leaf, 0, from, leaf.rows * leaf.columns);
    if (leaf.real) return upload_transposed(leaf, static_cast<const Real *>(from));
    upload_transposed(leaf, static_cast<const Int *>(from));
}

// `stored`: the file lies as the device keeps it, transposed where that is.
void load_file(const Leaf &leaf, const std::string &path, bool stored) {
    const Size elements = leaf.rows * leaf.columns, size = bytes_of(leaf.real);
    const bool wide = leaf.real && ends_with(path, ".f64");
    Reader reader(path, leaf, elements * (wide ? Size(sizeof(double)) : size), wide);
    const bool turn = leaf.transposed && !stored;
    const Size step = turn ? elements : CHUNK < elements ? CHUNK : elements;
    std::vector<char> chunk(size_t(step * size));
    for (Size done = 0; done < elements; done += step) {
        const Size count = step < elements - done ? step : elements - done;
        reader.read(chunk.data(), count, size);
        if (turn) upload_whole(leaf, chunk.data());
        else upload(leaf, done, chunk.data(), count);
    }
}

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
        for (size_t i = 0; i < size_t(count); i++) {
            halves[i] = half_bits(chunk[i]);
            if (half_value(halves[i]) != chunk[i]) end(REFUSED, path + " holds a scale that is no float16, as Q8_0 has them");
        }
        send(buffer, done * Size(sizeof(Half)), halves.data(), size_t(count) * sizeof(Half));
    }
}

// NAME.q and NAME.s, where the device keeps Q8_0 and they are there.
bool load_quants(const Leaf &leaf, const std::string &stem) {
    const Memory &kept = buffers[leaf.buffer];
    if (kept.element != QUANTS || size_of_file(stem + ".q") < 0) return false;
    load_bytes(leaf, stem + ".q", leaf.buffer);
    load_scales(leaf, stem + ".s", kept.scales);
    return true;
}

template <typename T>
void load_start(const Leaf &leaf) {
    std::vector<T> values(size_t(leaf.rows * leaf.columns));
    if (leaf.start == RAMP)
        for (size_t p = 0; p < values.size(); p++) values[p] = static_cast<T>((double(p % 7) - 3) / (leaf.real ? 2 : 1));
    for (Size i = leaf.first; i < leaf.first + leaf.items; i++)
        values[size_t(items[i].place)] = leaf.real ? static_cast<T>(items[i].real) : static_cast<T>(items[i].integer);
    upload_whole(leaf, values.data());
}

bool fed(const Leaf &leaf) {
    const bool number = !leaf.state && !leaf.real && leaf.rows == 1 && leaf.columns == 1;
    return number && !options.tokens.empty() && (!strcmp(leaf.name, "tok") || !strcmp(leaf.name, "pos"));
}

// True where --set or a weight folder gives the leaf its value.
bool load_given(const Leaf &leaf) {
    for (size_t i = options.names.size(); i-- > 0;)
        if (options.names[i] == leaf.name) return load_file(leaf, options.files[i], false), true;
    if (leaf.state) return false;
    for (const std::string &folder : options.weights) {
        const std::string stem = folder + "/" + (leaf.stem ? leaf.stem : leaf.name), stored = stem + (leaf.real ? ".f32" : ".i64");
        if (load_quants(leaf, stem)) return true;
        if (size_of_file(stored) >= 0) return load_file(leaf, stored, true), true;
        if (leaf.real && size_of_file(stem + ".f64") >= 0) return load_file(leaf, stem + ".f64", false), true;
    }
    return false;
}

void load_leaves() {
    std::string lost;
    for (int i = 0; i < LEAVES; i++) {
        const Leaf &leaf = leaves[i];
        if (fed(leaf) || load_given(leaf)) continue;
        if (leaf.start != FILLS && !options.weights.empty()) lost += std::string(lost.empty() ? "" : ", ") + leaf.name;
        else if (leaf.real) load_start<Real>(leaf);
        else load_start<Int>(leaf);
    }
    if (!lost.empty())
        end(REFUSED, "no value for " + lost + " in " + options.weights[0] +
                         "\n  next: put the files that `--list` names there, give --set NAME=FILE or, for tok and pos, --tokens");
}

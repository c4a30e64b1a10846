// The leaves: from files, from the program's fills, or the ramp.

const Size CHUNK = Size(4) << 20;  // elements that a file is read in

Size bytes_of(bool is_real) { return is_real ? Size(sizeof(Real)) : Size(sizeof(Int)); }

const char *type_of(bool is_real) { return is_real ? "Real" : "Int"; }

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

void check_size(const std::string &path, const Leaf &leaf, Size there, Size due) {
    if (there != due)
        end(REFUSED, path + " holds " + std::to_string(there) + " bytes; " + leaf.name + ", " + shape_of(leaf) +
                         ", takes " + std::to_string(due));
}

class Reader {
  public:
    Reader(const std::string &path, const Leaf &leaf, Size due, bool wide = false) : path(path), wide(wide) {
        const Size there = size_of_file(path);
        if (there >= 0) check_size(path, leaf, there, due);
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

template <typename T>
void store_transposed(const Leaf &leaf, const T *from) {
    std::vector<T> turned(size_t(leaf.rows * leaf.columns));
    for (Size r = 0; r < leaf.rows; r++)
        for (Size c = 0; c < leaf.columns; c++) turned[size_t(c * leaf.rows + r)] = from[r * leaf.columns + c];
    store(leaf, 0, turned.data(), leaf.rows * leaf.columns);
}

// A whole leaf in the program's shape.
void store_whole(const Leaf &leaf, const void *from) {
    if (!leaf.transposed) return store(leaf, 0, from, leaf.rows * leaf.columns);
    if (leaf.real) return store_transposed(leaf, static_cast<const Real *>(from));
    store_transposed(leaf, static_cast<const Int *>(from));
}

// `stored`: the file lies as the leaf is stored, transposed where that is.
void load_file(const Leaf &leaf, const std::string &path, bool stored) {
    const Size elements = leaf.rows * leaf.columns, size = bytes_of(leaf.real);
    const bool wide = leaf.real && ends_with(path, ".f64");
    if (!wide && (stored || !leaf.transposed) && keep_file(leaf, path)) return;
    Reader reader(path, leaf, elements * (wide ? Size(sizeof(double)) : size), wide);
    const bool turn = leaf.transposed && !stored;
    const Size step = turn ? elements : CHUNK < elements ? CHUNK : elements;
    std::vector<char> chunk(size_t(step * size));
    for (Size done = 0; done < elements; done += step) {
        const Size count = step < elements - done ? step : elements - done;
        reader.read(chunk.data(), count, size);
        if (turn) store_whole(leaf, chunk.data());
        else store(leaf, done, chunk.data(), count);
    }
}

template <typename T>
void load_start(const Leaf &leaf) {
    std::vector<T> values(size_t(leaf.rows * leaf.columns));
    if (leaf.start == RAMP)
        for (size_t p = 0; p < values.size(); p++) values[p] = static_cast<T>((double(p % 7) - 3) / (leaf.real ? 2 : 1));
    for (Size i = leaf.first; i < leaf.first + leaf.items; i++)
        values[size_t(items[i].place)] = leaf.real ? static_cast<T>(items[i].real) : static_cast<T>(items[i].integer);
    store_whole(leaf, values.data());
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
        if (load_q8(leaf, stem)) return true;
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

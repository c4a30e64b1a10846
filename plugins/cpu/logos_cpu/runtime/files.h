// The leaves: from files, which are mapped where they lie as they are kept, from the program's fills, or the ramp.

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

// A file's bytes, shared with whoever else maps it; it has to hold `due`.
const char *mapped(const std::string &path, const Leaf &leaf, Size due) {
    const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    struct stat found;
    if (file < 0 || fstat(file, &found) != 0) end(REFUSED, "cannot read " + path + ": " + strerror(errno));
    if (found.st_size != due)
        end(REFUSED, path + " holds " + std::to_string(found.st_size) + " bytes; " + leaf.name + ", " + shape_of(leaf) +
                         ", takes " + std::to_string(due));
    // Writable pages of its own, since what is mapped is a buffer like any other; none is written.
    void *const bytes = mmap(nullptr, size_t(due), PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 0);
    if (bytes == MAP_FAILED) end(REFUSED, "cannot map " + path + ": " + strerror(errno));
#ifdef MADV_HUGEPAGE
    madvise(bytes, size_t(due), MADV_HUGEPAGE);
#endif
    madvise(bytes, size_t(due), MADV_WILLNEED);
    close(file);
    return static_cast<const char *>(bytes);
}

void keep_mapped(int buffer, const char *bytes) { memory[buffer] = const_cast<char *>(bytes); }

// Elements in the program's shape, or as they are `stored`, into the leaf's buffer.
template <typename T>
void keep(const Leaf &leaf, const T *from, bool stored) {
    std::vector<T> turned;
    if (leaf.transposed && !stored) {
        turned.resize(size_t(leaf.rows * leaf.columns));
        for (Size r = 0; r < leaf.rows; r++)
            for (Size c = 0; c < leaf.columns; c++) turned[size_t(c * leaf.rows + r)] = from[r * leaf.columns + c];
        from = turned.data();
    }
    make_room(leaf.buffer, leaf.name);
    const Memory &kept = buffers[leaf.buffer];
    if (kept.scales >= 0) make_room(kept.scales, leaf.name);
    if (kept.element == REAL || kept.element == INT) memcpy(memory[leaf.buffer], from, size_t(leaf.rows * leaf.columns) * sizeof(T));
    else keep_rounded(leaf, reinterpret_cast<const Real *>(from));
}

void load_file(const Leaf &leaf, const std::string &path, bool stored) {
    const Size elements = leaf.rows * leaf.columns;
    const bool wide = leaf.real && ends_with(path, ".f64");
    const Element element = buffers[leaf.buffer].element;
    if (!wide && (stored || !leaf.transposed) && (element == REAL || element == INT) && !leaf.state)
        return keep_mapped(leaf.buffer, mapped(path, leaf, elements * bytes_of(leaf.real)));
    const Size due = elements * (wide ? Size(sizeof(double)) : bytes_of(leaf.real));
    const char *const bytes = mapped(path, leaf, due);
    if (wide) {
        std::vector<Real> values(static_cast<size_t>(elements));
        for (Size i = 0; i < elements; i++) values[size_t(i)] = Real(reinterpret_cast<const double *>(bytes)[i]);
        keep(leaf, values.data(), stored);
    } else if (leaf.real) {
        keep(leaf, reinterpret_cast<const Real *>(bytes), stored);
    } else {
        keep(leaf, reinterpret_cast<const Int *>(bytes), stored);
    }
    munmap(const_cast<char *>(bytes), size_t(due));
}

enum { HEAD = 64 };

// What a file of tiles begins with: the layout and its sizes, in words.
std::string head_of(const Memory &kept) {
    std::string head = "LOGOS tiles 32 by 32 of Q8_0, 1: " + std::to_string(kept.groups) + " " +
                       std::to_string(kept.rows) + " " + std::to_string(kept.columns);
    head.resize(HEAD - 1, ' ');
    return head + "\n";
}

// NAME.tiles, written by --lay: mapped as it is.
bool load_laid(const Leaf &leaf, const std::string &path) {
    const Memory &kept = buffers[leaf.buffer];
    if (kept.element != TILES || size_of_file(path) < 0) return false;
    const char *const bytes = mapped(path, leaf, HEAD + bytes_of(kept));
    if (memcmp(bytes, head_of(kept).data(), HEAD) != 0)
        end(REFUSED, path + " is laid out for another program or processor\n  next: build it again, or write it with --lay");
    keep_mapped(leaf.buffer, bytes + HEAD);
    return true;
}

// NAME.q and NAME.s into tiles.
void lay(const Leaf &leaf, const std::string &stem, Byte *tiles) {
    const Memory &kept = buffers[leaf.buffer];
    const Size elements = kept.groups * kept.rows * kept.columns, blocks = kept.columns / BLOCK;
    const Size scale_bytes = elements / BLOCK * Size(sizeof(Real));
    const char *const q = mapped(stem + ".q", leaf, elements), *const s = mapped(stem + ".s", leaf, scale_bytes);
    for (Size row = 0; row < kept.groups * kept.rows; row++)
        for (Size b = 0; b < blocks; b++) {
            const Size at = row * blocks + b;
            const Half scale = scale_bits(reinterpret_cast<const Real *>(s)[at], stem + ".s");
            put_block(kept, tiles, row, b, scale, reinterpret_cast<const Quant *>(q) + at * BLOCK);
        }
    munmap(const_cast<char *>(q), size_t(elements));
    munmap(const_cast<char *>(s), size_t(scale_bytes));
}

bool load_quants(const Leaf &leaf, const std::string &stem) {
    const Memory &kept = buffers[leaf.buffer];
    if ((kept.element != TILES && kept.element != QUANTS) || size_of_file(stem + ".q") < 0) return false;
    if (kept.element == TILES) {
        make_room(leaf.buffer, leaf.name);
        lay(leaf, stem, reinterpret_cast<Byte *>(memory[leaf.buffer]));
    } else {
        keep_mapped(leaf.buffer, mapped(stem + ".q", leaf, bytes_of(kept)));
        keep_mapped(kept.scales, mapped(stem + ".s", leaf, bytes_of(buffers[kept.scales])));
    }
    return true;
}

// Writes NAME.tiles of every weight in tiles beside its NAME.q and NAME.s.
int lay_all(const std::string &folder) {
    for (int i = 0; i < LEAVES; i++) {
        const Leaf &leaf = leaves[i];
        const Memory &kept = buffers[leaf.buffer];
        const std::string stem = folder + "/" + leaf.name, path = stem + ".tiles";
        if (kept.element != TILES || size_of_file(stem + ".q") < 0) continue;
        const std::string part = folder + "/." + std::to_string(getpid()) + ".part", head = head_of(kept);
        std::vector<Byte> tiles(static_cast<size_t>(bytes_of(kept)));
        lay(leaf, stem, tiles.data());
        FILE *const file = fopen(part.c_str(), "wb");
        unfinished.push_back(part);
        if (file == nullptr || fwrite(head.data(), 1, HEAD, file) != HEAD ||
            fwrite(tiles.data(), 1, tiles.size(), file) != tiles.size() || fclose(file) != 0 ||
            rename(part.c_str(), path.c_str()) != 0)
            end(REFUSED, "cannot write " + path + ": " + strerror(errno));
        unfinished.pop_back();
    }
    return DONE;
}

template <typename T>
void load_start(const Leaf &leaf) {
    std::vector<T> values(size_t(leaf.rows * leaf.columns));
    if (leaf.start == RAMP)
        for (size_t p = 0; p < values.size(); p++) values[p] = static_cast<T>((double(p % 7) - 3) / (leaf.real ? 2 : 1));
    for (Size i = leaf.first; i < leaf.first + leaf.items; i++)
        values[size_t(items[i].place)] = leaf.real ? static_cast<T>(items[i].real) : static_cast<T>(items[i].integer);
    keep(leaf, values.data(), false);
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
        const std::string stem = folder + "/" + leaf.name, stored = stem + (leaf.real ? ".f32" : ".i64");
        if (load_laid(leaf, stem + ".tiles") || load_quants(leaf, stem)) return true;
        if (size_of_file(stored) >= 0) return load_file(leaf, stored, true), true;
        if (leaf.real && size_of_file(stem + ".f64") >= 0) return load_file(leaf, stem + ".f64", false), true;
    }
    return false;
}

void load_leaves() {
    std::string lost;
    for (int i = 0; i < LEAVES; i++) {
        const Leaf &leaf = leaves[i];
        if (fed(leaf)) make_room(leaf.buffer, leaf.name);
        if (fed(leaf) || load_given(leaf)) continue;
        if (leaf.start != FILLS && !options.weights.empty()) lost += std::string(lost.empty() ? "" : ", ") + leaf.name;
        else if (leaf.real) load_start<Real>(leaf);
        else load_start<Int>(leaf);
    }
    if (!lost.empty())
        end(REFUSED, "no value for " + lost + " in " + options.weights[0] +
                         "\n  next: put the files that `--list` names there, give --set NAME=FILE or, for tok and pos, --tokens");
}

// Files: mapped where they lie as a buffer keeps them; weights in tiles, which --lay writes.

// A file's bytes, shared with whoever else maps it; it has to hold `due`.
const char *mapped(const std::string &path, const Leaf &leaf, Size due) {
    const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    struct stat found;
    if (file < 0 || fstat(file, &found) != 0) end(REFUSED, "cannot read " + path + ": " + strerror(errno));
    check_size(path, leaf, Size(found.st_size), due);
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

bool keep_file(const Leaf &leaf, const std::string &path) {
    if (takes_q8(leaf.buffer) || leaf.state || size_of_file(path) < 0) return false;
    keep_mapped(leaf.buffer, mapped(path, leaf, leaf.rows * leaf.columns * bytes_of(leaf.real)));
    return true;
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

const char *const WEIGHT_FILES = "NAME.tiles, NAME.f32, NAME.i64, NAME.q and NAME.s";

bool load_q8(const Leaf &leaf, const std::string &stem) {
    if (load_laid(leaf, stem + ".tiles")) return true;
    if (!takes_q8(leaf.buffer) || size_of_file(stem + ".q") < 0) return false;
    const Memory &kept = buffers[leaf.buffer];
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
void lay_all(const std::string &folder) {
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
}

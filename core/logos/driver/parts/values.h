// Values read back: printed, or written as NumPy arrays.

// The elements of a value in the program's shape.
std::vector<char> elements_of(const Value &value) {
    const Size size = bytes_of(value.real);
    std::vector<char> found(size_t(value.rows * value.columns * size));
    fetch(value, found.data());
    if (!value.transposed) return found;
    std::vector<char> turned(found.size());
    for (Size r = 0; r < value.rows; r++)
        for (Size c = 0; c < value.columns; c++)
            memcpy(&turned[size_t((r * value.columns + c) * size)], &found[size_t((c * value.rows + r) * size)], size_t(size));
    return turned;
}

Real real_at(const std::vector<char> &data, Size i) {
    Real x;
    memcpy(&x, &data[size_t(i) * sizeof x], sizeof x);
    return x;
}

Int integer_at(const std::vector<char> &data, Size i) {
    Int x;
    memcpy(&x, &data[size_t(i) * sizeof x], sizeof x);
    return x;
}

// The shortest text that reads back as the same value.
std::string number(const Value &value, const std::vector<char> &data, Size i) {
    char text[40];
    if (!value.real) {
        snprintf(text, sizeof text, "%lld", integer_at(data, i));
        return text;
    }
    const Real x = real_at(data, i);
    if (x != x) return "NaN";
    if (x - x != 0) return x < 0 ? "-Infinity" : "Infinity";
    std::string shortest;
    for (int digits = 1; digits <= 9; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, double(x));
        if (strtof(text, nullptr) != x) continue;
        if (shortest.empty() || strlen(text) < shortest.size()) shortest = text;
        if (!strchr(text, 'e')) break;  // More digits may need no exponent: 10, not 1e+01.
    }
    return shortest;
}

void print_lines(const Value &value, const std::vector<char> &data) {
    for (Size i = 0; i < value.rows * value.columns; i++) puts(number(value, data, i).c_str());
}

void print_named(const std::string &name, const Value &value, const std::vector<char> &data) {
    printf("%s = [", name.c_str());
    for (Size r = 0; r < value.rows; r++) {
        printf(r ? ", [" : "[");
        for (Size c = 0; c < value.columns; c++)
            printf("%s%s", c ? ", " : "", number(value, data, r * value.columns + c).c_str());
        printf("]");
    }
    printf("]\n");
}

// One variable that is read at every step: into NAME.npy or its number's, or kept for printing.
class Tap {
  public:
    Tap(const std::string &name, const Value &value, Size steps, size_t place) : name(name), value(&value) {
        if (options.dump.empty()) return;
        path = options.dump + "/" + (options.numbered ? std::to_string(place) : name) + ".npy";
        // A name of its own, since NAME may be as long as a file's name can be.
        part = options.dump + "/." + std::to_string(getpid()) + "." + std::to_string(place) + ".part";
        file = fopen(part.c_str(), "wb");
        unfinished.push_back(part);
        if (file == nullptr) end(REFUSED, "cannot write " + path + ": " + strerror(errno));
        std::string head = std::string("{'descr': '") + (value.real ? "<f4" : "<i8") +
                           "', 'fortran_order': False, 'shape': (" + std::to_string(steps) + ", " +
                           std::to_string(value.rows) + ", " + std::to_string(value.columns) + "), }";
        head.append(63 - (10 + head.size()) % 64, ' ').push_back('\n');
        const unsigned char magic[] = {0x93, 'N', 'U', 'M', 'P', 'Y', 1, 0, (unsigned char)(head.size() & 255),
                                       (unsigned char)(head.size() >> 8)};
        write(magic, sizeof magic);
        write(head.data(), head.size());
    }

    void take() { take(elements_of(*value)); }

    void take(std::vector<char> found) {
        data.swap(found);
        if (file != nullptr) write(data.data(), data.size());
    }

    void finish() {
        if (file == nullptr) return print_named(name, *value, data);
        if (fclose(file) != 0 || rename(part.c_str(), path.c_str()) != 0)
            end(REFUSED, "cannot write " + path + ": " + strerror(errno));
    }

    const Value *at() const { return value; }

  private:
    void write(const void *from, size_t count) {
        if (fwrite(from, 1, count, file) != count) end(REFUSED, "cannot write " + path + ": " + strerror(errno));
    }

    std::string name, path, part;
    const Value *value;
    FILE *file = nullptr;
    std::vector<char> data;
};

const Value *find_value(const std::string &name) {
    for (int i = 0; i < VALUES; i++)
        if (name == values[i].name) return &values[i];
    return nullptr;
}

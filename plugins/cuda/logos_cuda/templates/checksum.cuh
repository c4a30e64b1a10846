// The sum of the output in place of its elements.

std::string more_use() { return ""; }

bool take_flag(const std::string &) { return false; }

bool take_more(const std::string &, const std::string &) { return false; }

void check_more() {}

Size make_together(const std::vector<Tap *> &, Size) { return 0; }

// The sum of all elements: in double, or of Int with wrapping.
void print_checksum(const Value &value, const std::vector<char> &data) {
    double sum = 0;
    unsigned long long wrapped = 0;
    for (Size i = 0; i < value.rows * value.columns; i++) {
        if (value.real) sum += double(real_at(data, i));
        else wrapped += static_cast<unsigned long long>(integer_at(data, i));
    }
    if (value.real) printf("%.17g\n", sum);
    else printf("%lld\n", static_cast<long long>(wrapped));
}


bool run_more() {
    const std::vector<Int> ids = make_steps(names_read());
    print_checksum(values[OUTPUT], elements_of(values[OUTPUT]));
    print_ids(ids);
    return true;
}

// Words of the command line.

std::vector<std::string> split(const std::string &text) {
    std::vector<std::string> parts;
    for (size_t from = 0; from <= text.size();) {
        const size_t to = text.find(',', from) < text.size() ? text.find(',', from) : text.size();
        if (to > from) parts.push_back(text.substr(from, to - from));
        from = to + 1;
    }
    return parts;
}

Int whole(const std::string &text, const std::string &option) {
    char *rest;
    errno = 0;
    const Int found = strtoll(text.c_str(), &rest, 10);
    if (text.empty() || *rest || errno || found < 0) end(USAGE, option + ": " + text + " is no whole number");
    return found;
}

// A count of steps, to which others can be added.
Int count_of(const std::string &text, const std::string &option) {
    const Int found = whole(text, option);
    if (found > INT_MAX) end(USAGE, option + ": " + text + " is more than " + std::to_string(INT_MAX));
    return found;
}

// This kind of program has no options of its own.

std::string more_use() { return ""; }

bool take_flag(const std::string &) { return false; }

bool take_more(const std::string &, const std::string &) { return false; }

void check_more() {}

Size make_together(const std::vector<Tap *> &, Size) { return 0; }

bool run_more() { return false; }

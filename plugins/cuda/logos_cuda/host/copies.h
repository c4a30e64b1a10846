// cp.async: a copy's data is in shared memory only after the wait that covers its group, so that a missing wait shows.
#pragma once

#include "meeting.h"

namespace logos_host {

inline AsyncCopies &copies_of_current(const char *primitive) { return running(primitive).current->copies; }

[[noreturn]] __attribute__((noinline)) inline void end_unaligned(unsigned bytes, const Site &site) {
    Text what;
    what.add("logos_copy_async at %s:%d has an address that is no multiple of %u", site.file, site.line, bytes);
    end_thread(what.characters, "align both addresses, or copy the element itself");
}

inline void begin_copy(void *to, const void *from, unsigned bytes, const Site &site) {
    AsyncCopies &copies = copies_of_current("logos_copy_async");
    if ((uintptr_t(to) | uintptr_t(from)) % bytes) end_unaligned(bytes, site);
    if (copies.count == copies.room) {
        copies.room = copies.room ? 2 * copies.room : 16;
        copies.items = static_cast<AsyncCopy *>(realloc(copies.items, size_t(copies.room) * sizeof *copies.items));
        if (copies.items == nullptr) end_with("no memory is left for copies that nothing waits for", "wait for them");
    }
    // What is there until the wait is nobody's to read, be it the last data of the place.
    if (poisoning()) poison(to, bytes);
    copies.items[copies.count++] = {to, from, bytes, copies.committed};
}

// Does the copies of every committed group but the newest `pending`.
inline void wait_copies(long pending) {
    AsyncCopies &copies = copies_of_current("logos_copy_wait");
    int kept = 0;
    for (int i = 0; i < copies.count; i++) {
        const AsyncCopy &copy = copies.items[i];
        if (copy.group < copies.committed - pending) memcpy(copy.to, copy.from, copy.bytes);
        else copies.items[kept++] = copy;
    }
    copies.count = kept;
}

}  // namespace logos_host

inline void logos_copy_async(void *shared, const void *global, logos_host::Site site = logos_host::Site::here()) {
    logos_host::begin_copy(shared, global, 16, site);
}
inline void logos_copy_commit() { logos_host::copies_of_current("logos_copy_commit").committed++; }
template <int pending>
inline void logos_copy_wait() { logos_host::wait_copies(pending); }

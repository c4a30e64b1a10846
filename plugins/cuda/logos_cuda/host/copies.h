// cp.async: a copy's data is in shared memory only after the wait that covers its group, so that a missing wait shows.
#pragma once

#include "meeting.h"

namespace logos_host {

inline AsyncCopies &copies_of_current(const char *primitive) { return running(primitive).current->copies; }

[[noreturn]] __attribute__((noinline)) inline void end_unaligned(const Site &site) {
    Text what;
    what.add("logos_copy_async at %s:%d has an address that is no multiple of 16", site.file, site.line);
    end_thread(what.characters, "align both addresses, or copy the element itself");
}

inline void begin_copy(void *to, const void *from, const Site &site) {
    AsyncCopies &copies = copies_of_current("logos_copy_async");
    if ((uintptr_t(to) | uintptr_t(from)) % 16) end_unaligned(site);
    if (copies.count == copies.room) {
        copies.room = copies.room ? 2 * copies.room : 16;
        copies.items = static_cast<AsyncCopy *>(realloc(copies.items, size_t(copies.room) * sizeof *copies.items));
        if (copies.items == nullptr) end_with("no memory is left for copies that nothing waits for", "wait for them");
    }
    copies.items[copies.count++] = {to, from, copies.committed};
}

// Does the copies of every committed group but the newest `pending`.
inline void wait_copies(long pending) {
    AsyncCopies &copies = copies_of_current("logos_copy_wait");
    int kept = 0;
    for (int i = 0; i < copies.count; i++) {
        const AsyncCopy &copy = copies.items[i];
        if (copy.group < copies.committed - pending) memcpy(copy.to, copy.from, 16);
        else copies.items[kept++] = copy;
    }
    copies.count = kept;
}

}  // namespace logos_host

inline void logos_copy_async(void *shared, const void *global, logos_host::Site site = logos_host::Site::here()) {
    logos_host::begin_copy(shared, global, site);
}
inline void logos_copy_commit() { logos_host::copies_of_current("logos_copy_commit").committed++; }
template <int pending>
inline void logos_copy_wait() { logos_host::wait_copies(pending); }

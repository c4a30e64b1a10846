// Threads, made once. Within a step they meet at a barrier that spins; between steps they spin a while, then sleep.

#include <sched.h>
#include <time.h>

#include <condition_variable>
#include <thread>

inline void breathe() {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
}

// A number that threads wait for to change: they spin a while, then sleep, since this machine may have less cores free
// than threads, and who spins would keep from running whom it waits for.
class Signal {
  public:
    unsigned now() const { return value.load(std::memory_order_acquire); }

    void raise() {
        value.fetch_add(1);
        if (sleepers.load() > 0) {
            { std::lock_guard<std::mutex> hold(mutex); }
            changed.notify_all();
        }
    }

    void wait(unsigned seen) {
        for (int i = 0; i < SPINS; i++) {
            if (now() != seen) return;
            breathe();
        }
        std::unique_lock<std::mutex> hold(mutex);
        sleepers.fetch_add(1);
        changed.wait(hold, [this, seen] { return value.load() != seen; });
        sleepers.fetch_sub(1);
    }

  private:
    enum { SPINS = 4000 };  // some 50 microseconds: stages are shorter

    std::atomic<unsigned> value{0};
    std::atomic<int> sleepers{0};
    std::mutex mutex;
    std::condition_variable changed;
};

class Pool {
  public:
    typedef void (*Work)(int thread);

    void start(int threads, Work what) {
        count = threads, work = what;
        for (int i = 1; i < threads; i++) others.emplace_back([this, i] { serve(i); });
    }

    // Has every thread do the work once.
    void run() {
        if (count > 1) begin.raise();
        work(0);
        meet();
    }

    // Waits until every thread is here.
    void meet() {
        if (count == 1) return;
        const unsigned seen = phase.now();
        if (arrived.fetch_add(1, std::memory_order_acq_rel) < count - 1) return phase.wait(seen);
        arrived.store(0, std::memory_order_relaxed);
        phase.raise();
    }

    void stop() {
        ends = true;
        begin.raise();
        for (std::thread &other : others) other.join();
        others.clear();
    }

    int threads() const { return count; }

  private:
    void serve(int thread) {
        for (unsigned turn = 0;; turn++) {
            begin.wait(turn);
            if (ends) return;
            work(thread);
            meet();
        }
    }

    int count = 1;
    Work work = nullptr;
    std::vector<std::thread> others;
    Signal begin, phase;
    std::atomic<int> arrived{0};
    std::atomic<bool> ends{false};
};

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

// Spins, and lets others run where that takes long: this machine may have fewer cores than threads.
template <typename Ready>
void spin(const Ready &ready, int most) {
    for (int i = 0; !ready(); i++) {
        if (i < most) breathe();
        else sched_yield();
    }
}

class Pool {
  public:
    typedef void (*Work)(int thread);

    void start(int threads, Work what) {
        count = threads, work = what;
        for (int i = 1; i < threads; i++) others.emplace_back([this, i] { serve(i); });
    }

    // Has every thread do the work once.
    void run() {
        if (count > 1) {
            finished.store(0, std::memory_order_relaxed);
            {
                std::lock_guard<std::mutex> hold(mutex);
                turn.fetch_add(1, std::memory_order_release);
            }
            if (asleep.load() > 0) wake.notify_all();
        }
        work(0);
        spin([this] { return finished.load(std::memory_order_acquire) == count - 1; }, SPINS);
    }

    // Waits until every thread is here.
    void meet() {
        if (count == 1) return;
        const unsigned now = phase.load(std::memory_order_relaxed);
        if (arrived.fetch_add(1, std::memory_order_acq_rel) == count - 1) {
            arrived.store(0, std::memory_order_relaxed);
            phase.store(now + 1, std::memory_order_release);
            return;
        }
        spin([this, now] { return phase.load(std::memory_order_acquire) != now; }, SPINS);
    }

    void stop() {
        if (others.empty()) return;
        ends = true;
        {
            std::lock_guard<std::mutex> hold(mutex);
            turn.fetch_add(1, std::memory_order_release);
        }
        wake.notify_all();
        for (std::thread &other : others) other.join();
        others.clear();
    }

    int threads() const { return count; }

  private:
    enum { SPINS = 20000 };

    void serve(int thread) {
        for (unsigned seen = 0;;) {
            wait(seen);
            seen++;
            if (ends) return;
            work(thread);
            finished.fetch_add(1, std::memory_order_acq_rel);
        }
    }

    void wait(unsigned seen) {
        for (int i = 0; i < SPINS; i++) {
            if (turn.load(std::memory_order_acquire) != seen) return;
            breathe();
        }
        std::unique_lock<std::mutex> hold(mutex);
        asleep.fetch_add(1);
        wake.wait(hold, [this, seen] { return turn.load(std::memory_order_acquire) != seen; });
        asleep.fetch_sub(1);
    }

    int count = 1;
    Work work = nullptr;
    std::vector<std::thread> others;
    std::atomic<unsigned> turn{0}, phase{0};
    std::atomic<int> finished{0}, arrived{0}, asleep{0};
    std::atomic<bool> ends{false};
    std::mutex mutex;
    std::condition_variable wake;
};

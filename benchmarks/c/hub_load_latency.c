#include "hub_load_options.h"

enum { STEPS = 64, BUCKETS = STEPS * 60 };

static uint32_t buckets[BUCKETS];

void latency_add(uint64_t now_ns, uint64_t stamp_ns)
{
    uint64_t ns = now_ns > stamp_ns ? now_ns - stamp_ns : 0;
    unsigned high = ns < STEPS ? 0 : 63 - __builtin_clzll(ns) - 5;
    unsigned index = ns < STEPS ? ns : high * STEPS + (ns >> (high - 1) & (STEPS - 1));
    buckets[index < BUCKETS ? index : BUCKETS - 1]++;
}

/* The time that this share of all took at most. */
double latency_us(double share)
{
    uint64_t all = 0, so_far = 0;
    for (unsigned i = 0; i < BUCKETS; i++)
        all += buckets[i];
    for (unsigned i = 0; i < BUCKETS && all > 0; i++) {
        so_far += buckets[i];
        if (so_far >= share * all) {
            unsigned high = i / STEPS;
            uint64_t ns = high == 0 ? i : (uint64_t)(STEPS + i % STEPS) << (high - 1);
            return ns / 1e3;
        }
    }
    return 0;
}

/* What the load generator was asked for, and how long what it did took. */

#ifndef HUB_LOAD_OPTIONS_H
#define HUB_LOAD_OPTIONS_H

#include "hub_load.h"

struct options {
    const char *mode, *clients;
    const struct protocol *protocol, *publisher;
    unsigned port, publisher_port, connections, depth;
    unsigned window; /* connections that are being opened */
    unsigned first;  /* line of the file of clients */
    double seconds, warm_s, rate;
    uint64_t count; /* of publishes or requests, at most */
    int core;
    bool tls, subscribes;
};

extern struct options options;

void read_options(int count, char **words);

/* -- how long it took: buckets of a sixty-fourth of their size -------------------------------- */

void latency_add(uint64_t now_ns, uint64_t stamp_ns);
double latency_us(double share);

#endif

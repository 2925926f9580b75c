/* The load generator of benchmarks.hub: what its files share.

   One thread, one epoll, non-blocking sockets. A protocol (hub_load_<name>.c) turns bytes into the
   four things that the rest counts: a connection is ready, a publish was delivered, a request was
   answered, something was refused. What is written in a turn leaves with one call. */

#ifndef HUB_LOAD_H
#define HUB_LOAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* -- bytes ------------------------------------------------------------------------------------ */

struct buffer {
    uint8_t *data;
    size_t start, stop, room;
};

/* Room for so many bytes at the end; they count after `wrote`. */
uint8_t *reserve(struct buffer *to, size_t size);
void wrote(struct buffer *to, size_t size);
void append(struct buffer *to, const void *from, size_t size);
void append_text(struct buffer *to, const char *text);
__attribute__((format(printf, 2, 3))) void append_format(struct buffer *to, const char *format, ...);

static inline uint8_t *put16(uint8_t *p, uint64_t value)
{
    p[0] = value >> 8;
    p[1] = value;
    return p + 2;
}

static inline uint8_t *put32(uint8_t *p, uint64_t value)
{
    return put16(put16(p, value >> 16), value);
}

static inline uint8_t *put64(uint8_t *p, uint64_t value)
{
    return put32(put32(p, value >> 32), value);
}

static inline uint8_t *put_varint(uint8_t *p, uint64_t value)
{
    for (; value >= 128; value >>= 7)
        *p++ = value | 128;
    *p++ = value;
    return p;
}

static inline uint8_t *put_bytes(uint8_t *p, const void *from, size_t size)
{
    memcpy(p, from, size);
    return p + size;
}

static inline uint64_t get16(const uint8_t *p)
{
    return (uint64_t)p[0] << 8 | p[1];
}

static inline uint64_t get32(const uint8_t *p)
{
    return get16(p) << 16 | get16(p + 2);
}

static inline uint64_t get64(const uint8_t *p)
{
    return get32(p) << 32 | get32(p + 4);
}

/* LEB128; false when it does not end before `end`. */
static inline bool get_varint(const uint8_t **at, const uint8_t *end, uint64_t *value)
{
    uint64_t read = 0;
    const uint8_t *p = *at;
    for (unsigned shift = 0; p < end && shift < 64; shift += 7) {
        read |= (uint64_t)(*p & 127) << shift;
        if (*p++ < 128) {
            *at = p;
            *value = read;
            return true;
        }
    }
    return false;
}

static inline int64_t unzigzag(uint64_t value)
{
    return (int64_t)(value >> 1) ^ -(int64_t)(value & 1);
}

/* -- connections ------------------------------------------------------------------------------ */

enum role { SUBSCRIBER, PUBLISHER, REQUESTER, RESPONDER, SILENT };

enum operation { ECHO, ADD, PUBLISH };

struct connection {
    int fd;
    uint32_t number;
    enum role role;
    const struct protocol *protocol;
    const char *id, *token; /* who it signs on as */
    struct buffer out, rest;
    uint32_t step; /* of the protocol's opening */
    bool is_connected, is_ready, is_dirty, waits_to_write;
    uint32_t waiting;     /* requests without an answer */
    uint32_t next_number; /* the next request, or the next publish to come in */
    uint64_t sent_sum, answered_sum;
    uint64_t sent_frames;
    void *own; /* of the protocol */
    void *tls;
};

struct protocol {
    const char *name;
    bool needs_responder;
    /* The first thing that is said; NULL when the server speaks first. */
    void (*hello)(struct connection *);
    /* Takes whole frames off p; how many bytes they had. */
    size_t (*take)(struct connection *, const uint8_t *p, size_t size);
    /* Publishes the payload, not to be stored. */
    void (*publish)(struct connection *);
    /* Sends the payload as a request, by this number. */
    void (*request)(struct connection *, uint32_t number);
};

extern const struct protocol comet, esnp, tny, magline, nats, mqtt, redis;

/* -- what protocols are told ------------------------------------------------------------------ */

extern uint8_t *payload; /* of the next publish or request */
extern size_t payload_size;
extern const char *topic;
extern enum operation operation;

/* A payload begins with three numbers in letters, which are text in every protocol. */
enum { NUMBER_AT = 0, SENDER_AT = 8, STAMP_AT = 16, HEAD_BYTES = 32 };

void put_letters(uint8_t *p, uint64_t value, size_t letters);
uint64_t get_letters(const uint8_t *p, size_t letters);

/* -- what protocols tell ---------------------------------------------------------------------- */

void ready(struct connection *);
void delivered(struct connection *, const uint8_t *content, size_t size);
/* `content` is NULL where an answer carries none; the number is then the protocol's own. */
void answered(struct connection *, uint32_t number, const uint8_t *content, size_t size);
void refused(struct connection *, const void *text, size_t size);
void frames_came(uint64_t count);
/* There is something in `out`. */
void touch(struct connection *);
_Noreturn void stop(const char *what, const char *why);

/* -- TLS -------------------------------------------------------------------------------------- */

bool tls_prepare(void);
void tls_open(struct connection *);
/* 1 when done, 0 when the peer has yet to speak, -1 when it failed. */
int tls_handshake(struct connection *);
/* As read and write; EAGAIN when the peer has yet to speak or to read. */
ptrdiff_t tls_read(struct connection *, void *to, size_t size);
ptrdiff_t tls_write(struct connection *, const void *from, size_t size);

#endif

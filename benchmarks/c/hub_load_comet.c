/* comet: subscribers and silent connections. Frames are a 16-bit length, a type, a body. */

#include "hub_load.h"

enum { AUTH = 0, SUBSCRIBE = 3 };
enum { OK = 0, ERROR = 1, AUTH_SUCCESS = 2, MESSAGE = 5 };

static uint8_t *put_string(uint8_t *p, const char *text)
{
    size_t size = strlen(text);
    return put_bytes(put16(p, size), text, size);
}

static void put_frame(struct connection *c, unsigned type, const uint8_t *body, size_t size)
{
    uint8_t *p = reserve(&c->out, 3 + size);
    p = put16(p, 1 + size);
    *p++ = type;
    put_bytes(p, body, size);
    wrote(&c->out, 3 + size);
    c->sent_frames++;
    touch(c);
}

static void hello(struct connection *c)
{
    uint8_t body[1024];
    uint8_t *p = put_string(put_string(body, c->id), c->token);
    put_frame(c, AUTH, body, p - body);
}

static void subscribe(struct connection *c)
{
    uint8_t body[512];
    body[0] = 1;
    put_frame(c, SUBSCRIBE, body, put_string(body + 1, topic) - body);
}

static void notified(struct connection *c, const uint8_t *p, const uint8_t *end)
{
    /* u8 type, string id, string content, i64 ts */
    const uint8_t *id = p + 1, *content = id + 2 + get16(id);
    delivered(c, content + 2, get16(content));
    if (content + 2 + get16(content) + 8 != end)
        refused(c, "notification of a wrong size", 28);
}

static size_t take(struct connection *c, const uint8_t *data, size_t size)
{
    const uint8_t *p = data, *end = data + size;
    uint64_t frames = 0;
    while (end - p >= 3) {
        size_t length = get16(p);
        if ((size_t)(end - p) < 2 + length)
            break;
        const uint8_t *body = p + 3;
        unsigned type = p[2];
        p += 2 + length;
        frames++;
        if (type == MESSAGE)
            notified(c, body, p);
        else if (type == ERROR)
            refused(c, body + 3, p - body - 3);
        else if (type == AUTH_SUCCESS && c->role == SUBSCRIBER)
            subscribe(c);
        else if (!c->is_ready)
            ready(c);
    }
    frames_came(frames);
    return p - data;
}

const struct protocol comet = {.name = "comet", .hello = hello, .take = take};

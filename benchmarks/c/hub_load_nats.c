/* NATS: lines, and payloads after some of them. A request is answered by a responder in here. */

#include <stdio.h>
#include <stdlib.h>

#include "hub_load.h"

static void say(struct connection *c, const char *text)
{
    append_text(&c->out, text);
    touch(c);
}

static void opened(struct connection *c)
{
    say(c, "CONNECT {\"verbose\":false,\"pedantic\":false,\"lang\":\"c\",\"version\":\"1\"}\r\n");
    if (c->role == SUBSCRIBER)
        append_format(&c->out, "SUB %s 1\r\n", topic);
    else if (c->role == REQUESTER)
        append_format(&c->out, "SUB reply.%u 1\r\n", c->number);
    else if (c->role == RESPONDER)
        append_format(&c->out, "SUB service 1\r\n");
    say(c, "PING\r\n"); /* its PONG says that all before it was taken */
}

static void put_payload(struct connection *c, const char *head, size_t head_size)
{
    uint8_t *p = reserve(&c->out, head_size + payload_size + 2);
    p = put_bytes(p, head, head_size);
    p = put_bytes(p, payload, payload_size);
    put_bytes(p, "\r\n", 2);
    wrote(&c->out, head_size + payload_size + 2);
    c->sent_frames++;
    touch(c);
}

static void publish(struct connection *c)
{
    char head[300];
    put_payload(c, head, snprintf(head, sizeof head, "PUB %s %zu\r\n", topic, payload_size));
}

static void request(struct connection *c, uint32_t number)
{
    (void)number;
    char head[64];
    int size = snprintf(head, sizeof head, "PUB service reply.%u %zu\r\n", c->number, payload_size);
    put_payload(c, head, size);
}

static void respond(struct connection *c, const uint8_t *to, size_t to_size, const uint8_t *content,
                    size_t size)
{
    uint8_t *start = reserve(&c->out, to_size + size + 32), *p = start;
    p = put_bytes(p, "PUB ", 4);
    p = put_bytes(p, to, to_size);
    p += sprintf((char *)p, " %zu\r\n", size);
    p = put_bytes(p, content, size);
    p = put_bytes(p, "\r\n", 2);
    wrote(&c->out, p - start);
    touch(c);
}

/* MSG subject sid [reply] size: the last words of a line that ends at `end`. */
static size_t message(struct connection *c, const uint8_t *line, const uint8_t *end,
                      const uint8_t *stop_at)
{
    const uint8_t *word = end, *reply_end;
    while (word[-1] != ' ')
        word--;
    size_t size = 0;
    for (const uint8_t *p = word; p < end; p++)
        size = size * 10 + (*p - '0');
    const uint8_t *content = end + 2;
    if ((size_t)(stop_at - content) < size + 2)
        return 0;
    if (c->role == SUBSCRIBER) {
        delivered(c, content, size);
    } else if (c->role == REQUESTER) {
        answered(c, 0, content, size);
    } else {
        const uint8_t *reply = reply_end = word - 1;
        while (reply > line && reply[-1] != ' ')
            reply--;
        respond(c, reply, reply_end - reply, content, size);
    }
    return content + size + 2 - line;
}

static size_t take(struct connection *c, const uint8_t *data, size_t size)
{
    const uint8_t *p = data, *end = data + size;
    uint64_t frames = 0;
    while (p < end) {
        const uint8_t *line_end = memchr(p, '\r', end - p);
        if (line_end == NULL || end - line_end < 2)
            break;
        size_t length = line_end + 2 - p;
        if (*p == 'M') {
            length = message(c, p, line_end, end);
            if (length == 0)
                break;
            frames++;
        } else if (memcmp(p, "INFO", 4) == 0) {
            if (c->step++ == 0)
                opened(c);
        } else if (memcmp(p, "PING", 4) == 0) {
            say(c, "PONG\r\n");
        } else if (memcmp(p, "PONG", 4) == 0) {
            if (!c->is_ready)
                ready(c);
        } else if (*p == '-') {
            refused(c, p, line_end - p);
        }
        p += length;
    }
    frames_came(frames);
    return p - data;
}

const struct protocol nats = {
    .name = "nats", .needs_responder = true, .take = take, .publish = publish, .request = request};

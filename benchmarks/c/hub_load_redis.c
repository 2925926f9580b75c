/* RESP, as redis speaks it: SUBSCRIBE and PUBLISH, and ECHO, which the server itself answers. */

#include <stdio.h>
#include <stdlib.h>

#include "hub_load.h"

static void hello(struct connection *c)
{
    if (c->role == SUBSCRIBER)
        append_format(&c->out, "SUBSCRIBE %s\r\n", topic);
    else
        append_text(&c->out, "PING\r\n");
    touch(c);
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
    char head[400];
    int size = snprintf(head, sizeof head, "*3\r\n$7\r\nPUBLISH\r\n$%zu\r\n%s\r\n$%zu\r\n",
                        strlen(topic), topic, payload_size);
    put_payload(c, head, size);
}

static void request(struct connection *c, uint32_t number)
{
    (void)number;
    char head[64];
    put_payload(c, head,
                snprintf(head, sizeof head, "*2\r\n$4\r\nECHO\r\n$%zu\r\n", payload_size));
}

/* A number after a type's character; 0 when the line has not come to its end. */
static const uint8_t *read_line(const uint8_t *p, const uint8_t *end, int64_t *value)
{
    int64_t read = 0;
    for (p++; p < end && *p != '\r'; p++)
        read = read * 10 + (*p - '0');
    *value = read;
    return end - p < 2 ? NULL : p + 2;
}

static const uint8_t *read_bulk(const uint8_t *p, const uint8_t *end, const uint8_t **content,
                                int64_t *size)
{
    if (p >= end || (p = read_line(p, end, size)) == NULL || end - p < *size + 2)
        return NULL;
    *content = p;
    return p + *size + 2;
}

/* [message, topic, content], or [subscribe, topic, count]. */
static const uint8_t *read_push(struct connection *c, const uint8_t *p, const uint8_t *end)
{
    const uint8_t *kind, *name, *content;
    int64_t items, kind_size, name_size, size;
    if ((p = read_line(p, end, &items)) == NULL ||
        (p = read_bulk(p, end, &kind, &kind_size)) == NULL ||
        (p = read_bulk(p, end, &name, &name_size)) == NULL)
        return NULL;
    if (*kind == 's') {
        if (p >= end || (p = read_line(p, end, &size)) == NULL)
            return NULL;
        ready(c);
        return p;
    }
    if ((p = read_bulk(p, end, &content, &size)) == NULL)
        return NULL;
    delivered(c, content, size);
    return p;
}

static size_t take(struct connection *c, const uint8_t *data, size_t size)
{
    const uint8_t *p = data, *end = data + size, *next, *content;
    uint64_t frames = 0;
    int64_t value;
    for (; p < end; p = next, frames++) {
        if (*p == '*') {
            next = read_push(c, p, end);
        } else if (*p == '$') {
            next = read_bulk(p, end, &content, &value);
            if (next != NULL)
                answered(c, 0, content, value);
        } else {
            next = read_line(p, end, &value);
            if (next != NULL && *p == '-')
                refused(c, p, next - p);
            else if (next != NULL && *p == '+')
                ready(c);
        }
        if (next == NULL)
            break;
    }
    frames_came(frames);
    return p - data;
}

const struct protocol redis = {
    .name = "redis", .hello = hello, .take = take, .publish = publish, .request = request};

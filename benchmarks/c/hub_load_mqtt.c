/* MQTT 3.1.1, QoS 0. A request goes to one topic, its answer comes back on another. */

#include <stdio.h>
#include <stdlib.h>

#include "hub_load.h"

enum { CONNECT = 0x10, CONNACK = 0x20, PUBLISHED = 0x30, SUBSCRIBE = 0x82, SUBACK = 0x90 };
enum { CLEAN_SESSION = 2 };

static uint8_t *put_string(uint8_t *p, const char *text)
{
    size_t size = strlen(text);
    return put_bytes(put16(p, size), text, size);
}

static void put_packet(struct connection *c, unsigned type, const uint8_t *body, size_t size)
{
    uint8_t *start = reserve(&c->out, size + 8), *p = start;
    *p++ = type;
    p = put_bytes(put_varint(p, size), body, size);
    wrote(&c->out, p - start);
    touch(c);
}

static void hello(struct connection *c)
{
    uint8_t body[128];
    char name[32];
    snprintf(name, sizeof name, "load-%d-%u", c->role, c->number);
    uint8_t *p = put_string(body, "MQTT");
    *p++ = 4; /* 3.1.1 */
    *p++ = CLEAN_SESSION;
    p = put_string(put16(p, 600), name);
    put_packet(c, CONNECT, body, p - body);
}

static void put_publish(struct connection *c, const char *to, const uint8_t *content, size_t size)
{
    size_t name_size = strlen(to);
    uint8_t *start = reserve(&c->out, size + name_size + 16), *p = start;
    *p++ = PUBLISHED;
    p = put_varint(p, 2 + name_size + size);
    p = put_bytes(put16(p, name_size), to, name_size);
    p = put_bytes(p, content, size);
    wrote(&c->out, p - start);
    c->sent_frames++;
    touch(c);
}

static void opened(struct connection *c)
{
    char name[300];
    if (c->role == SUBSCRIBER)
        snprintf(name, sizeof name, "%s", topic);
    else if (c->role == REQUESTER)
        snprintf(name, sizeof name, "reply/%u", c->number);
    else if (c->role == RESPONDER)
        snprintf(name, sizeof name, "service");
    else {
        ready(c);
        return;
    }
    uint8_t body[400], *p = put_string(put16(body, 1), name);
    *p++ = 0;
    put_packet(c, SUBSCRIBE, body, p - body);
}

static void publish(struct connection *c)
{
    put_publish(c, topic, payload, payload_size);
}

static void request(struct connection *c, uint32_t number)
{
    (void)number;
    put_publish(c, "service", payload, payload_size);
}

static void came(struct connection *c, const uint8_t *p, const uint8_t *end)
{
    const uint8_t *content = p + 2 + get16(p);
    size_t size = end - content;
    if (c->role == SUBSCRIBER) {
        delivered(c, content, size);
    } else if (c->role == REQUESTER) {
        answered(c, 0, content, size);
    } else {
        char name[32];
        snprintf(name, sizeof name, "reply/%u", (unsigned)get_letters(content + SENDER_AT, 8));
        put_publish(c, name, content, size);
    }
}

static size_t take(struct connection *c, const uint8_t *data, size_t size)
{
    const uint8_t *whole = data, *end = data + size;
    uint64_t frames = 0;
    while (end - whole >= 2) {
        const uint8_t *p = whole + 1;
        uint64_t length;
        if (!get_varint(&p, end, &length) || (uint64_t)(end - p) < length)
            break;
        unsigned type = *whole & 0xF0;
        whole = p + length;
        frames++;
        if (type == PUBLISHED)
            came(c, p, whole);
        else if (type == CONNACK && p[1] != 0)
            refused(c, "CONNACK", 7);
        else if (type == CONNACK)
            opened(c);
        else if (type == SUBACK)
            ready(c);
    }
    frames_came(frames);
    return whole - data;
}

const struct protocol mqtt = {.name = "mqtt",
                              .needs_responder = true,
                              .hello = hello,
                              .take = take,
                              .publish = publish,
                              .request = request};

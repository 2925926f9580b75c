/* tny in the dialect of its document: "tny.", an option, a little-endian length, a payload. */

#include <stdio.h>
#include <stdlib.h>

#include "hub_load.h"

enum { HEAD = 9, ACCESS_ID = 1, HAS_BODY = 4, MODES = 3, SUCCESS = 100 };
enum { RESPONSE = 1, PUSH = 2 };
enum { SIGN_ON = 10, PUBLISH_CALL = 13, ECHO_CALL = 1001, ADD_CALL = 1002 };

static void put_request(struct connection *c, unsigned call, const void *body, size_t size)
{
    uint8_t *start = reserve(&c->out, 128 + size), *p = start + HEAD;
    uint64_t number = ++c->step;
    p = put_varint(p, ACCESS_ID);
    p = put_varint(p, number);
    p = put_varint(p, number); /* the message's id */
    *p++ = HAS_BODY;
    p = put_varint(p, call);
    p = put_varint(p, SUCCESS);
    p = put_varint(p, 0);
    p = put_varint(p, 1651234567890u);
    p = put_bytes(put_varint(p, size), body, size);
    memcpy(start, "tny.", 5);
    uint32_t length = p - start - HEAD;
    for (unsigned i = 0; i < 4; i++)
        start[5 + i] = length >> 8 * i;
    wrote(&c->out, p - start);
    c->sent_frames++;
    touch(c);
}

static void hello(struct connection *c)
{
    char body[1024];
    int size = snprintf(body, sizeof body, "{\"id\":\"%s\",\"token\":\"%s\"}", c->id, c->token);
    put_request(c, SIGN_ON, body, size);
}

static void request(struct connection *c, uint32_t number)
{
    static char *body;
    if (body == NULL)
        body = malloc(512 + payload_size);
    int size;
    switch (operation) {
    case ECHO:
        put_request(c, ECHO_CALL, payload, payload_size);
        break;
    case ADD:
        size = snprintf(body, 512, "{\"a\":%u,\"b\":1}", number);
        put_request(c, ADD_CALL, body, size);
        break;
    default:
        size = sprintf(body, "{\"topic\":\"%s\",\"content\":\"", topic);
        memcpy(body + size, payload, payload_size);
        memcpy(body + size + payload_size, "\"}", 2);
        put_request(c, PUBLISH_CALL, body, size + payload_size + 2);
    }
}

/* The sum in {"c":...}. */
static bool is_sum(const uint8_t *p, size_t size, uint64_t wanted)
{
    char text[32];
    int length = snprintf(text, sizeof text, "{\"c\":%llu}", (unsigned long long)wanted);
    return size == (size_t)length && memcmp(p, text, size) == 0;
}

static void handle(struct connection *c, const uint8_t *p, const uint8_t *end)
{
    uint64_t skipped, call, code, answers, size = 0;
    bool is_good = get_varint(&p, end, &skipped) && get_varint(&p, end, &skipped) &&
                   get_varint(&p, end, &skipped) && p < end;
    unsigned option = is_good ? *p++ : 0;
    is_good = is_good && get_varint(&p, end, &call) && get_varint(&p, end, &code) &&
              get_varint(&p, end, &answers) && get_varint(&p, end, &skipped);
    if (is_good && option & HAS_BODY)
        is_good = get_varint(&p, end, &size) && size == (uint64_t)(end - p);
    if (!is_good || code != SUCCESS || (option & MODES) != RESPONSE) {
        refused(c, p, end - p);
    } else if (call == SIGN_ON) {
        ready(c);
    } else if (operation == ECHO) {
        answered(c, answers - 2, p, size);
    } else {
        uint32_t number = answers - 2; /* the first message signed on */
        if (operation == ADD && !is_sum(p, size, (uint64_t)number + 1))
            refused(c, "a wrong sum", 11);
        answered(c, number, NULL, 0);
    }
}

static size_t take(struct connection *c, const uint8_t *data, size_t size)
{
    const uint8_t *p = data, *end = data + size;
    uint64_t packets = 0;
    while (end - p >= HEAD) {
        if (memcmp(p, "tny.", 4) != 0)
            stop("tny", "what came is no packet");
        size_t length = p[5] | p[6] << 8 | p[7] << 16 | (size_t)p[8] << 24;
        if ((size_t)(end - p) < HEAD + length)
            break;
        bool is_message = p[4] == 0;
        p += HEAD + length;
        packets++;
        if (is_message)
            handle(c, p - length, p);
    }
    frames_came(packets);
    return p - data;
}

const struct protocol tny = {.name = "tny", .hello = hello, .take = take, .request = request};

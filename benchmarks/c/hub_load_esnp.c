/* ESNP: messages of rows, each a type, a 24-bit size and a body; an empty row ends a message. */

#include "hub_load.h"

enum {
    END = 0,
    MESSAGE_ID = 0x11,
    SOURCE_MESSAGE_ID = 0x12,
    DATA = 0x15,
    PAYLOAD = 0x16,
    ADDRESS = 0x17,
    ERROR = 0x1D,
    FLAG = 0x1E,
};
enum { RESPONSE = 3, REQUEST = 4, EVENT = 6, ASYNC = 7 };
enum { SERVICE = 30, OP = 20 };
enum { VAR_INT32 = 5, VAR_INT64 = 6, VAR_BYTES = 17, VAR_STRING = 24 };
enum { OPENING_STEPS = 16 }; /* ids of the opening; requests come after */

/* -- writing ---------------------------------------------------------------------------------- */

static uint8_t *put_head(uint8_t *p, unsigned type, size_t size)
{
    return put32(p, (uint64_t)type << 24 | size);
}

static uint8_t *put_len_bytes(uint8_t *p, const void *from, size_t size)
{
    return put_bytes(put_varint(p, size * 2), from, size);
}

static uint8_t *put_flag(uint8_t *p, unsigned flag)
{
    return put_varint(put_head(p, FLAG, 1), flag * 2);
}

static uint8_t *put_address(uint8_t *p, unsigned kind, const char *name)
{
    size_t size = strlen(name);
    p = put_head(p, ADDRESS, 2 + size);
    return put_len_bytes(put_varint(p, kind * 2), name, size);
}

/* A DATA row of a size that is known when it is written. */
static uint8_t *put_data(uint8_t *p, const char *name, const uint8_t *var, size_t size)
{
    uint8_t *body = put_len_bytes(p + 4, name, strlen(name));
    body = put_bytes(body, var, size);
    put_head(p, DATA, body - p - 4);
    return body;
}

static uint8_t *put_text(uint8_t *p, const char *name, const void *text, size_t size)
{
    uint8_t *body = put_len_bytes(p + 4, name, strlen(name));
    *body++ = VAR_STRING;
    body = put_len_bytes(body, text, size);
    put_head(p, DATA, body - p - 4);
    return body;
}

static uint8_t *put_number(uint8_t *p, const char *name, uint32_t value)
{
    uint8_t var[8] = {VAR_INT32};
    return put_data(p, name, var, put_varint(var + 1, (uint64_t)value * 2) - var);
}

static uint8_t *put_call(uint8_t *p, const char *service, const char *op, uint64_t id, bool is_async)
{
    p = put_flag(p, REQUEST);
    if (is_async)
        p = put_flag(p, ASYNC);
    p = put_address(p, SERVICE, service);
    p = put_address(p, OP, op);
    return put64(put_head(p, MESSAGE_ID, 8), id);
}

static void finish(struct connection *c, uint8_t *start, uint8_t *p)
{
    wrote(&c->out, put_head(p, END, 0) - start);
    c->sent_frames++;
    touch(c);
}

static void sign_on(struct connection *c)
{
    uint8_t *start = reserve(&c->out, 1024);
    uint8_t *p = put_call(start, "hub", "auth", ++c->step, false);
    p = put_text(p, "id", c->id, strlen(c->id));
    finish(c, start, put_text(p, "token", c->token, strlen(c->token)));
}

static void subscribe(struct connection *c)
{
    uint8_t *start = reserve(&c->out, 1024);
    uint8_t *p = put_call(start, "hub", "subscribe", ++c->step, false);
    finish(c, start, put_text(p, "topic", topic, strlen(topic)));
}

static void publish(struct connection *c)
{
    uint8_t *start = reserve(&c->out, 512 + payload_size);
    uint8_t *p = put_call(start, "hub", "publish", OPENING_STEPS + c->next_number++, false);
    p = put_text(p, "topic", topic, strlen(topic));
    p = put_text(p, "content", payload, payload_size);
    finish(c, start, put_number(p, "ttl_s", 0));
}

static void request(struct connection *c, uint32_t number)
{
    uint8_t *start = reserve(&c->out, 512 + payload_size), *p;
    uint64_t id = OPENING_STEPS + (uint64_t)number;
    switch (operation) {
    case ECHO:
        p = put_call(start, "test", "echo", id, false);
        p = put_bytes(put_head(p, PAYLOAD, payload_size), payload, payload_size);
        break;
    case ADD:
        p = put_call(start, "test", "add", id, false);
        p = put_number(put_number(p, "a", number), "b", 1);
        break;
    default:
        p = put_call(start, "hub", "publish", id, true);
        p = put_text(p, "topic", topic, strlen(topic));
        p = put_text(p, "content", payload, payload_size);
    }
    finish(c, start, p);
}

/* -- reading ---------------------------------------------------------------------------------- */

struct slice {
    const uint8_t *data;
    size_t size;
};

struct message {
    uint32_t flags;
    uint64_t answers;
    bool failed;
    struct slice error, payload, content, sum;
};

static bool read_slice(const uint8_t **at, const uint8_t *end, struct slice *to)
{
    uint64_t size;
    if (!get_varint(at, end, &size) || size / 2 > (uint64_t)(end - *at))
        return false;
    to->data = *at;
    to->size = size / 2;
    *at += to->size;
    return true;
}

static bool is_named(struct slice name, const char *wanted)
{
    return name.size == strlen(wanted) && memcmp(name.data, wanted, name.size) == 0;
}

static void read_data(const uint8_t *p, const uint8_t *end, struct message *m)
{
    struct slice name;
    if (!read_slice(&p, end, &name) || p >= end)
        return;
    if (is_named(name, "content")) {
        unsigned type = *p++;
        if (type == VAR_STRING || type == VAR_BYTES)
            read_slice(&p, end, &m->content);
    } else if (is_named(name, "c")) {
        m->sum.data = p;
        m->sum.size = end - p;
    }
}

static void read_row(unsigned type, const uint8_t *body, size_t size, struct message *m)
{
    const uint8_t *end = body + size;
    uint64_t flag;
    switch (type) {
    case FLAG:
        if (get_varint(&body, end, &flag) && flag < 64)
            m->flags |= 1u << (flag / 2);
        break;
    case SOURCE_MESSAGE_ID:
        m->answers = size == 8 ? get64(body) : 0;
        break;
    case ERROR:
        m->failed = true;
        m->error = (struct slice){body, size};
        break;
    case PAYLOAD:
        m->payload = (struct slice){body, size};
        break;
    case DATA:
        read_data(body, end, m);
        break;
    default:
        break;
    }
}

static void sum_answered(struct connection *c, uint32_t number, struct slice var)
{
    const uint8_t *p = var.data + 1;
    uint64_t value;
    bool is_int = var.size > 1 && (var.data[0] == VAR_INT32 || var.data[0] == VAR_INT64);
    if (!is_int || !get_varint(&p, var.data + var.size, &value) ||
        unzigzag(value) != (int64_t)number + 1)
        refused(c, "a wrong sum", 11);
    answered(c, number, NULL, 0);
}

static void handle(struct connection *c, const struct message *m)
{
    if (m->flags & 1u << EVENT) {
        delivered(c, m->content.data, m->content.size);
    } else if (m->failed) {
        refused(c, m->error.data, m->error.size);
    } else if (m->answers < OPENING_STEPS) {
        if (c->role == SUBSCRIBER && c->step == 1)
            subscribe(c);
        else
            ready(c);
    } else if (c->role == REQUESTER) {
        uint32_t number = m->answers - OPENING_STEPS;
        if (operation == ADD)
            sum_answered(c, number, m->sum);
        else if (operation == ECHO)
            answered(c, number, m->payload.data, m->payload.size);
        else
            answered(c, number, NULL, 0);
    }
}

static size_t take(struct connection *c, const uint8_t *data, size_t size)
{
    const uint8_t *whole = data, *p = data, *end = data + size;
    struct message m = {0};
    uint64_t messages = 0;
    while (end - p >= 4) {
        uint64_t head = get32(p);
        unsigned type = head >> 24;
        size_t length = head & 0xFFFFFF;
        if ((size_t)(end - p) < 4 + length)
            break;
        p += 4 + length;
        if (type != END) {
            read_row(type, p - length, length, &m);
            continue;
        }
        whole = p;
        messages++;
        handle(c, &m);
        m = (struct message){0};
    }
    frames_came(messages);
    return whole - data;
}

const struct protocol esnp = {
    .name = "esnp", .hello = sign_on, .take = take, .publish = publish, .request = request};

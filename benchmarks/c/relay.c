/* RelayPack: arguments in protobuf, and the tunnel that carries messages of tny. */

#include "common.h"
#include "tny_message.h"

enum { HEAD = 7, LEAST = 13, LENGTH_LIMIT = 2 << 20 };

static inline bool begins_well(const uint8_t *p)
{
    return p[0] == 'r' && p[1] == 'p' && p[2] == 'k';
}

SCAN
{
    int64_t n = 0;
    for (int64_t r = 0; r < run_count; r++) {
        uint64_t pos = run_starts[r], end = run_stops[r];
        bool is_bad = false;
        while (pos < end) {
            const uint8_t *p = buf + pos;
            uint64_t left = end - pos;
            if (left < HEAD) {
                is_bad = memcmp(p, "rpk", left < 3 ? left : 3) != 0;
                break;
            }
            uint64_t length = little32(p + 3);
            if (!begins_well(p) || length < LEAST || length > LENGTH_LIMIT) {
                is_bad = true;
                break;
            }
            uint64_t stop = pos + HEAD + length;
            if (stop > end)
                break;
            starts[n] = pos;
            stops[n] = stop;
            runs[n] = r;
            n++;
            pos = stop;
        }
        reached[r] = pos;
        wrong[r] = is_bad;
    }
    return n;
}

struct blobs {
    int32_t *start, *size;
};

struct tunnel_columns {
    int64_t *instance_id, *tunnel_id;
};

struct relay_packet_columns {
    int32_t *id;
    int16_t *reserved;
    int64_t *time;
    uint8_t *alternative;
    struct blobs link_open_service;
    int64_t *link_open_instance;
    struct blobs link_open_key;
    int32_t *link_open_service_type;
    uint8_t *link_open_service_type_valid;
    uint8_t *link_opened_result;
    struct blobs connect_ip;
    int32_t *connect_port;
    struct tunnel_columns connect;
    uint8_t *connected_result;
    struct tunnel_columns connected, disconnect, switch_link, relay;
    struct message_columns message;
};

typedef const struct relay_packet_columns *restrict into;

static inline bool read_blob(const uint8_t **at, const uint8_t *end, uint64_t *size)
{
    return varint(at, end, size) && *size <= (uint64_t)(end - *at);
}

static inline bool read_fixed64(const uint8_t **at, const uint8_t *end, int64_t *value)
{
    if (end - *at < 8)
        return false;
    *value = little64(*at);
    *at += 8;
    return true;
}

static inline bool read_text(bytes buf, const uint8_t **at, const uint8_t *end, struct blobs to,
                             int64_t row)
{
    uint64_t size;
    if (!read_blob(at, end, &size) || !utf8(*at, *at + size))
        return false;
    to.start[row] = *at - buf;
    to.size[row] = size;
    *at += size;
    return true;
}

static bool read_link_open(bytes buf, const uint8_t *p, const uint8_t *end, into to, int64_t row)
{
    to->link_open_service.start[row] = to->link_open_service.size[row] = 0;
    to->link_open_instance[row] = 0;
    to->link_open_key.start[row] = to->link_open_key.size[row] = 0;
    to->link_open_service_type[row] = 0;
    to->link_open_service_type_valid[row] = 0;
    while (p < end) {
        uint64_t key, value;
        if (!varint(&p, end, &key))
            return false;
        switch (key) {
        case 10:
            if (!read_text(buf, &p, end, to->link_open_service, row))
                return false;
            break;
        case 17:
            if (!read_fixed64(&p, end, &to->link_open_instance[row]))
                return false;
            break;
        case 26:
            if (!read_text(buf, &p, end, to->link_open_key, row))
                return false;
            break;
        case 32:
            if (!varint(&p, end, &value))
                return false;
            to->link_open_service_type[row] = value;
            to->link_open_service_type_valid[row] = 1;
            break;
        default:
            return false;
        }
    }
    return true;
}

static bool read_link_opened(const uint8_t *p, const uint8_t *end, into to, int64_t row)
{
    to->link_opened_result[row] = 0;
    while (p < end) {
        uint64_t key, value;
        if (!varint(&p, end, &key) || key != 8 || !varint(&p, end, &value))
            return false;
        to->link_opened_result[row] = value != 0;
    }
    return true;
}

/* The fields that all tunnels have; false for any other. */
static inline bool read_tunnel_field(uint64_t key, const uint8_t **at, const uint8_t *end,
                                     struct tunnel_columns to, int64_t row)
{
    if (key == 9)
        return read_fixed64(at, end, &to.instance_id[row]);
    return key == 17 && read_fixed64(at, end, &to.tunnel_id[row]);
}

static inline bool read_tunnel(const uint8_t *p, const uint8_t *end, struct tunnel_columns to,
                               int64_t row)
{
    to.instance_id[row] = to.tunnel_id[row] = 0;
    while (p < end) {
        uint64_t key;
        if (!varint(&p, end, &key) || !read_tunnel_field(key, &p, end, to, row))
            return false;
    }
    return true;
}

static inline bool read_connect(bytes buf, const uint8_t *p, const uint8_t *end, into to,
                                int64_t row)
{
    to->connect_ip.start[row] = to->connect_ip.size[row] = 0;
    to->connect_port[row] = 0;
    to->connect.instance_id[row] = to->connect.tunnel_id[row] = 0;
    while (p < end) {
        uint64_t key, value;
        if (!varint(&p, end, &key))
            return false;
        if (key == 82) {
            if (!read_blob(&p, end, &value) || (value != 0 && value != 4 && value != 16))
                return false;
            to->connect_ip.start[row] = p - buf;
            to->connect_ip.size[row] = value;
            p += value;
        } else if (key == 88) {
            if (!varint(&p, end, &value))
                return false;
            to->connect_port[row] = value;
        } else if (!read_tunnel_field(key, &p, end, to->connect, row)) {
            return false;
        }
    }
    return true;
}

static inline bool read_connected(const uint8_t *p, const uint8_t *end, into to, int64_t row)
{
    to->connected_result[row] = 0;
    to->connected.instance_id[row] = to->connected.tunnel_id[row] = 0;
    while (p < end) {
        uint64_t key, value;
        if (!varint(&p, end, &key))
            return false;
        if (key == 80) {
            if (!varint(&p, end, &value))
                return false;
            to->connected_result[row] = value != 0;
        } else if (!read_tunnel_field(key, &p, end, to->connected, row)) {
            return false;
        }
    }
    return true;
}

enum { LINK_OPEN = 1, LINK_OPENED, LINK_CLOSE, LINK_PING = 5, LINK_PONG };
enum { CONNECT = 17, CONNECTED, DISCONNECT, SWITCH_LINK, RELAY };

DECODE(relay_packet)
{
    const struct relay_packet_columns to = *(const struct relay_packet_columns *)columns;
    int64_t n_bad = 0, link_opens = 0, link_openeds = 0, connects = 0, connecteds = 0,
            disconnects = 0, switches = 0, relays = 0;
    for (int64_t i = 0; i < count; i++) {
        const uint8_t *p = buf + starts[i], *end = buf + stops[i];
        if (end - p < HEAD + LEAST || !begins_well(p) ||
            little32(p + 3) != (uint64_t)(end - p - HEAD))
            goto give_up;
        p += HEAD;
        unsigned head = p[4], alternative;
        to.id[i] = little32(p);
        to.reserved[i] = head >> 5;
        to.time[i] = little64(p + 5);
        p += LEAST;
        switch (head & 31) {
        case LINK_OPEN:
            if (!read_link_open(buf, p, end, &to, link_opens))
                goto give_up;
            link_opens++;
            alternative = 0;
            break;
        case LINK_OPENED:
            if (!read_link_opened(p, end, &to, link_openeds))
                goto give_up;
            link_openeds++;
            alternative = 1;
            break;
        case LINK_CLOSE:
        case LINK_PING:
        case LINK_PONG:
            if (p != end)
                goto give_up;
            alternative = (head & 31) == LINK_CLOSE ? 2 : (head & 31) - 2;
            break;
        case CONNECT:
            if (!read_connect(buf, p, end, &to, connects))
                goto give_up;
            connects++;
            alternative = 5;
            break;
        case CONNECTED:
            if (!read_connected(p, end, &to, connecteds))
                goto give_up;
            connecteds++;
            alternative = 6;
            break;
        case DISCONNECT:
            if (!read_tunnel(p, end, to.disconnect, disconnects))
                goto give_up;
            disconnects++;
            alternative = 7;
            break;
        case SWITCH_LINK:
            if (!read_tunnel(p, end, to.switch_link, switches))
                goto give_up;
            switches++;
            alternative = 8;
            break;
        case RELAY:
            if (end - p < 16)
                goto give_up;
            to.relay.instance_id[relays] = little64(p);
            to.relay.tunnel_id[relays] = little64(p + 8);
            if (!read_message(buf, p + 16, end, &to.message, relays))
                goto give_up;
            relays++;
            alternative = 9;
            break;
        default:
            goto give_up;
        }
        to.alternative[i] = alternative;
        continue;
    give_up:
        bad[n_bad++] = i;
    }
    const int64_t found[] = {link_opens,  link_openeds, connects, connecteds,
                             disconnects, switches,     relays};
    memcpy(counts, found, sizeof found);
    return n_bad;
}

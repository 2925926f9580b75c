/* comet: frames of both directions, lists in tables of their own. */

#include "common.h"

SCAN
{
    int64_t n = 0;
    for (int64_t r = 0; r < run_count; r++) {
        uint64_t pos = run_starts[r], end = run_stops[r];
        bool is_bad = false;
        while (end - pos >= 2) {
            uint64_t length = big16(buf + pos);
            if (length == 0) {
                is_bad = true;
                break;
            }
            uint64_t stop = pos + 2 + length;
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

struct strings {
    int32_t *start, *size;
};

struct lists {
    int32_t *ends;
    struct strings items;
};

struct notifications {
    int16_t *type;
    struct strings id, content;
    int64_t *ts;
};

struct frame_columns {
    uint8_t *alternative;
    struct strings auth_client_id, auth_token;
    struct strings exchange_key_secret_key;
    struct lists subscribe, unsubscribe, message_ack;
    int16_t *environ_network_type, *environ_isp;
    struct strings environ_phone_type;
    struct lists environ_extra;
    int16_t *error_code;
    struct strings error_reason;
    struct strings auth_success_encrypt_key;
    struct lists topic_list;
    int32_t *message_list_ends;
    struct notifications message_list, message;
};

static inline bool read_string(bytes buf, const uint8_t **at, const uint8_t *end, struct strings to,
                               int64_t row)
{
    const uint8_t *p = *at;
    if (end - p < 2)
        return false;
    uint64_t size = big16(p);
    p += 2;
    if (size > (uint64_t)(end - p))
        return false;
    to.start[row] = p - buf;
    to.size[row] = size;
    *at = p + size;
    return true;
}

/* A count and so many strings, which must fill p..end; the items count once all are good. */
static inline bool read_list(bytes buf, const uint8_t *p, const uint8_t *end, struct lists to,
                             int64_t row, int64_t *items)
{
    if (p >= end)
        return false;
    unsigned size = *p++;
    int64_t item = *items;
    for (unsigned k = 0; k < size; k++)
        if (!read_string(buf, &p, end, to.items, item++))
            return false;
    if (p != end)
        return false;
    to.ends[row] = item;
    *items = item;
    return true;
}

static inline bool read_notification(bytes buf, const uint8_t **at, const uint8_t *end,
                                     struct notifications to, int64_t row)
{
    const uint8_t *p = *at;
    if (p >= end)
        return false;
    to.type[row] = *p++;
    if (!read_string(buf, &p, end, to.id, row) || !read_string(buf, &p, end, to.content, row))
        return false;
    if (end - p < 8)
        return false;
    to.ts[row] = big64(p);
    *at = p + 8;
    return true;
}

enum { S2C = 16 };

DECODE(frame)
{
    const struct frame_columns to = *(const struct frame_columns *)columns;
    int64_t n_bad = 0, auths = 0, exchange_keys = 0, subscribes = 0, subscribe_topics = 0,
            unsubscribes = 0, unsubscribe_topics = 0, acks = 0, ack_ids = 0, environs = 0,
            environ_extras = 0, errors = 0, auth_successes = 0, topic_lists = 0, list_topics = 0,
            message_lists = 0, list_messages = 0, messages = 0;
    for (int64_t i = 0; i < count; i++) {
        const uint8_t *p = buf + starts[i], *end = buf + stops[i];
        if (end - p < 3 || big16(p) != (uint64_t)(end - p - 2))
            goto give_up;
        unsigned tag = p[2], alternative;
        p += 3;
        if (tag >= S2C)
            goto give_up;
        switch (tag | (ways[i] ? S2C : 0)) {
        case 0:
            if (!read_string(buf, &p, end, to.auth_client_id, auths) ||
                !read_string(buf, &p, end, to.auth_token, auths) || p != end)
                goto give_up;
            auths++;
            alternative = 0;
            break;
        case 1:
            if (!read_string(buf, &p, end, to.exchange_key_secret_key, exchange_keys) || p != end)
                goto give_up;
            exchange_keys++;
            alternative = 1;
            break;
        case 3:
            if (!read_list(buf, p, end, to.subscribe, subscribes, &subscribe_topics))
                goto give_up;
            subscribes++;
            alternative = 3;
            break;
        case 4:
            if (!read_list(buf, p, end, to.unsubscribe, unsubscribes, &unsubscribe_topics))
                goto give_up;
            unsubscribes++;
            alternative = 4;
            break;
        case 2:
        case 5:
        case 6:
            if (p != end)
                goto give_up;
            alternative = tag;
            break;
        case 7:
            if (!read_list(buf, p, end, to.message_ack, acks, &ack_ids))
                goto give_up;
            acks++;
            alternative = 7;
            break;
        case 8:
            if (end - p < 2)
                goto give_up;
            to.environ_network_type[environs] = p[0];
            to.environ_isp[environs] = p[1];
            p += 2;
            if (!read_string(buf, &p, end, to.environ_phone_type, environs) ||
                !read_list(buf, p, end, to.environ_extra, environs, &environ_extras))
                goto give_up;
            environs++;
            alternative = 8;
            break;
        case S2C | 0:
            if (p != end)
                goto give_up;
            alternative = 9;
            break;
        case S2C | 1:
            if (p >= end)
                goto give_up;
            to.error_code[errors] = *p++;
            if (!read_string(buf, &p, end, to.error_reason, errors) || p != end)
                goto give_up;
            errors++;
            alternative = 10;
            break;
        case S2C | 2:
            if (!read_string(buf, &p, end, to.auth_success_encrypt_key, auth_successes) || p != end)
                goto give_up;
            auth_successes++;
            alternative = 11;
            break;
        case S2C | 3:
            if (!read_list(buf, p, end, to.topic_list, topic_lists, &list_topics))
                goto give_up;
            topic_lists++;
            alternative = 12;
            break;
        case S2C | 4: {
            if (p >= end)
                goto give_up;
            unsigned size = *p++;
            int64_t item = list_messages;
            for (unsigned k = 0; k < size; k++)
                if (!read_notification(buf, &p, end, to.message_list, item++))
                    goto give_up;
            if (p != end)
                goto give_up;
            list_messages = item;
            to.message_list_ends[message_lists++] = item;
            alternative = 13;
            break;
        }
        case S2C | 5:
            if (!read_notification(buf, &p, end, to.message, messages) || p != end)
                goto give_up;
            messages++;
            alternative = 14;
            break;
        default:
            goto give_up;
        }
        to.alternative[i] = alternative;
        continue;
    give_up:
        bad[n_bad++] = i;
    }
    const int64_t found[] = {
        auths,          exchange_keys,      subscribes,    subscribe_topics,
        unsubscribes,   unsubscribe_topics, acks,          ack_ids,
        environs,       environ_extras,     errors,        auth_successes,
        topic_lists,    list_topics,        message_lists, list_messages,
        messages,
    };
    memcpy(counts, found, sizeof found);
    return n_bad;
}

/* tny: packets, and the messages in their content. */

#include "common.h"
#include "tny_message.h"

enum { HEAD = 9, LENGTH_LIMIT = 1 << 20 };

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
                is_bad = memcmp(p, "tny.", left < 4 ? left : 4) != 0;
                break;
            }
            if (little32(p) != 0x2e796e74) {
                is_bad = true;
                break;
            }
            uint64_t stop = pos + HEAD;
            unsigned type = p[4] & 3;
            if (type == 0) {
                uint64_t length = little32(p + 5);
                if (length > LENGTH_LIMIT) {
                    is_bad = true;
                    break;
                }
                stop += length;
                if (stop > end)
                    break;
            } else if (type == 3) {
                is_bad = true;
                break;
            }
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

struct packet_columns {
    int16_t *reserved;
    uint8_t *waste, *encrypt, *verify, *alternative;
    int64_t *access_id;
    int32_t *number, *content_start, *content_size;
};

DECODE(packet)
{
    const struct packet_columns to = *(const struct packet_columns *)columns;
    int64_t n_bad = 0, envelopes = 0;
    for (int64_t i = 0; i < count; i++) {
        const uint8_t *p = buf + starts[i], *end = buf + stops[i];
        if (end - p < HEAD || little32(p) != 0x2e796e74)
            goto give_up;
        uint8_t head = p[4];
        to.reserved[i] = head >> 5;
        to.waste[i] = head >> 4 & 1;
        to.encrypt[i] = head >> 3 & 1;
        to.verify[i] = head >> 2 & 1;
        uint64_t length = little32(p + 5);
        unsigned type = head & 3;
        p += HEAD;
        if (type == 0) {
            uint64_t access_id, number;
            if (length != (uint64_t)(end - p))
                goto give_up;
            if (!varint(&p, end, &access_id) || !varint(&p, end, &number) || number > UINT32_MAX)
                goto give_up;
            to.access_id[envelopes] = access_id;
            to.number[envelopes] = number;
            to.content_start[envelopes] = p - buf;
            to.content_size[envelopes] = end - p;
            envelopes++;
        } else if (type == 3 || length != 0 || p != end) {
            goto give_up;
        }
        to.alternative[i] = type;
        continue;
    give_up:
        bad[n_bad++] = i;
    }
    counts[0] = envelopes;
    return n_bad;
}

DECODE(message)
{
    const struct message_columns to = *(const struct message_columns *)columns;
    int64_t n_bad = 0;
    for (int64_t i = 0; i < count; i++)
        if (!read_message(buf, buf + starts[i], buf + stops[i], &to, i))
            bad[n_bad++] = i;
    return n_bad;
}

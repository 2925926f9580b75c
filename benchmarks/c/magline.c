/* magline: frames with options, and bodies of fixed or open size. */

#include "common.h"

enum { HEAD = 16, LENGTH_LIMIT = 1 << 20, SECOND_BYTE = 'f' };
enum { AUTH = 1, REPLY_TO = 2, RESUME = 256, KEY_ID = 512 };
enum { SYN = 1, ACK, ERR, PIN, PON, REQ, REP, PSH, FIN, TYPES };

/* What a scan demands of each type. */
static const struct {
    uint8_t first_byte;
    bool exact;
    uint16_t forbidden, size, limit;
} RULES[TYPES] = {
    [SYN] = {0x7F, true, 0xFC03, 64, 512}, [ACK] = {0x7F, true, 0xFF03, 96, 512},
    [ERR] = {0x7F, true, 0xFF00, 8, 0},    [PIN] = {0x7F, true, 0xFF02, 4, 0},
    [PON] = {0x7F, true, 0xFF02, 4, 0},    [REQ] = {0x7E, false, 0xFF03, 20, 0},
    [REP] = {0x7E, false, 0xFF01, 20, 0},  [PSH] = {0x7E, false, 0xFF03, 20, 0},
    [FIN] = {0x7F, true, 0xFF02, 4, 0},
};

static inline bool head_is_good(const uint8_t *p, uint64_t length)
{
    uint64_t type = big16(p + 2), options = big16(p + 4), options_size = big16(p + 6);
    if (p[1] != SECOND_BYTE || options_size > length || !options != !options_size)
        return false;
    if (length > LENGTH_LIMIT || type == 0 || type >= TYPES)
        return false;
    if (p[0] != RULES[type].first_byte || options & RULES[type].forbidden)
        return false;
    if (RULES[type].limit && length > RULES[type].limit)
        return false;
    uint64_t size = length - options_size;
    return RULES[type].exact ? size == RULES[type].size : size >= RULES[type].size;
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
                is_bad = (p[0] != 0x7E && p[0] != 0x7F) || (left > 1 && p[1] != SECOND_BYTE);
                break;
            }
            uint64_t length = big32(p + 12);
            if (!head_is_good(p, length)) {
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

struct sealed_columns {
    int64_t *business_cmd;
    struct blobs hmac, data;
};

struct frame_columns {
    int64_t *seq;
    uint8_t *auth_valid;
    struct blobs auth;
    uint8_t *reply_to_valid;
    int64_t *reply_to;
    uint8_t *resume_valid;
    struct blobs resume_sid, resume_binder;
    uint8_t *key_id_valid;
    struct blobs key_id;
    uint8_t *alternative;
    struct blobs syn_random, syn_public_key;
    struct blobs ack_random, ack_public_key, ack_sealed_sid;
    int64_t *err_business_cmd, *err_error_number;
    int64_t *pin_ping_number, *pon_ping_number;
    struct sealed_columns req, rep, psh;
    int64_t *fin_reason_number;
};

static inline void put(struct blobs to, int64_t row, int64_t start, int64_t size)
{
    to.start[row] = start;
    to.size[row] = size;
}

/* Whether an option of this size comes next; it stands behind its length. */
static inline bool has_option(const uint8_t *p, const uint8_t *area, unsigned size)
{
    return area - p >= size + 2 && big16(p) == size;
}

static inline bool read_options(bytes buf, const uint8_t *p, const uint8_t *area, uint64_t options,
                                const struct frame_columns *to, int64_t row)
{
    if (options & AUTH) {
        if (!has_option(p, area, 16))
            return false;
        to->auth_valid[row] = 1;
        put(to->auth, row, p + 2 - buf, 16);
        p += 18;
    } else {
        to->auth_valid[row] = 0;
        put(to->auth, row, 0, 0);
    }
    if (options & REPLY_TO) {
        if (!has_option(p, area, 4))
            return false;
        to->reply_to_valid[row] = 1;
        to->reply_to[row] = big32(p + 2);
        p += 6;
    } else {
        to->reply_to_valid[row] = 0;
        to->reply_to[row] = 0;
    }
    if (options & RESUME) {
        if (!has_option(p, area, 32))
            return false;
        to->resume_valid[row] = 1;
        put(to->resume_sid, row, p + 2 - buf, 16);
        put(to->resume_binder, row, p + 18 - buf, 16);
        p += 34;
    } else {
        to->resume_valid[row] = 0;
        put(to->resume_sid, row, 0, 0);
        put(to->resume_binder, row, 0, 0);
    }
    if (options & KEY_ID) {
        if (!has_option(p, area, 8))
            return false;
        to->key_id_valid[row] = 1;
        put(to->key_id, row, p + 2 - buf, 8);
        p += 10;
    } else {
        to->key_id_valid[row] = 0;
        put(to->key_id, row, 0, 0);
    }
    return p == area;
}

static inline bool read_sealed(bytes buf, const uint8_t *p, const uint8_t *end,
                               struct sealed_columns to, int64_t row)
{
    if (end - p < 20)
        return false;
    to.business_cmd[row] = big32(p);
    put(to.hmac, row, p + 4 - buf, 16);
    put(to.data, row, p + 20 - buf, end - p - 20);
    return true;
}

DECODE(frame)
{
    const struct frame_columns to = *(const struct frame_columns *)columns;
    int64_t n_bad = 0, syns = 0, acks = 0, errs = 0, pins = 0, pons = 0, reqs = 0, reps = 0,
            pshs = 0, fins = 0;
    for (int64_t i = 0; i < count; i++) {
        const uint8_t *p = buf + starts[i], *end = buf + stops[i];
        if (end - p < HEAD || p[1] != SECOND_BYTE || big32(p + 12) != (uint64_t)(end - p - HEAD))
            goto give_up;
        uint64_t type = big16(p + 2), options = big16(p + 4), options_size = big16(p + 6);
        to.seq[i] = big32(p + 8);
        p += HEAD;
        if (options & ~(uint64_t)(AUTH | REPLY_TO | RESUME | KEY_ID) ||
            options_size > (uint64_t)(end - p))
            goto give_up;
        if (!read_options(buf, p, p + options_size, options, &to, i))
            goto give_up;
        p += options_size;
        switch (type) {
        case SYN:
            if (end - p != 64)
                goto give_up;
            put(to.syn_random, syns, p - buf, 32);
            put(to.syn_public_key, syns, p + 32 - buf, 32);
            syns++;
            break;
        case ACK:
            if (end - p != 96)
                goto give_up;
            put(to.ack_random, acks, p - buf, 32);
            put(to.ack_public_key, acks, p + 32 - buf, 32);
            put(to.ack_sealed_sid, acks, p + 64 - buf, 32);
            acks++;
            break;
        case ERR:
            if (end - p != 8)
                goto give_up;
            to.err_business_cmd[errs] = big32(p);
            to.err_error_number[errs] = big32(p + 4);
            errs++;
            break;
        case PIN:
            if (end - p != 4)
                goto give_up;
            to.pin_ping_number[pins++] = big32(p);
            break;
        case PON:
            if (end - p != 4)
                goto give_up;
            to.pon_ping_number[pons++] = big32(p);
            break;
        case REQ:
            if (!read_sealed(buf, p, end, to.req, reqs))
                goto give_up;
            reqs++;
            break;
        case REP:
            if (!read_sealed(buf, p, end, to.rep, reps))
                goto give_up;
            reps++;
            break;
        case PSH:
            if (!read_sealed(buf, p, end, to.psh, pshs))
                goto give_up;
            pshs++;
            break;
        case FIN:
            if (end - p != 4)
                goto give_up;
            to.fin_reason_number[fins++] = big32(p);
            break;
        default:
            goto give_up;
        }
        to.alternative[i] = type - 1;
        continue;
    give_up:
        bad[n_bad++] = i;
    }
    const int64_t found[] = {syns, acks, errs, pins, pons, reqs, reps, pshs, fins};
    memcpy(counts, found, sizeof found);
    return n_bad;
}

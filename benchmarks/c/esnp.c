/* ESNP frames: rows up to an end row, and the values in them, node by node. */

#include "common.h"

enum { HEAD = 4, MESSAGE_LIMIT = 32 << 20, MAX_ROWS = 65536, MAX_NODES = 65536, MAX_DEPTH = 64 };

SCAN
{
    int64_t n = 0;
    for (int64_t r = 0; r < run_count; r++) {
        uint64_t pos = run_starts[r], end = run_stops[r];
        bool is_bad = false;
        while (pos < end) {
            uint64_t most = pos + MESSAGE_LIMIT, stop = pos;
            bool done = false;
            while (end - stop >= HEAD) {
                uint64_t type = buf[stop], size = big24(buf + stop + 1);
                stop += HEAD;
                if (stop + size > most) {
                    is_bad = true;
                    break;
                }
                if (type == 0) {
                    done = size == 0;
                    is_bad = !done;
                    break;
                }
                if (size > end - stop)
                    break;
                stop += size;
            }
            if (!done)
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

struct nodes {
    int32_t *parent;
    struct blobs name;
    int16_t *type;
    uint8_t *what;
    int64_t *bits;
    struct blobs content;
};

struct named {
    struct blobs name;
    int32_t *ends;
    struct nodes values;
};

struct addresses {
    int32_t *kind;
    struct blobs value;
};

struct message_columns {
    int32_t *rows_ends;
    int16_t *type;
    struct blobs opaque;
    struct named session_info;
    int64_t *message_id, *source_message_id;
    struct named header, data;
    struct blobs payload;
    struct addresses address, source_address;
    int32_t *seq_no_current, *seq_no_maximum;
    int32_t *xdata_id;
    struct blobs xdata;
    struct blobs error;
    int32_t *flag;
    int16_t *version_major, *version_minor, *version_branch, *version_variant;
};

static inline void put(struct blobs to, int64_t row, int64_t start, int64_t size)
{
    to.start[row] = start;
    to.size[row] = size;
}

/* A length or a count: zigzag, but never negative. */
static inline bool read_size(const uint8_t **at, const uint8_t *end, uint64_t *size)
{
    if (!varint(at, end, size) || *size & 1)
        return false;
    *size >>= 1;
    return *size <= (uint64_t)(end - *at);
}

static inline bool read_text(bytes buf, const uint8_t **at, const uint8_t *end, struct blobs to,
                             int64_t row)
{
    uint64_t size;
    if (!read_size(at, end, &size) || !utf8(*at, *at + size))
        return false;
    put(to, row, *at - buf, size);
    *at += size;
    return true;
}

static inline bool read_number(const uint8_t **at, const uint8_t *end, int32_t *to)
{
    uint64_t value;
    if (!varint(at, end, &value) || value > UINT32_MAX)
        return false;
    *to = zigzag(value);
    return true;
}

enum what { NOTHING, INTEGER, REAL32, REAL64, TEXT, BYTES };
enum { NIL, BOOL, INT, INT8, INT16, INT32, INT64, UINT, UINT8, UINT16, UINT32, UINT64 };
enum { FLOAT32 = 13, FLOAT64, BINARY = 17, MAP = 21, LIST = 23, STRING };

struct open {
    uint64_t left;
    int32_t inside;
    bool keyed;
};

/* One value and all that it contains; where it stops, or NULL. `next` is the free node. */
static const uint8_t *read_var(bytes buf, const uint8_t *p, const uint8_t *end,
                               const struct nodes *columns, int64_t *next)
{
    const struct nodes to = *columns;
    struct open stack[MAX_DEPTH];
    int64_t first = *next, k = first;
    uint64_t left = 1, budget = MAX_NODES, value;
    unsigned depth = 0;
    int32_t inside = -1;
    bool keyed = false;
    for (;;) {
        while (left == 0 && depth > 0) {
            depth--;
            left = stack[depth].left;
            inside = stack[depth].inside;
            keyed = stack[depth].keyed;
        }
        if (left == 0) {
            *next = k;
            return p;
        }
        left--;
        to.parent[k] = inside;
        if (!keyed)
            put(to.name, k, 0, -1);
        else if (!read_text(buf, &p, end, to.name, k))
            return NULL;
        if (p >= end)
            return NULL;
        unsigned type = *p++;
        enum what what = INTEGER;
        int64_t bits = 0, start = 0, size = -1;
        switch (type) {
        case NIL:
            what = NOTHING;
            break;
        case BOOL:
            if (p >= end)
                return NULL;
            bits = *p++ != 0;
            break;
        case INT8:
            if (p >= end)
                return NULL;
            bits = (int8_t)*p++;
            break;
        case UINT8:
            if (p >= end)
                return NULL;
            bits = *p++;
            break;
        case INT:
        case INT32:
            if (!varint(&p, end, &value) || value > UINT32_MAX)
                return NULL;
            bits = zigzag(value);
            break;
        case INT16:
            if (!varint(&p, end, &value) || value > UINT16_MAX)
                return NULL;
            bits = zigzag(value);
            break;
        case INT64:
            if (!varint(&p, end, &value))
                return NULL;
            bits = zigzag(value);
            break;
        case UINT:
        case UINT32:
            if (!varint(&p, end, &value) || value > UINT32_MAX)
                return NULL;
            bits = value;
            break;
        case UINT16:
            if (!varint(&p, end, &value) || value > UINT16_MAX)
                return NULL;
            bits = value;
            break;
        case UINT64:
            if (!varint(&p, end, &value))
                return NULL;
            bits = value;
            break;
        case FLOAT32:
            if (end - p < 4)
                return NULL;
            bits = big32(p);
            if ((bits & 0x7FFFFFFF) > 0x7F800000)
                return NULL;
            what = REAL32;
            p += 4;
            break;
        case FLOAT64:
            if (end - p < 8)
                return NULL;
            bits = big64(p);
            if ((bits & INT64_MAX) > 0x7FF0000000000000)
                return NULL;
            what = REAL64;
            p += 8;
            break;
        case STRING:
        case BINARY:
            if (!read_size(&p, end, &value) || (type == STRING && !utf8(p, p + value)))
                return NULL;
            what = type == STRING ? TEXT : BYTES;
            start = p - buf;
            size = value;
            p += value;
            break;
        case MAP:
        case LIST:
            if (depth >= MAX_DEPTH || !read_size(&p, end, &value) || value > budget)
                return NULL;
            if (type == MAP && value * 2 > (uint64_t)(end - p))
                return NULL;
            budget -= value;
            stack[depth++] = (struct open){left, inside, keyed};
            left = value;
            inside = k - first;
            keyed = type == MAP;
            what = NOTHING;
            break;
        default:
            return NULL;
        }
        to.type[k] = type;
        to.what[k] = what;
        to.bits[k] = bits;
        put(to.content, k, start, size);
        k++;
    }
}

struct counters {
    int64_t rows, session_info, session_info_value, message_id, source_message_id, header,
        header_value, data, data_value, payload, address, source_address, seq_no, xdata, error,
        flag, version;
};

static inline bool read_named(bytes buf, const uint8_t **at, const uint8_t *end,
                              const struct named *to, int64_t *row, int64_t *node)
{
    if (!read_text(buf, at, end, to->name, *row))
        return false;
    *at = read_var(buf, *at, end, &to->values, node);
    if (*at == NULL)
        return false;
    to->ends[*row] = *node;
    ++*row;
    return true;
}

enum { SESSION_INFO = 16, MESSAGE_ID, SOURCE_MESSAGE_ID, HEADER = 20, DATA, PAYLOAD };
enum { ADDRESS = 23, SOURCE_ADDRESS, SEQ_NO = 27, XDATA, ERROR, FLAG, VERSION };

/* The body of one row, which must fill p..end. */
static inline bool read_row(bytes buf, unsigned type, const uint8_t *p, const uint8_t *end,
                            const struct message_columns *to, struct counters *k)
{
    switch (type) {
    case SESSION_INFO:
        if (!read_named(buf, &p, end, &to->session_info, &k->session_info, &k->session_info_value))
            return false;
        break;
    case MESSAGE_ID:
        if (end - p < 8)
            return false;
        to->message_id[k->message_id++] = big64(p);
        p += 8;
        break;
    case SOURCE_MESSAGE_ID:
        if (end - p < 8)
            return false;
        to->source_message_id[k->source_message_id++] = big64(p);
        p += 8;
        break;
    case HEADER:
        if (!read_named(buf, &p, end, &to->header, &k->header, &k->header_value))
            return false;
        break;
    case DATA:
        if (!read_named(buf, &p, end, &to->data, &k->data, &k->data_value))
            return false;
        break;
    case PAYLOAD:
        put(to->payload, k->payload++, p - buf, end - p);
        return true;
    case ADDRESS:
        if (!read_number(&p, end, &to->address.kind[k->address]) ||
            !read_text(buf, &p, end, to->address.value, k->address))
            return false;
        k->address++;
        break;
    case SOURCE_ADDRESS:
        if (!read_number(&p, end, &to->source_address.kind[k->source_address]) ||
            !read_text(buf, &p, end, to->source_address.value, k->source_address))
            return false;
        k->source_address++;
        break;
    case SEQ_NO:
        if (!read_number(&p, end, &to->seq_no_current[k->seq_no]) ||
            !read_number(&p, end, &to->seq_no_maximum[k->seq_no]))
            return false;
        k->seq_no++;
        break;
    case XDATA:
        if (!read_number(&p, end, &to->xdata_id[k->xdata]))
            return false;
        put(to->xdata, k->xdata++, p - buf, end - p);
        return true;
    case ERROR:
        if (!utf8(p, end))
            return false;
        put(to->error, k->error++, p - buf, end - p);
        return true;
    case FLAG:
        if (!read_number(&p, end, &to->flag[k->flag]))
            return false;
        k->flag++;
        break;
    case VERSION:
        if (end - p < 4)
            return false;
        to->version_major[k->version] = p[0];
        to->version_minor[k->version] = p[1];
        to->version_branch[k->version] = p[2];
        to->version_variant[k->version] = p[3];
        k->version++;
        p += 4;
        break;
    default:
        put(to->opaque, k->rows, p - buf, end - p);
        return true;
    }
    return p == end;
}

static inline bool read_message(bytes buf, const uint8_t *p, const uint8_t *end,
                                const struct message_columns *to, struct counters *k)
{
    int64_t most = k->rows + MAX_ROWS;
    for (;;) {
        if (end - p < HEAD)
            return false;
        unsigned type = p[0];
        uint64_t size = big24(p + 1);
        p += HEAD;
        if (type == 0)
            return p == end;
        if (size > (uint64_t)(end - p) || k->rows >= most)
            return false;
        to->type[k->rows] = type;
        put(to->opaque, k->rows, 0, -1);
        if (!read_row(buf, type, p, p + size, to, k))
            return false;
        k->rows++;
        p += size;
    }
}

DECODE(message)
{
    const struct message_columns to = *(const struct message_columns *)columns;
    struct counters done = {0};
    int64_t n_bad = 0;
    for (int64_t i = 0; i < count; i++) {
        struct counters k = done;
        if (!read_message(buf, buf + starts[i], buf + stops[i], &to, &k)) {
            bad[n_bad++] = i;
            continue;
        }
        to.rows_ends[i] = k.rows;
        done = k;
    }
    memcpy(counts, &done, sizeof done);
    return n_bad;
}

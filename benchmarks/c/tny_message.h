/* A message of tny, as packets and tunnels carry it. */

struct message_columns {
    int64_t *id;
    int16_t *reserved, *line, *mode;
    int32_t *protocol, *code;
    int64_t *to_message, *time;
    uint8_t *forward_header_valid;
    int32_t *forward_header_start, *forward_header_size;
    uint8_t *body_valid;
    int32_t *body_start, *body_size;
};

/* Bytes behind their length, if a bit says that they are there. */
static inline __attribute__((always_inline)) bool read_optional(
    bytes buf, const uint8_t **at, const uint8_t *end, bool present, uint8_t *valid, int32_t *start,
    int32_t *size)
{
    *valid = present;
    if (!present) {
        *start = *size = 0;
        return true;
    }
    uint64_t length;
    if (!varint(at, end, &length) || length > (uint64_t)(end - *at))
        return false;
    *start = *at - buf;
    *size = length;
    *at += length;
    return true;
}

/* Reads one message, which must fill p..end, into a row. */
static inline __attribute__((always_inline)) bool read_message(bytes buf, const uint8_t *p,
                                                               const uint8_t *end,
                                                               const struct message_columns *to,
                                                               int64_t row)
{
    uint64_t value;
    if (!varint(&p, end, &value) || p >= end)
        return false;
    to->id[row] = value;
    uint8_t options = *p++;
    if ((options & 3) == 3)
        return false;
    to->reserved[row] = options >> 7;
    to->line[row] = options >> 3 & 7;
    to->mode[row] = options & 3;
    if (!varint(&p, end, &value) || value > UINT32_MAX)
        return false;
    to->protocol[row] = value;
    if (!varint(&p, end, &value) || value > UINT32_MAX)
        return false;
    to->code[row] = value;
    if (!varint(&p, end, &value))
        return false;
    to->to_message[row] = value;
    if (!varint(&p, end, &value))
        return false;
    to->time[row] = value;
    if (!read_optional(buf, &p, end, options >> 6 & 1, &to->forward_header_valid[row],
                       &to->forward_header_start[row], &to->forward_header_size[row]))
        return false;
    if (!read_optional(buf, &p, end, options >> 2 & 1, &to->body_valid[row], &to->body_start[row],
                       &to->body_size[row]))
        return false;
    return p == end;
}

/* What the hand-written decoders share: numbers, varints, UTF-8, and the shape of their functions.

   Each file has `scan` and one or two `decode_<layout>`. They check and write what the kernels of
   wirelake.columnar check and write: the same bounds, the same columns, the same slices given up.
   Columns come as an array of pointers in the order of the kernel's plan; each file has a struct
   that names them, copied to a local one so that no store can change a pointer. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef const uint8_t *restrict bytes;

#define SCAN                                                                                   \
    int64_t scan(bytes buf, const int64_t *restrict run_starts,                                \
                 const int64_t *restrict run_stops, int64_t run_count, int64_t *restrict starts, \
                 int64_t *restrict stops, int64_t *restrict runs, int64_t *restrict reached,   \
                 uint8_t *restrict wrong)

#define DECODE(name)                                                                            \
    int64_t decode_##name(bytes buf, const int64_t *restrict starts,                            \
                          const int64_t *restrict stops, int64_t count,                         \
                          const uint8_t *restrict ways, int64_t *restrict bad,                  \
                          int64_t *restrict counts, const void *columns)

static inline uint64_t big16(const uint8_t *p)
{
    uint16_t value;
    memcpy(&value, p, 2);
    return __builtin_bswap16(value);
}

static inline uint64_t big24(const uint8_t *p)
{
    return (uint64_t)p[0] << 16 | (uint64_t)p[1] << 8 | p[2];
}

static inline uint64_t big32(const uint8_t *p)
{
    uint32_t value;
    memcpy(&value, p, 4);
    return __builtin_bswap32(value);
}

static inline uint64_t big64(const uint8_t *p)
{
    uint64_t value;
    memcpy(&value, p, 8);
    return __builtin_bswap64(value);
}

static inline uint64_t little32(const uint8_t *p)
{
    uint32_t value;
    memcpy(&value, p, 4);
    return value;
}

static inline uint64_t little64(const uint8_t *p)
{
    uint64_t value;
    memcpy(&value, p, 8);
    return value;
}

static inline int64_t zigzag(uint64_t value)
{
    return (int64_t)(value >> 1) ^ -(int64_t)(value & 1);
}

/* LEB128 of at most 64 bits; false when it does not end in time. */
static inline __attribute__((always_inline)) bool varint(const uint8_t **at, const uint8_t *end,
                                                         uint64_t *value)
{
    const uint8_t *p = *at;
    if (p >= end)
        return false;
    uint64_t read = *p++;
    if (read >= 128) {
        read &= 127;
        for (unsigned shift = 7;; shift += 7) {
            if (p >= end)
                return false;
            uint64_t byte = *p++;
            if (shift == 63 && byte > 1)
                return false;
            read |= (byte & 127) << shift;
            if (byte < 128)
                break;
        }
    }
    *at = p;
    *value = read;
    return true;
}

/* Strict UTF-8: no surrogates, nothing beyond U+10FFFF, no long forms. */
static inline bool continues(uint8_t byte)
{
    return (byte & 0xC0) == 0x80;
}

static inline bool utf8(const uint8_t *p, const uint8_t *end)
{
    while (p < end) {
        if (end - p >= 8) {
            if ((little64(p) & 0x8080808080808080u) == 0) {
                p += 8;
                continue;
            }
        }
        uint8_t first = *p;
        ptrdiff_t left = end - p;
        if (first < 0x80) {
            p += 1;
        } else if (first < 0xC2) {
            return false;
        } else if (first < 0xE0) {
            if (left < 2 || !continues(p[1]))
                return false;
            p += 2;
        } else if (first < 0xF0) {
            if (left < 3 || !continues(p[1]) || !continues(p[2]))
                return false;
            if ((first == 0xE0 && p[1] < 0xA0) || (first == 0xED && p[1] > 0x9F))
                return false;
            p += 3;
        } else if (first < 0xF5) {
            if (left < 4 || !continues(p[1]) || !continues(p[2]) || !continues(p[3]))
                return false;
            if ((first == 0xF0 && p[1] < 0x90) || (first == 0xF4 && p[1] > 0x8F))
                return false;
            p += 4;
        } else {
            return false;
        }
    }
    return true;
}

/* magline without a pinned key: handshake, then sealed requests and answers. */

#ifdef HUB_LOAD_TLS /* OpenSSL is there for both */

#define OPENSSL_SUPPRESS_DEPRECATED
#include <openssl/evp.h>
#include <openssl/rand.h>
#include <openssl/sha.h>
#include <stdio.h>
#include <stdlib.h>

#include "hub_load.h"

enum { CONTROL = 0x7F, SEALED = 0x7E, VERSION = 0x66 };
enum { SYN = 1, ACK = 2, ERR = 3, REQ = 6, REP = 7, FIN = 9 };
enum { HEAD = 16, KEY = 32, TAG = 16, SYN_BYTES = HEAD + 2 * KEY, ACK_BYTES = HEAD + 3 * KEY };
enum { SIGN_ON = 10, PUBLISH_CALL = 13, ECHO_CALL = 0x1001, ADD_CALL = 0x1002 };

/* -- keys ------------------------------------------------------------------------------------- */

struct mac {
    SHA256_CTX inner, outer;
};

struct way {
    uint8_t iv[16];
    struct mac mac;
    EVP_CIPHER_CTX *cipher;
};

struct state {
    EVP_PKEY *own;
    uint8_t syn[SYN_BYTES];
    struct way out, in;
    uint32_t seq;
};

static void mac_prepare(struct mac *to, const uint8_t key[KEY])
{
    uint8_t inner[64], outer[64];
    for (unsigned i = 0; i < 64; i++) {
        uint8_t byte = i < KEY ? key[i] : 0;
        inner[i] = byte ^ 0x36;
        outer[i] = byte ^ 0x5C;
    }
    SHA256_Init(&to->inner);
    SHA256_Update(&to->inner, inner, 64);
    SHA256_Init(&to->outer);
    SHA256_Update(&to->outer, outer, 64);
}

static void mac_finish(const struct mac *with, SHA256_CTX *inner, uint8_t to[KEY])
{
    SHA256_CTX outer = with->outer;
    SHA256_Final(to, inner);
    SHA256_Update(&outer, to, KEY);
    SHA256_Final(to, &outer);
}

/* HKDF-Expand of one block. */
static void derive(const struct mac *prk, const char *label, uint8_t to[KEY])
{
    SHA256_CTX inner = prk->inner;
    SHA256_Update(&inner, "magline 102 ", 12);
    SHA256_Update(&inner, label, strlen(label));
    SHA256_Update(&inner, "\1", 1);
    mac_finish(prk, &inner, to);
}

static void way_prepare(struct way *to, const struct mac *prk, const char *prefix)
{
    char label[16];
    uint8_t key[KEY];
    snprintf(label, sizeof label, "%s_iv", prefix);
    derive(prk, label, key);
    memcpy(to->iv, key, 12);
    snprintf(label, sizeof label, "%s_mac", prefix);
    derive(prk, label, key);
    mac_prepare(&to->mac, key);
    snprintf(label, sizeof label, "%s_enc", prefix);
    derive(prk, label, key);
    to->cipher = EVP_CIPHER_CTX_new();
    EVP_EncryptInit_ex(to->cipher, EVP_aes_256_ctr(), NULL, key, to->iv);
}

static void agree(struct state *s, const uint8_t *ack)
{
    uint8_t shared[KEY], nk[KEY], th[KEY], prk[KEY];
    static const uint8_t zeros[2 * KEY];
    size_t size = KEY;
    EVP_PKEY *peer =
        EVP_PKEY_new_raw_public_key(EVP_PKEY_X25519, NULL, ack + HEAD + KEY, KEY);
    EVP_PKEY_CTX *context = EVP_PKEY_CTX_new(s->own, NULL);
    if (peer == NULL || EVP_PKEY_derive_init(context) != 1 ||
        EVP_PKEY_derive_set_peer(context, peer) != 1 ||
        EVP_PKEY_derive(context, shared, &size) != 1)
        stop("magline", "no key could be agreed");
    EVP_PKEY_CTX_free(context);
    EVP_PKEY_free(peer);
    SHA256_CTX hash;
    SHA256_Init(&hash);
    SHA256_Update(&hash, s->syn + HEAD, KEY);
    SHA256_Update(&hash, ack + HEAD, KEY);
    SHA256_Update(&hash, shared, KEY);
    SHA256_Final(nk, &hash);
    SHA256_Init(&hash);
    SHA256_Update(&hash, "magline 102 handshake\0", 22); /* and the mode, 0 */
    SHA256_Update(&hash, zeros, KEY);
    SHA256_Update(&hash, s->syn, SYN_BYTES);
    SHA256_Update(&hash, ack, ACK_BYTES - KEY);
    SHA256_Final(th, &hash);
    struct mac extract;
    mac_prepare(&extract, th);
    hash = extract.inner;
    SHA256_Update(&hash, nk, KEY);
    SHA256_Update(&hash, zeros, 2 * KEY);
    mac_finish(&extract, &hash, prk);
    mac_prepare(&extract, prk);
    way_prepare(&s->out, &extract, "c2s");
    way_prepare(&s->in, &extract, "s2c");
}

/* -- frames ----------------------------------------------------------------------------------- */

static uint8_t *put_head(uint8_t *p, unsigned magic, unsigned command, uint32_t seq, size_t size)
{
    *p++ = magic;
    *p++ = VERSION;
    p = put16(p, command);
    p = put32(p, 0); /* no options */
    return put32(put32(p, seq), size);
}

static void crypt_body(struct way *way, uint32_t seq, const uint8_t *from, uint8_t *to, size_t size)
{
    uint8_t block[16];
    int done;
    memcpy(block, way->iv, sizeof block);
    for (unsigned i = 0; i < 4; i++)
        block[8 + i] ^= seq >> 8 * (3 - i);
    EVP_EncryptInit_ex(way->cipher, NULL, NULL, NULL, block);
    EVP_EncryptUpdate(way->cipher, to, &done, from, (int)size);
}

/* The tag of a frame: all of it but the tag itself. */
static void tag_of(const struct way *way, const uint8_t *frame, size_t head, size_t size,
                   uint8_t to[KEY])
{
    SHA256_CTX inner = way->mac.inner;
    SHA256_Update(&inner, frame, head + 4);
    SHA256_Update(&inner, frame + head + 4 + TAG, size - head - 4 - TAG);
    mac_finish(&way->mac, &inner, to);
}

static void put_request(struct connection *c, unsigned call, const void *data, size_t size)
{
    struct state *s = c->own;
    size_t whole = HEAD + 4 + TAG + size;
    uint8_t tag[KEY], *start = reserve(&c->out, whole);
    uint32_t seq = ++s->seq;
    uint8_t *p = put_head(start, SEALED, REQ, seq, whole - HEAD);
    p = put32(p, call) + TAG;
    crypt_body(&s->out, seq, data, p, size);
    tag_of(&s->out, start, HEAD, whole, tag);
    memcpy(p - TAG, tag, TAG);
    wrote(&c->out, whole);
    c->sent_frames++;
    touch(c);
}

static void hello(struct connection *c)
{
    struct state *s = c->own = calloc(1, sizeof *s);
    size_t size = KEY;
    s->own = EVP_PKEY_Q_keygen(NULL, NULL, "X25519");
    uint8_t *p = put_head(s->syn, CONTROL, SYN, ++s->seq, 2 * KEY);
    if (s->own == NULL || RAND_bytes(p, KEY) != 1 ||
        EVP_PKEY_get_raw_public_key(s->own, p + KEY, &size) != 1)
        stop("magline", "no key could be made");
    append(&c->out, s->syn, SYN_BYTES);
    c->sent_frames++;
    touch(c);
}

static void sign_on(struct connection *c)
{
    char body[1024];
    int size = snprintf(body, sizeof body, "{\"id\":\"%s\",\"token\":\"%s\"}", c->id, c->token);
    put_request(c, SIGN_ON, body, size);
}

static void request(struct connection *c, uint32_t number)
{
    char body[64];
    if (operation == ECHO)
        put_request(c, ECHO_CALL, payload, payload_size);
    else if (operation == ADD)
        put_request(c, ADD_CALL, body, snprintf(body, sizeof body, "{\"a\":%u,\"b\":1}", number));
    else
        stop("magline", "publishes are not measured");
}

static void reply(struct connection *c, const uint8_t *frame, size_t size)
{
    struct state *s = c->own;
    static uint8_t opened[1 << 16];
    size_t head = HEAD + get16(frame + 6), data = head + 4 + TAG;
    uint8_t tag[KEY];
    if (size < data || size - data > sizeof opened) {
        refused(c, "a reply of a wrong size", 23);
        return;
    }
    tag_of(&s->in, frame, head, size, tag);
    if (memcmp(tag, frame + head + 4, TAG) != 0)
        stop("magline", "a wrong tag");
    crypt_body(&s->in, get32(frame + 8), frame + data, opened, size - data);
    if (get32(frame + head) == SIGN_ON)
        ready(c);
    else if (operation == ECHO)
        answered(c, 0, opened, size - data);
    else /* REPLY_TO is the only option: its size and the request's Seq; SYN and signing on had two */
        answered(c, get32(frame + HEAD + 2) - 3, NULL, 0);
}

static size_t take(struct connection *c, const uint8_t *data, size_t size)
{
    const uint8_t *p = data, *end = data + size;
    uint64_t frames = 0;
    while (end - p >= HEAD) {
        size_t whole = HEAD + get32(p + 12);
        if ((size_t)(end - p) < whole)
            break;
        unsigned command = get16(p + 2);
        frames++;
        if (command == REP) {
            reply(c, p, whole);
        } else if (command == ACK && whole == ACK_BYTES) {
            agree(c->own, p);
            sign_on(c);
        } else if (command == ERR || command == FIN) {
            char text[32]; /* what is wrong comes last in both */
            int written = snprintf(text, sizeof text, "%s %u", command == ERR ? "ERR" : "FIN",
                                   (unsigned)get32(p + whole - 4));
            refused(c, text, written);
        }
        p += whole;
    }
    frames_came(frames);
    return p - data;
}

const struct protocol magline = {
    .name = "magline", .hello = hello, .take = take, .request = request};

#else

typedef int without_openssl_there_is_no_magline;

#endif

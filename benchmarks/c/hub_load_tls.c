/* TLS around any of the protocols; certificates are not looked at, they are the benchmark's own. */

#include "hub_load.h"

#ifdef HUB_LOAD_TLS

#include <errno.h>
#include <openssl/ssl.h>

static SSL_CTX *context;

bool tls_prepare(void)
{
    context = SSL_CTX_new(TLS_client_method());
    SSL_CTX_set_verify(context, SSL_VERIFY_NONE, NULL);
    SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    return true;
}

void tls_open(struct connection *c)
{
    SSL *ssl = SSL_new(context);
    SSL_set_fd(ssl, c->fd);
    SSL_set_connect_state(ssl);
    c->tls = ssl;
}

static int again(SSL *ssl, int result)
{
    int error = SSL_get_error(ssl, result);
    bool waits = error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE;
    errno = waits ? EAGAIN : EPROTO;
    return error == SSL_ERROR_ZERO_RETURN ? 0 : -1;
}

int tls_handshake(struct connection *c)
{
    int done = SSL_do_handshake(c->tls);
    if (done == 1)
        return 1;
    again(c->tls, done);
    return errno == EAGAIN ? 0 : -1;
}

ptrdiff_t tls_read(struct connection *c, void *to, size_t size)
{
    int came = SSL_read(c->tls, to, (int)size);
    return came > 0 ? came : again(c->tls, came);
}

ptrdiff_t tls_write(struct connection *c, const void *from, size_t size)
{
    int went = SSL_write(c->tls, from, (int)size);
    return went > 0 ? went : again(c->tls, went);
}

#else

bool tls_prepare(void)
{
    return false;
}

void tls_open(struct connection *c)
{
    (void)c;
}

int tls_handshake(struct connection *c)
{
    (void)c;
    return -1;
}

ptrdiff_t tls_read(struct connection *c, void *to, size_t size)
{
    (void)c, (void)to, (void)size;
    return -1;
}

ptrdiff_t tls_write(struct connection *c, const void *from, size_t size)
{
    (void)c, (void)from, (void)size;
    return -1;
}

#endif

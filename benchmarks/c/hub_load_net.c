#define _GNU_SOURCE
#include "hub_load_net.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { READ_BYTES = 1 << 18, EVENTS = 1024 };

void (*net_after_read)(struct connection *);
bool net_keeps_time;
uint64_t net_read_ns;

static int poller = -1;
static struct in_addr address;
static bool has_tls, input_ended;
static uint8_t *read_room;
static struct connection **dirty;
static size_t dirty_count, dirty_room;

_Noreturn void stop(const char *what, const char *why)
{
    fprintf(stderr, "hub_load: %s: %s\n", what, why);
    exit(1);
}

static uint64_t read_clock(clockid_t which)
{
    struct timespec now;
    clock_gettime(which, &now);
    return (uint64_t)now.tv_sec * 1000000000u + now.tv_nsec;
}

uint64_t now_ns(void)
{
    return read_clock(CLOCK_MONOTONIC);
}

uint64_t cpu_ns(void)
{
    return read_clock(CLOCK_PROCESS_CPUTIME_ID);
}

/* -- buffers ---------------------------------------------------------------------------------- */

uint8_t *reserve(struct buffer *to, size_t size)
{
    if (to->start == to->stop)
        to->start = to->stop = 0;
    if (to->room - to->stop < size) {
        memmove(to->data, to->data + to->start, to->stop - to->start);
        to->stop -= to->start;
        to->start = 0;
        while (to->room - to->stop < size)
            to->room = to->room == 0 ? 256 : to->room * 2;
        to->data = realloc(to->data, to->room);
        if (to->data == NULL)
            stop("buffer", "out of memory");
    }
    return to->data + to->stop;
}

void wrote(struct buffer *to, size_t size)
{
    to->stop += size;
}

void append(struct buffer *to, const void *from, size_t size)
{
    memcpy(reserve(to, size), from, size);
    wrote(to, size);
}

void append_text(struct buffer *to, const char *text)
{
    append(to, text, strlen(text));
}

void append_format(struct buffer *to, const char *format, ...)
{
    char text[1024];
    va_list items;
    va_start(items, format);
    int size = vsnprintf(text, sizeof text, format, items);
    va_end(items);
    append(to, text, size);
}

/* -- connections ------------------------------------------------------------------------------ */

void net_prepare(const char *host, bool with_tls)
{
    if (inet_pton(AF_INET, host, &address) != 1)
        stop(host, "no IPv4 address");
    poller = epoll_create1(0);
    read_room = malloc(READ_BYTES);
    has_tls = with_tls;
    if (with_tls && !tls_prepare())
        stop("TLS", "not built in");
}

static void watch(struct connection *c, int how, uint32_t events)
{
    struct epoll_event event = {.events = events, .data.ptr = c};
    if (epoll_ctl(poller, how, c->fd, &event) != 0)
        stop("epoll_ctl", strerror(errno));
}

void net_connect(struct connection *c, unsigned port)
{
    int one = 1;
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr = address};
    c->fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    if (c->fd < 0)
        stop("socket", strerror(errno));
    setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    if (connect(c->fd, (struct sockaddr *)&to, sizeof to) != 0 && errno != EINPROGRESS)
        stop("connect", strerror(errno));
    c->waits_to_write = true;
    watch(c, EPOLL_CTL_ADD, EPOLLIN | EPOLLOUT);
    if (has_tls)
        tls_open(c);
}

void touch(struct connection *c)
{
    if (c->is_dirty)
        return;
    if (dirty_count == dirty_room) {
        dirty_room = dirty_room == 0 ? 1024 : dirty_room * 2;
        dirty = realloc(dirty, dirty_room * sizeof *dirty);
    }
    c->is_dirty = true;
    dirty[dirty_count++] = c;
}

static void write_out(struct connection *c)
{
    struct buffer *out = &c->out;
    while (out->start < out->stop) {
        size_t size = out->stop - out->start;
        ptrdiff_t done = has_tls ? tls_write(c, out->data + out->start, size)
                                 : send(c->fd, out->data + out->start, size, MSG_NOSIGNAL);
        if (done < 0 && errno != EAGAIN)
            stop("write", strerror(errno));
        if (done < 0)
            break;
        out->start += done;
    }
    bool is_left = out->start < out->stop;
    if (is_left != c->waits_to_write) {
        c->waits_to_write = is_left;
        watch(c, EPOLL_CTL_MOD, is_left ? EPOLLIN | EPOLLOUT : EPOLLIN);
    }
}

void net_flush(void)
{
    for (size_t i = 0; i < dirty_count; i++) {
        dirty[i]->is_dirty = false;
        if (dirty[i]->is_connected)
            write_out(dirty[i]);
    }
    dirty_count = 0;
}

static void connected(struct connection *c)
{
    int error = 0;
    socklen_t size = sizeof error;
    getsockopt(c->fd, SOL_SOCKET, SO_ERROR, &error, &size);
    if (error != 0)
        stop("connect", strerror(error));
    if (has_tls) {
        int done = tls_handshake(c);
        if (done < 0)
            stop("TLS", "the handshake failed");
        if (done == 0) {
            watch(c, EPOLL_CTL_MOD, EPOLLIN);
            return;
        }
    }
    c->is_connected = true;
    if (c->protocol->hello != NULL)
        c->protocol->hello(c);
    write_out(c);
}

/* What came, after what was left of a frame the last time. */
static bool read_once(struct connection *c)
{
    size_t held = c->rest.stop - c->rest.start;
    if (held > READ_BYTES / 2)
        stop(c->protocol->name, "a frame does not end");
    memcpy(read_room, c->rest.data + c->rest.start, held);
    ptrdiff_t came = has_tls ? tls_read(c, read_room + held, READ_BYTES - held)
                             : recv(c->fd, read_room + held, READ_BYTES - held, 0);
    if (came < 0 && errno == EAGAIN)
        return false;
    if (came < 0)
        stop("read", strerror(errno));
    if (came == 0)
        stop("read", "the server closed a connection");
    if (net_keeps_time)
        net_read_ns = now_ns();
    size_t size = held + came, taken = c->protocol->take(c, read_room, size);
    c->rest.start = c->rest.stop = 0;
    if (taken < size)
        append(&c->rest, read_room + taken, size - taken);
    if (net_after_read != NULL)
        net_after_read(c);
    return has_tls || size == READ_BYTES;
}

void net_turn(int timeout_ms)
{
    struct epoll_event events[EVENTS];
    int count = epoll_wait(poller, events, EVENTS, timeout_ms);
    if (count < 0 && errno != EINTR)
        stop("epoll_wait", strerror(errno));
    for (int i = 0; i < count; i++) {
        struct connection *c = events[i].data.ptr;
        if (c == NULL) {
            char ignored[64];
            input_ended = read(STDIN_FILENO, ignored, sizeof ignored) <= 0;
            continue;
        }
        if (!c->is_connected) {
            connected(c);
            continue;
        }
        if (events[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR))
            while (read_once(c))
                ;
        if (events[i].events & EPOLLOUT)
            touch(c);
    }
    net_flush();
}

void net_watch_input(void)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = NULL};
    if (epoll_ctl(poller, EPOLL_CTL_ADD, STDIN_FILENO, &event) != 0)
        input_ended = true; /* a file: there is nothing to wait for */
}

bool net_input_ended(void)
{
    return input_ended;
}

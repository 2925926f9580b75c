/* The load generator of benchmarks.hub.

     hub_load --mode fanout --protocol comet --port 9620 --publisher esnp --publisher-port 9600 ...

   fanout   one publisher and N subscribers; `depth` publishes are not yet delivered to all
   rpc      N connections with `depth` requests each
   idle     N connections that do nothing until standard input ends

   With --rate, publishes or requests leave at fixed times, and how long each takes is counted from
   the time it was meant for. Every delivery must be the next one of its connection and of the right
   size; every request must be answered once. One JSON object on standard output says what was
   found. */

#define _GNU_SOURCE
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

#include "hub_load_net.h"
#include "hub_load_options.h"

enum { IN_FLIGHT_BITS = 16 };
enum { OPENING, WARMING, MEASURING, DRAINING, OVER };
#define IN_FLIGHT_MASK ((1u << IN_FLIGHT_BITS) - 1)
#define SECOND 1000000000ull
#define DRAIN_S 5
#define OPEN_S 120

uint8_t *payload;

static struct connection *all;
static unsigned total, opened, ready_count;
static struct connection *publisher;
static bool is_fanout, is_idle;
static int phase = OPENING;
static uint64_t sent, counted, faults, frames_in, due_from_ns;
static uint32_t in_flight, left[1u << IN_FLIGHT_BITS];
static char first_fault[200];

static struct {
    uint64_t from_ns, to_ns, from_count, to_count, from_sent, to_sent, from_cpu_ns, to_cpu_ns;
} measured;

/* -- payloads --------------------------------------------------------------------------------- */

void put_letters(uint8_t *p, uint64_t value, size_t letters)
{
    for (size_t i = 0; i < letters; i++)
        p[i] = 'A' + (value >> 4 * (letters - 1 - i) & 15);
}

uint64_t get_letters(const uint8_t *p, size_t letters)
{
    uint64_t value = 0;
    for (size_t i = 0; i < letters; i++)
        value = value << 4 | (uint64_t)(p[i] - 'A');
    return value;
}

static void make_payload(uint32_t number, uint32_t sender, uint64_t stamp_ns)
{
    put_letters(payload + NUMBER_AT, number, 8);
    put_letters(payload + SENDER_AT, sender, 8);
    put_letters(payload + STAMP_AT, stamp_ns, 16);
}

/* -- what protocols tell ---------------------------------------------------------------------- */

void frames_came(uint64_t count)
{
    frames_in += count;
}

void ready(struct connection *c)
{
    if (c->is_ready)
        return;
    c->is_ready = true;
    ready_count++;
}

void refused(struct connection *c, const void *text, size_t size)
{
    if (faults++ == 0) {
        size_t shown = size < sizeof first_fault - 1 ? size : sizeof first_fault - 1;
        for (size_t i = 0; i < shown; i++) {
            char letter = ((const char *)text)[i];
            first_fault[i] = letter < ' ' || letter > '~' || strchr("\"\\", letter) ? '?' : letter;
        }
    }
    if (!c->is_ready)
        stop(c->protocol->name, first_fault);
}

static void took(const uint8_t *content)
{
    if (options.rate > 0 && phase == MEASURING)
        latency_add(net_read_ns, get_letters(content + STAMP_AT, 16));
}

void delivered(struct connection *c, const uint8_t *content, size_t size)
{
    if (size != payload_size) {
        refused(c, "a delivery of a wrong size", 26);
        return;
    }
    uint32_t number = get_letters(content, 8);
    if (number != c->next_number)
        refused(c, "a delivery out of order", 23);
    c->next_number = number + 1;
    counted++;
    if (--left[number & IN_FLIGHT_MASK] == 0)
        in_flight--;
    took(content);
}

void answered(struct connection *c, uint32_t number, const uint8_t *content, size_t size)
{
    if (content != NULL) {
        if (size != payload_size) {
            refused(c, "an answer of a wrong size", 25);
            return;
        }
        number = get_letters(content, 8);
        took(content);
    }
    c->waiting--;
    c->answered_sum += number;
    in_flight--;
    counted++;
}

/* -- work ------------------------------------------------------------------------------------- */

static bool may_send(void)
{
    return (phase == WARMING || phase == MEASURING) && sent < options.count;
}

static void send_publish(uint64_t stamp_ns)
{
    left[sent & IN_FLIGHT_MASK] = options.connections;
    make_payload(sent, 0, stamp_ns);
    publisher->protocol->publish(publisher);
    sent++;
    in_flight++;
}

static void send_request(struct connection *c, uint64_t stamp_ns)
{
    uint32_t number = c->next_number++;
    make_payload(number, c->number, stamp_ns);
    c->protocol->request(c, number);
    c->sent_sum += number;
    c->waiting++;
    sent++;
    in_flight++;
}

static void after_read(struct connection *c)
{
    if (c->role == REQUESTER && options.rate == 0)
        while (c->waiting < options.depth && may_send())
            send_request(c, 0);
}

/* Everything that was due by now. */
static void send_due(uint64_t now)
{
    double interval_ns = SECOND / options.rate;
    uint64_t due = (now - due_from_ns) / interval_ns;
    while (sent < due && may_send() && in_flight < IN_FLIGHT_MASK) {
        uint64_t stamp_ns = due_from_ns + sent * interval_ns;
        if (is_fanout)
            send_publish(stamp_ns);
        else
            send_request(&all[sent % options.connections], stamp_ns);
    }
}

static void work(uint64_t now)
{
    if (options.rate > 0) {
        send_due(now);
    } else if (is_fanout) {
        while (in_flight < options.depth && may_send())
            send_publish(0);
    }
    net_flush();
}

static void begin(uint64_t now)
{
    phase = WARMING;
    due_from_ns = now;
    measured.from_ns = now + options.warm_s * SECOND;
    measured.to_ns = measured.from_ns + options.seconds * SECOND;
    if (options.rate == 0 && !is_fanout)
        for (unsigned i = 0; i < options.connections; i++)
            after_read(&all[i]);
}

static void move_on(uint64_t now)
{
    if (phase == OPENING && ready_count == total) {
        begin(now);
    } else if (phase == WARMING && now >= measured.from_ns) {
        phase = MEASURING;
        measured.from_ns = now;
        measured.from_count = counted;
        measured.from_sent = sent;
        measured.from_cpu_ns = cpu_ns();
    } else if (phase == MEASURING && (now >= measured.to_ns || sent >= options.count)) {
        phase = DRAINING;
        measured.to_ns = now;
        measured.to_count = counted;
        measured.to_sent = sent;
        measured.to_cpu_ns = cpu_ns();
    } else if (phase == DRAINING &&
               (in_flight == 0 || now >= measured.to_ns + DRAIN_S * SECOND)) {
        phase = OVER;
    }
}

static void open_some(void)
{
    for (; opened < total && opened - ready_count < options.window; opened++) {
        struct connection *c = &all[opened];
        net_connect(c, c == publisher ? options.publisher_port : options.port);
    }
}

static void open_all(uint64_t until_ns)
{
    while (ready_count < total) {
        open_some();
        net_turn(100);
        if (now_ns() > until_ns)
            stop("opening", "not all connections were ready in time");
    }
}

/* -- setting up ------------------------------------------------------------------------------- */

/* Lines of an id and a token; each connection takes the next. */
static void read_clients(void)
{
    for (unsigned i = 0; i < total; i++)
        all[i].id = all[i].token = "";
    if (options.clients == NULL)
        return;
    FILE *file = fopen(options.clients, "r");
    char id[256], token[256];
    if (file == NULL)
        stop(options.clients, "cannot be read");
    for (unsigned line = 0; line < options.first + total; line++) {
        if (fscanf(file, "%255s %255s", id, token) != 2)
            stop(options.clients, "too few clients");
        if (line >= options.first) {
            all[line - options.first].id = strdup(id);
            all[line - options.first].token = strdup(token);
        }
    }
    fclose(file);
}

static void make_connections(void)
{
    bool is_rpc = !is_fanout && !is_idle;
    bool one_more = is_fanout || (is_rpc && options.protocol->needs_responder);
    enum role role = is_fanout || options.subscribes ? SUBSCRIBER : is_rpc ? REQUESTER : SILENT;
    total = options.connections + one_more;
    all = calloc(total, sizeof *all);
    for (unsigned i = 0; i < total; i++) {
        bool is_last = i == options.connections;
        all[i].number = i;
        all[i].role = !is_last ? role : is_fanout ? PUBLISHER : RESPONDER;
        all[i].protocol = is_last && is_fanout ? options.publisher : options.protocol;
    }
    if (is_fanout)
        publisher = &all[options.connections];
    read_clients();
}

static void use_core(void)
{
    if (options.core < 0)
        return;
    cpu_set_t cores;
    CPU_ZERO(&cores);
    CPU_SET(options.core, &cores);
    if (sched_setaffinity(0, sizeof cores, &cores) != 0)
        stop("core", "cannot be had");
}

/* -- what was found --------------------------------------------------------------------------- */

static void report(uint64_t opened_ns)
{
    uint64_t frames_out = 0, wrong = 0;
    for (unsigned i = 0; i < total; i++) {
        frames_out += all[i].sent_frames;
        wrong += all[i].waiting == 0 && all[i].sent_sum != all[i].answered_sum;
    }
    uint64_t wanted = is_fanout ? sent * options.connections : sent;
    double seconds = (measured.to_ns - measured.from_ns) / (double)SECOND;
    uint64_t count = measured.to_count - measured.from_count;
    printf("{\"count\":%llu,\"seconds\":%.6f,\"rate\":%.1f,\"sent_rate\":%.1f,",
           (unsigned long long)count, seconds, seconds > 0 ? count / seconds : 0,
           seconds > 0 ? (measured.to_sent - measured.from_sent) / seconds : 0);
    double cpu_s = (measured.to_cpu_ns - measured.from_cpu_ns) / (double)SECOND;
    printf("\"busy\":%.4f,", seconds > 0 ? cpu_s / seconds : 0);
    printf("\"sent\":%llu,\"lost\":%lld,\"faults\":%llu,\"fault\":\"%s\",",
           (unsigned long long)sent, (long long)(wanted - counted),
           (unsigned long long)(faults + wrong), first_fault);
    printf("\"frames_in\":%llu,\"frames_out\":%llu,\"open_s\":%.3f,",
           (unsigned long long)frames_in, (unsigned long long)frames_out,
           opened_ns / (double)SECOND);
    printf("\"p50_us\":%.3f,\"p99_us\":%.3f,\"p999_us\":%.3f}\n", latency_us(0.5),
           latency_us(0.99), latency_us(0.999));
}

int main(int count, char **words)
{
    read_options(count, words);
    use_core();
    is_fanout = strcmp(options.mode, "fanout") == 0;
    is_idle = strcmp(options.mode, "idle") == 0;
    if (!is_fanout && !is_idle && strcmp(options.mode, "rpc") != 0)
        stop("mode", "wanted fanout, rpc or idle");
    payload = malloc(payload_size);
    memset(payload, 'x', payload_size);
    make_connections();
    net_prepare("127.0.0.1", options.tls);
    uint64_t start = now_ns();
    open_all(start + OPEN_S * SECOND);
    uint64_t opened_ns = now_ns() - start;
    if (is_idle) {
        puts("ready");
        fflush(stdout);
        net_watch_input();
        while (!net_input_ended())
            net_turn(1000);
    } else {
        net_after_read = after_read;
        net_keeps_time = options.rate > 0;
        while (phase != OVER) {
            uint64_t now = now_ns();
            move_on(now);
            work(now);
            net_turn(options.rate > 0 && phase != DRAINING ? 0 : 50);
        }
    }
    report(opened_ns);
    return 0;
}

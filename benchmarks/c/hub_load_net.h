/* Sockets of the load generator: connect, read, write, one turn of epoll after another. */

#ifndef HUB_LOAD_NET_H
#define HUB_LOAD_NET_H

#include "hub_load.h"

uint64_t now_ns(void);
/* What this program has used of its core. */
uint64_t cpu_ns(void);
void net_prepare(const char *host, bool with_tls);
void net_connect(struct connection *, unsigned port);
/* Waits so long at most, reads what has come, writes what is to go. */
void net_turn(int timeout_ms);
void net_flush(void);
/* Also looks whether standard input has ended. */
void net_watch_input(void);
bool net_input_ended(void);

/* Called after a connection was read from. */
extern void (*net_after_read)(struct connection *);
/* When what is being taken was read, if it is to be known. */
extern bool net_keeps_time;
extern uint64_t net_read_ns;

#endif

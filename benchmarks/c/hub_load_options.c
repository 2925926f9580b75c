#include "hub_load_options.h"

#include <getopt.h>
#include <stdlib.h>

size_t payload_size = 64;
const char *topic = "@bench";
enum operation operation = ECHO;

struct options options = {.mode = "",
                          .connections = 1,
                          .depth = 1,
                          .window = 64,
                          .seconds = 1,
                          .warm_s = 0.2,
                          .count = UINT32_MAX,
                          .core = -1};

static const struct protocol *find_protocol(const char *name)
{
    const struct protocol *known[] = {&comet, &esnp,  &tny,  &nats, &mqtt, &redis,
#ifdef HUB_LOAD_TLS
                                      &magline
#endif
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(known[i]->name, name) == 0)
            return known[i];
    stop(name, "no such protocol here");
}

static enum operation find_operation(const char *name)
{
    if (strcmp(name, "echo") == 0)
        return ECHO;
    if (strcmp(name, "add") == 0)
        return ADD;
    if (strcmp(name, "publish") == 0)
        return PUBLISH;
    stop(name, "no such operation");
}

void read_options(int count, char **words)
{
    static const struct option known[] = {
        {"mode", 1, NULL, 'm'},      {"protocol", 1, NULL, 'p'},  {"publisher", 1, NULL, 'P'},
        {"port", 1, NULL, 'o'},      {"publisher-port", 1, NULL, 'O'},
        {"connections", 1, NULL, 'n'}, {"depth", 1, NULL, 'd'},   {"size", 1, NULL, 's'},
        {"seconds", 1, NULL, 't'},   {"warm", 1, NULL, 'w'},      {"rate", 1, NULL, 'r'},
        {"count", 1, NULL, 'c'},     {"clients", 1, NULL, 'f'},   {"first", 1, NULL, 'F'},
        {"op", 1, NULL, 'x'},        {"topic", 1, NULL, 'T'},     {"core", 1, NULL, 'C'},
        {"window", 1, NULL, 'W'},    {"tls", 0, NULL, 'S'},       {"subscribe", 0, NULL, 'b'},
        {NULL, 0, NULL, 0}};
    for (int which; (which = getopt_long(count, words, "", known, NULL)) != -1;)
        switch (which) {
        case 'm': options.mode = optarg; break;
        case 'p': options.protocol = find_protocol(optarg); break;
        case 'P': options.publisher = find_protocol(optarg); break;
        case 'o': options.port = atoi(optarg); break;
        case 'O': options.publisher_port = atoi(optarg); break;
        case 'n': options.connections = atoi(optarg); break;
        case 'd': options.depth = atoi(optarg); break;
        case 's': payload_size = atoi(optarg); break;
        case 't': options.seconds = atof(optarg); break;
        case 'w': options.warm_s = atof(optarg); break;
        case 'r': options.rate = atof(optarg); break;
        case 'c': options.count = strtoull(optarg, NULL, 10); break;
        case 'f': options.clients = optarg; break;
        case 'F': options.first = atoi(optarg); break;
        case 'x': operation = find_operation(optarg); break;
        case 'T': topic = optarg; break;
        case 'C': options.core = atoi(optarg); break;
        case 'W': options.window = atoi(optarg); break;
        case 'S': options.tls = true; break;
        case 'b': options.subscribes = true; break;
        default: stop("options", "see the head of hub_load.c");
        }
    if (options.protocol == NULL || options.connections == 0 || payload_size < HEAD_BYTES)
        stop("options", "wanted --protocol, --connections above 0 and --size of 32 or more");
    if (options.publisher == NULL) {
        options.publisher = options.protocol;
        options.publisher_port = options.port;
    }
}

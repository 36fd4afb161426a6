/* The bare workload of simulator.py in C, in the design of the kernel `storm`, one event per copy: a wheel of
   buckets, each a chain of chunks in one pool. Prints million copies per CPU second, best of eight. */

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { CHUNK_BITS = 6, CHUNK = 1 << CHUNK_BITS, FLIGHT_UT = 102, WINDOW_UT = 1000 };

static int64_t span, nodes, free_chunk, used_chunks, in_flight;
static int32_t *head, *pool, *next_chunk;
static int64_t *position, *busy_until, *queue_total, *queue_copies;

static inline void push(int64_t time, int32_t event) {
    uint64_t bucket = time & (span - 1);
    int64_t place = position[bucket];
    if (!(place & (CHUNK - 1))) {
        int64_t chunk = free_chunk;
        if (chunk) free_chunk = next_chunk[chunk];
        else chunk = used_chunks++;
        if (place) next_chunk[(place >> CHUNK_BITS) - 1] = chunk;
        else head[bucket] = chunk;
        place = chunk << CHUNK_BITS;
    }
    pool[place] = event;
    position[bucket] = place + 1;
}

static inline void pass_on(int64_t now, int64_t node, int64_t distance, int32_t carried) {
    int64_t turn = busy_until[node] > now ? busy_until[node] : now, backlog = turn - now, sent = 0;
    for (int64_t bit = 1; !(distance & bit); bit <<= 1, sent++, turn++)
        push(turn + FLIGHT_UT, carried | (node ^ bit));
    busy_until[node] = turn;
    in_flight += sent;
    queue_copies[node] += sent;
    queue_total[node] += sent * backlog + sent * (sent + 1) / 2;
}

int main(int argc, char **argv) {
    (void)argc;
    nodes = atoll(argv[1]);
    int dimension = 0;
    while (((int64_t)1 << dimension) < nodes) dimension++;
    span = 1024;
    while (span <= FLIGHT_UT + nodes) span *= 2;
    int64_t chunks = nodes * nodes / CHUNK + span + 4;
    head = malloc(span * sizeof *head);
    position = malloc(span * sizeof *position);
    pool = malloc((chunks << CHUNK_BITS) * sizeof *pool);
    next_chunk = malloc(chunks * sizeof *next_chunk);
    memset(pool, 0, (chunks << CHUNK_BITS) * sizeof *pool);
    int64_t *when = malloc(nodes * sizeof *when), *who = malloc(nodes * sizeof *who);
    double best = 1e9;
    for (int repeat = 0; repeat < 8; repeat++) {
        memset(position, 0, span * sizeof *position);
        free_chunk = in_flight = 0;
        used_chunks = 1;
        busy_until = calloc(nodes, sizeof *busy_until);
        queue_total = calloc(nodes, sizeof *queue_total);
        queue_copies = calloc(nodes, sizeof *queue_copies);
        int64_t *latency = calloc(8 * span, sizeof *latency), per_ut[WINDOW_UT] = {0}, filled = 0;
        srand(1);
        for (int64_t i = 0; i < nodes; i++) per_ut[rand() % WINDOW_UT]++, who[i] = i;
        for (int64_t t = 0; t < WINDOW_UT; t++) while (per_ut[t]--) when[filled++] = t;
        for (int64_t i = nodes - 1; i > 0; i--) {
            int64_t j = rand() % (i + 1), other = who[i];
            who[i] = who[j];
            who[j] = other;
        }
        clock_t begin = clock();
        for (int64_t now = 0, published = 0; published < nodes || in_flight; now++) {
            for (; published < nodes && when[published] == now; published++)
                pass_on(now, who[published], nodes, (int32_t)(published << dimension));
            uint64_t bucket = now & (span - 1);
            if (!position[bucket]) continue;
            int64_t chunk = head[bucket], place = chunk << CHUNK_BITS;
            do {
                if (place == (chunk + 1) << CHUNK_BITS) {
                    int64_t following = next_chunk[chunk];
                    next_chunk[chunk] = free_chunk;
                    free_chunk = chunk;
                    chunk = following;
                    place = chunk << CHUNK_BITS;
                }
                int64_t event = pool[place++], message = event >> dimension, node = event & (nodes - 1);
                in_flight--;
                latency[now - when[message]]++;
                int64_t distance = node ^ who[message];
                if (!(distance & 1)) pass_on(now, node, distance, (int32_t)(message << dimension));
            } while (place != position[bucket]);
            next_chunk[chunk] = free_chunk;
            free_chunk = chunk;
            position[bucket] = 0;
        }
        double seconds = (double)(clock() - begin) / CLOCKS_PER_SEC;
        if (seconds < best) best = seconds;
    }
    printf("%.2f\n", nodes * (nodes - 1) / best / 1e6);
    return 0;
}

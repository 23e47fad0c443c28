/* A completions server that costs next to nothing and whose delays are known.
 *
 * One thread, epoll. Each POST is answered by a chunked SSE stream: the first event ttft_us after
 * the last byte of the request came, each further event itl_us later, tokens_per_chunk tokens an
 * event, max_tokens tokens in all (read from the body's last KiB), then usage and [DONE]. With
 * log=FILE it writes four doubles a request (CLOCK_MONOTONIC, seconds): first byte in, last byte
 * in, first event out, last event out: the truth a client is compared with. SIGTERM ends it; it
 * then prints requests and its own CPU seconds, so that whoever measures sees it was not the limit.
 *
 *   cc -O2 -o server server.c
 *   ./server port=8000 ttft_us=0 itl_us=0 tokens_per_chunk=1 prompt_tokens=100 log=truth.bin
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define HEAD_MAX 16384
#define TAIL 1024
#define OUT_STEP 65536

typedef struct {
    int fd, head_len, tail_len, in_body, streaming;
    long body_left, tokens_left, tokens_all;
    double first_in, last_in, first_out, due;
    int heap_at; /* place in the heap of timers, -1: none */
    char head[HEAD_MAX], tail[TAIL];
    char *out;
    size_t out_len, out_sent, out_cap;
} Conn;

static long port = 8000, ttft_us, itl_us, per_chunk = 1, default_tokens = 16, prompt_tokens = 100;
static FILE *truth;
static volatile sig_atomic_t stopping;
static int epfd;
static long served;
static Conn **heap;
static int heap_len, heap_cap;
static char scratch[1 << 20];

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec * 1e-9;
}

static void place(int i, Conn *c) {
    heap[i] = c;
    c->heap_at = i;
}

static void sift(int i) {
    Conn *c = heap[i];
    while (i > 0 && heap[(i - 1) / 2]->due > c->due) {
        place(i, heap[(i - 1) / 2]);
        i = (i - 1) / 2;
    }
    for (;;) {
        int child = 2 * i + 1;
        if (child >= heap_len) break;
        if (child + 1 < heap_len && heap[child + 1]->due < heap[child]->due) child++;
        if (heap[child]->due >= c->due) break;
        place(i, heap[child]);
        i = child;
    }
    place(i, c);
}

static void timer_set(Conn *c, double due) {
    c->due = due;
    if (c->heap_at < 0) {
        if (heap_len == heap_cap) {
            heap_cap = heap_cap ? heap_cap * 2 : 1024;
            heap = realloc(heap, heap_cap * sizeof *heap);
        }
        place(heap_len++, c);
    }
    sift(c->heap_at);
}

static void timer_drop(Conn *c) {
    int i = c->heap_at;
    if (i < 0) return;
    c->heap_at = -1;
    Conn *last = heap[--heap_len];
    if (last != c) {
        place(i, last);
        sift(i);
    }
}

static void drop(Conn *c) {
    timer_drop(c);
    close(c->fd);
    free(c->out);
    free(c);
}

static void put(Conn *c, const char *data, size_t len) {
    if (c->out_len + len > c->out_cap) {
        c->out_cap = c->out_len + len + OUT_STEP;
        c->out = realloc(c->out, c->out_cap);
    }
    memcpy(c->out + c->out_len, data, len);
    c->out_len += len;
}

static void put_event(Conn *c, const char *text) {
    char frame[640];
    int len = snprintf(frame, sizeof frame, "%zx\r\n%s\r\n", strlen(text), text);
    put(c, frame, len);
}

/* -1 when the connection is gone. */
static int flush_out(Conn *c) {
    while (c->out_sent < c->out_len) {
        ssize_t n = send(c->fd, c->out + c->out_sent, c->out_len - c->out_sent, MSG_NOSIGNAL);
        if (n < 0) {
            if (errno != EAGAIN) return -1;
            struct epoll_event e = {EPOLLIN | EPOLLOUT, {.ptr = c}};
            epoll_ctl(epfd, EPOLL_CTL_MOD, c->fd, &e);
            return 0;
        }
        c->out_sent += n;
    }
    c->out_len = c->out_sent = 0;
    return 0;
}

static void put_tokens(Conn *c) {
    char text[512];
    long k = c->tokens_left < per_chunk ? c->tokens_left : per_chunk;
    c->tokens_left -= k;
    snprintf(text, sizeof text,
             "data: {\"id\":\"cmpl-%ld\",\"object\":\"text_completion\",\"created\":1700000000,"
             "\"model\":\"fake\",\"choices\":[{\"index\":0,\"text\":\" word\",\"logprobs\":null,"
             "\"finish_reason\":%s,\"stop_reason\":null}],\"usage\":null}\n\n",
             served, c->tokens_left ? "null" : "\"length\"");
    put_event(c, text);
}

static void put_end(Conn *c) {
    char text[400];
    snprintf(text, sizeof text,
             "data: {\"id\":\"cmpl-%ld\",\"object\":\"text_completion\",\"created\":1700000000,"
             "\"model\":\"fake\",\"choices\":[],\"usage\":{\"prompt_tokens\":%ld,"
             "\"total_tokens\":%ld,\"completion_tokens\":%ld}}\n\n",
             served, prompt_tokens, prompt_tokens + c->tokens_all, c->tokens_all);
    put_event(c, text);
    put_event(c, "data: [DONE]\n\n");
    put(c, "0\r\n\r\n", 5);
}

/* Everything that is due; the next timer is set from the last one's due time, so nothing drifts. */
static int advance(Conn *c) {
    double t = now();
    int first = 0;
    while (c->tokens_left && c->due <= t) {
        if (c->first_out == 0) {
            c->first_out = t;
            first = 1;
        }
        put_tokens(c);
        if (c->tokens_left) c->due += itl_us * 1e-6;
    }
    if (c->tokens_left) {
        timer_set(c, c->due);
    } else {
        put_end(c);
        timer_drop(c);
        c->streaming = 0;
        served++;
    }
    int gone = flush_out(c);
    if (first) c->first_out = now();
    if (!c->streaming && truth) {
        double row[4] = {c->first_in, c->last_in, c->first_out, now()};
        fwrite(row, sizeof row, 1, truth);
    }
    return gone;
}

static int answer_plain(Conn *c, const char *status, const char *body) {
    char text[600];
    int len = snprintf(text, sizeof text,
                       "HTTP/1.1 %s\r\nContent-Type: application/json\r\nContent-Length: %zu\r\n\r\n%s",
                       status, strlen(body), body);
    put(c, text, len);
    return flush_out(c);
}

static int request_in(Conn *c) {
    c->in_body = 0;
    c->last_in = now();
    c->tail[c->tail_len < TAIL ? c->tail_len : TAIL - 1] = 0;
    int post = !strncmp(c->head, "POST /v1/", 9);
    if (!strncmp(c->head, "GET /v1/models", 14))
        return answer_plain(c, "200 OK", "{\"object\":\"list\",\"data\":[{\"id\":\"fake\",\"object\":\"model\"}]}");
    if (!strncmp(c->head, "GET /health", 11)) return answer_plain(c, "200 OK", "{}");
    if (!post) return answer_plain(c, "404 Not Found", "{}");
    char *found = strstr(c->tail, "max_tokens\":");
    c->tokens_all = found ? atol(found + 12) : default_tokens;
    if (c->tokens_all < 1) c->tokens_all = 1;
    c->tokens_left = c->tokens_all;
    c->first_out = 0;
    c->streaming = 1;
    static const char head[] =
        "HTTP/1.1 200 OK\r\nserver: fake\r\ncontent-type: text/event-stream; charset=utf-8\r\n"
        "transfer-encoding: chunked\r\n\r\n";
    put(c, head, sizeof head - 1);
    c->due = c->last_in + ttft_us * 1e-6;
    if (ttft_us) { /* headers go out at once, as vLLM's do */
        if (flush_out(c)) return -1;
        timer_set(c, c->due);
        return 0;
    }
    return advance(c);
}

static int take_head(Conn *c) {
    char *end = memmem(c->head, c->head_len, "\r\n\r\n", 4);
    if (!end) return c->head_len == HEAD_MAX ? -1 : 0;
    *end = 0;
    char *field = strcasestr(c->head, "\r\ncontent-length:");
    c->body_left = field ? atol(field + 17) : 0;
    long have = c->head + c->head_len - (end + 4);
    c->in_body = 1;
    c->body_left -= have;
    long keep = have < TAIL - 1 ? have : TAIL - 1;
    memcpy(c->tail, c->head + c->head_len - keep, keep);
    c->tail_len = keep;
    c->head_len = 0;
    return c->body_left <= 0 ? request_in(c) : 0;
}

static void keep_tail(Conn *c, const char *data, long len) {
    long room = TAIL - 1;
    if (len >= room) {
        memcpy(c->tail, data + len - room, room);
        c->tail_len = room;
        return;
    }
    long old = c->tail_len + len > room ? room - len : c->tail_len;
    memmove(c->tail, c->tail + c->tail_len - old, old);
    memcpy(c->tail + old, data, len);
    c->tail_len = old + len;
}

static int readable(Conn *c) {
    for (;;) {
        ssize_t n;
        if (c->in_body) {
            size_t want = c->body_left < (long)sizeof scratch ? (size_t)c->body_left : sizeof scratch;
            n = recv(c->fd, scratch, want, 0);
        } else {
            n = recv(c->fd, c->head + c->head_len, HEAD_MAX - c->head_len, 0);
        }
        if (n == 0) return -1;
        if (n < 0) return errno == EAGAIN ? 0 : -1;
        int gone = 0;
        if (c->in_body) {
            keep_tail(c, scratch, n);
            c->body_left -= n;
            if (c->body_left <= 0) gone = request_in(c);
        } else {
            if (c->head_len == 0) c->first_in = now();
            c->head_len += n;
            gone = take_head(c);
        }
        if (gone) return -1;
    }
}

static void accept_all(int listener) {
    int fd;
    while ((fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0) {
        int one = 1;
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        Conn *c = calloc(1, sizeof *c);
        c->fd = fd;
        c->heap_at = -1;
        struct epoll_event e = {EPOLLIN, {.ptr = c}};
        epoll_ctl(epfd, EPOLL_CTL_ADD, fd, &e);
    }
}

static void stop(int number) {
    (void)number;
    stopping = 1;
}

static void options(int argc, char **argv) {
    struct {
        const char *name;
        long *value;
    } known[] = {{"port=", &port},           {"ttft_us=", &ttft_us},
                 {"itl_us=", &itl_us},       {"tokens_per_chunk=", &per_chunk},
                 {"tokens=", &default_tokens}, {"prompt_tokens=", &prompt_tokens}};
    for (int i = 1; i < argc; i++) {
        int found = 0;
        for (size_t k = 0; k < sizeof known / sizeof *known; k++) {
            size_t len = strlen(known[k].name);
            if (!strncmp(argv[i], known[k].name, len)) {
                *known[k].value = atol(argv[i] + len);
                found = 1;
            }
        }
        if (!strncmp(argv[i], "log=", 4)) {
            truth = fopen(argv[i] + 4, "wb");
            found = truth != NULL;
        }
        if (!found) {
            fprintf(stderr, "server: %s: not understood or not writable\n", argv[i]);
            exit(2);
        }
    }
}

int main(int argc, char **argv) {
    options(argc, argv);
    struct sigaction act = {.sa_handler = stop};
    sigaction(SIGTERM, &act, NULL);
    sigaction(SIGINT, &act, NULL);
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), one = 1;
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(port)};
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (bind(listener, (struct sockaddr *)&at, sizeof at) || listen(listener, 65535)) {
        perror("server: listen");
        return 1;
    }
    epfd = epoll_create1(0);
    struct epoll_event e = {EPOLLIN, {.ptr = NULL}}, ready[512];
    epoll_ctl(epfd, EPOLL_CTL_ADD, listener, &e);
    socklen_t len = sizeof at;
    getsockname(listener, (struct sockaddr *)&at, &len);
    printf("listening %d\n", ntohs(at.sin_port));
    fflush(stdout);
    while (!stopping) {
        struct timespec wait = {1, 0}, *limit = &wait;
        if (heap_len) {
            double left = heap[0]->due - now();
            if (left < 0) left = 0;
            if (left > 1) left = 1;
            wait.tv_sec = (time_t)left;
            wait.tv_nsec = (long)((left - wait.tv_sec) * 1e9);
        }
        int n = epoll_pwait2(epfd, ready, 512, limit, NULL);
        for (int i = 0; i < n; i++) {
            Conn *c = ready[i].data.ptr;
            if (!c) {
                accept_all(listener);
                continue;
            }
            int gone = 0;
            if (ready[i].events & EPOLLOUT) {
                struct epoll_event back = {EPOLLIN, {.ptr = c}};
                epoll_ctl(epfd, EPOLL_CTL_MOD, c->fd, &back);
                gone = flush_out(c);
            }
            if (!gone && ready[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR)) gone = readable(c);
            if (gone) drop(c);
        }
        double t = now();
        while (heap_len && heap[0]->due <= t) {
            Conn *c = heap[0];
            if (advance(c)) drop(c);
        }
    }
    struct rusage use;
    getrusage(RUSAGE_SELF, &use);
    printf("served %ld cpu_s %.3f\n", served,
           use.ru_utime.tv_sec + use.ru_stime.tv_sec +
               (use.ru_utime.tv_usec + use.ru_stime.tv_usec) * 1e-6);
    if (truth) fclose(truth);
    return 0;
}

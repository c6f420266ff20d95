/* The server behind every contender: upstream PORT. One thread, epoll.

   PUT /shape?kind=paced&rate=50&events=200   what every later POST is answered with:
       paced   `events` events, `rate` a second, from a random phase
       flood   events as fast as they are taken, for `seconds`
       idle    one event, and after a POST /go another one and the end
       short   1 KB of JSON with a length
   GET /sent          {"events": made since the shape was set, "streams": ended whole, "spans": bytes of POST /v1/...}
   POST /v1/traces, /v1/logs   taken and thrown away: the collector of who exports

   An event is one HTTP chunk. A paced event that its connection cannot take waits in memory and keeps its stamp, so
   that a slow proxy cannot make the upstream wait for it and look fast. */
#include "wire.h"
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define MAX_FD 131072
#define IN_BYTES 16384
#define BLOCK_EVENTS 32
#define FRAME_BYTES 4 /* "b5\r\n" */
#define CHUNK_BYTES (FRAME_BYTES + EVENT_BYTES + 2)
_Static_assert(EVENT_BYTES >= 16 && EVENT_BYTES < 256, "the size of a chunk has two digits");
#define MOST_PENDING (4 << 20) /* bytes that a paced stream may wait with: more is a dead proxy */

enum kind { PACED, FLOOD, IDLE, SHORT };
struct shape { enum kind kind; double rate, seconds; int64_t events; };
struct peer {
  int fd, heap_at;
  bool is_streaming, wants_out;
  size_t in_bytes, body_left;
  struct shape shape;
  int64_t due_ns, interval_ns, ends_ns, number;
  char *out;
  size_t out_from, out_to;
  char in[IN_BYTES + 1];
};

static struct peer *peers[MAX_FD], *heap[MAX_FD];
static int heap_count, poll_fd;
static struct shape shape = {PACED, 50, 2, 100};
static int64_t sent_events, whole_streams, span_bytes;
static char block[BLOCK_EVENTS * CHUNK_BYTES], answer[ANSWER_BYTES + 256];
static size_t answer_bytes;
static const char HEAD[] = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\nCache-Control: no-cache\r\n"
                           "Transfer-Encoding: chunked\r\n\r\n";
static const char TAKEN[] = "HTTP/1.1 200 OK\r\nContent-Type: application/x-protobuf\r\nContent-Length: 0\r\n\r\n";
static const char END[] = "e\r\n" DONE "\r\n0\r\n\r\n";

/* Timers: a heap by due time. */
static void place(int at, struct peer *peer) { heap[at] = peer; peer->heap_at = at; }

static void settle(int at) {
  struct peer *peer = heap[at];
  for (; at > 1 && heap[at / 2]->due_ns > peer->due_ns; at /= 2) place(at, heap[at / 2]);
  for (int child; (child = 2 * at) <= heap_count; at = child) {
    if (child < heap_count && heap[child + 1]->due_ns < heap[child]->due_ns) child++;
    if (heap[child]->due_ns >= peer->due_ns) break;
    place(at, heap[child]);
  }
  place(at, peer);
}

static void add_timer(struct peer *peer) { place(++heap_count, peer); settle(heap_count); }

static void drop_timer(struct peer *peer) {
  int at = peer->heap_at;
  if (at == 0) return;
  peer->heap_at = 0;
  struct peer *last = heap[heap_count--];
  if (last != peer) { place(at, last); settle(at); }
}

/* Connections. */
static void close_peer(struct peer *peer) {
  drop_timer(peer);
  close(peer->fd);
  peers[peer->fd] = NULL;
  free(peer->out);
  free(peer);
}

static void watch(struct peer *peer, bool wants_out) {
  if (peer->wants_out == wants_out) return;
  peer->wants_out = wants_out;
  struct epoll_event event = {.events = EPOLLIN | (wants_out ? EPOLLOUT : 0), .data.fd = peer->fd};
  epoll_ctl(poll_fd, EPOLL_CTL_MOD, peer->fd, &event);
}

/* False where the connection is dead. What it does not take now waits. */
static bool give(struct peer *peer, const char *data, size_t bytes) {
  if (peer->out_to == 0) {
    ssize_t taken = send(peer->fd, data, bytes, MSG_NOSIGNAL);
    if (taken < 0 && errno != EAGAIN) return false;
    if (taken > 0) { data += taken; bytes -= (size_t)taken; }
    if (bytes == 0) return true;
  }
  size_t waiting = peer->out_to - peer->out_from;
  if (waiting + bytes > MOST_PENDING) return false;
  char *grown = must(malloc(waiting + bytes));
  if (waiting > 0) memcpy(grown, peer->out + peer->out_from, waiting);
  memcpy(grown + waiting, data, bytes);
  free(peer->out);
  peer->out = grown;
  peer->out_from = 0;
  peer->out_to = waiting + bytes;
  watch(peer, true);
  return true;
}

/* 1 when nothing waits any more, 0 when something does, -1 where the connection is dead. */
static int flush(struct peer *peer) {
  while (peer->out_from < peer->out_to) {
    ssize_t taken = send(peer->fd, peer->out + peer->out_from, peer->out_to - peer->out_from, MSG_NOSIGNAL);
    if (taken < 0) return errno == EAGAIN ? 0 : -1;
    peer->out_from += (size_t)taken;
  }
  free(peer->out);
  peer->out = NULL;
  peer->out_from = peer->out_to = 0;
  return 1;
}

/* Streams. */
static bool finish(struct peer *peer) {
  peer->is_streaming = false;
  drop_timer(peer);
  whole_streams++;
  return give(peer, END, sizeof END - 1);
}

static bool give_events(struct peer *peer, int count) {
  int64_t at_ns = now_ns();
  for (int i = 0; i < count; i++) put_text(block + i * CHUNK_BYTES + FRAME_BYTES, at_ns, peer->number++);
  sent_events += count;
  return give(peer, block, (size_t)count * CHUNK_BYTES);
}

static bool pour(struct peer *peer) {
  for (int turn = 0; turn < 8; turn++) { /* then it is the turn of others */
    int flushed = flush(peer);
    if (flushed < 0) return false;
    if (flushed == 0) return true;
    if (now_ns() >= peer->ends_ns) { watch(peer, false); return finish(peer); }
    if (!give_events(peer, BLOCK_EVENTS)) return false;
  }
  watch(peer, true);
  return true;
}

static bool begin(struct peer *peer) {
  peer->shape = shape;
  if (shape.kind == SHORT) return give(peer, answer, answer_bytes);
  peer->is_streaming = true;
  peer->number = 0;
  if (!give(peer, HEAD, sizeof HEAD - 1)) return false;
  int64_t at_ns = now_ns();
  if (shape.kind == IDLE) return give_events(peer, 1);
  if (shape.kind == FLOOD) { peer->ends_ns = at_ns + (int64_t)(shape.seconds * 1e9); return pour(peer); }
  peer->interval_ns = (int64_t)(1e9 / shape.rate);
  peer->due_ns = at_ns + (int64_t)((double)peer->interval_ns * ((double)random() / (double)RAND_MAX));
  add_timer(peer);
  return true;
}

static void wake_idle(void) {
  for (int fd = 0; fd < MAX_FD; fd++) {
    struct peer *peer = peers[fd];
    if (peer != NULL && peer->is_streaming && peer->shape.kind == IDLE && !(give_events(peer, 1) && finish(peer))) close_peer(peer);
  }
}

/* Requests: a head, and a body with a length. */
static double number_of(const char *query, const char *name, double otherwise) {
  const char *found = strstr(query, name);
  return found == NULL ? otherwise : atof(found + strlen(name));
}

static void set_shape(const char *query) {
  shape.kind = strstr(query, "kind=flood") ? FLOOD : strstr(query, "kind=idle") ? IDLE : strstr(query, "kind=short") ? SHORT : PACED;
  shape.rate = number_of(query, "rate=", 50);
  shape.seconds = number_of(query, "seconds=", 2);
  shape.events = (int64_t)number_of(query, "events=", 100);
  sent_events = whole_streams = span_bytes = 0;
}

static bool reply(struct peer *peer, const char *text) {
  char said[512];
  int bytes = snprintf(said, sizeof said, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %zu\r\n\r\n%s", strlen(text), text);
  return give(peer, said, (size_t)bytes);
}

static bool respond(struct peer *peer, const char *head, size_t body_bytes) {
  char text[256];
  if (strncmp(head, "PUT /shape", 10) == 0) { set_shape(head); return reply(peer, "{}"); }
  if (strncmp(head, "GET /sent", 9) == 0) {
    snprintf(text, sizeof text, "{\"events\": %lld, \"streams\": %lld, \"spans\": %lld}", (long long)sent_events, (long long)whole_streams, (long long)span_bytes);
    return reply(peer, text);
  }
  if (strncmp(head, "POST /go", 8) == 0) { wake_idle(); return reply(peer, "{}"); }
  if (strncmp(head, "POST /v1/traces", 15) == 0 || strncmp(head, "POST /v1/logs", 13) == 0) {
    span_bytes += (int64_t)body_bytes;
    return give(peer, TAKEN, sizeof TAKEN - 1);
  }
  if (strncmp(head, "POST ", 5) == 0) return begin(peer);
  return reply(peer, "{}");
}

static bool take(struct peer *peer) {
  while (peer->in_bytes > 0 && !peer->is_streaming) {
    if (peer->body_left > 0) {
      size_t part = peer->in_bytes < peer->body_left ? peer->in_bytes : peer->body_left;
      memmove(peer->in, peer->in + part, peer->in_bytes - part);
      peer->in_bytes -= part;
      peer->body_left -= part;
      continue;
    }
    peer->in[peer->in_bytes] = 0;
    char *end = strstr(peer->in, "\r\n\r\n");
    if (end == NULL) return peer->in_bytes < IN_BYTES;
    char head[256];
    snprintf(head, sizeof head, "%.*s", (int)strcspn(peer->in, "\r"), peer->in);
    char *length = strcasestr(peer->in, "\r\ncontent-length:");
    size_t body_bytes = length != NULL && length < end ? strtoul(length + 17, NULL, 10) : 0;
    size_t head_bytes = (size_t)(end + 4 - peer->in), there = peer->in_bytes - head_bytes;
    size_t part = there < body_bytes ? there : body_bytes;
    peer->body_left = body_bytes - part; /* thrown away when it comes: nobody waits for the answer to read it */
    memmove(peer->in, peer->in + head_bytes + part, there - part);
    peer->in_bytes = there - part;
    if (!respond(peer, head, body_bytes)) return false;
  }
  return true;
}

static void accept_all(int listener) {
  int fd, on = 1;
  while ((fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK)) >= 0) {
    if (fd >= MAX_FD) { close(fd); continue; }
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    struct peer *peer = must(calloc(1, sizeof *peer));
    peer->fd = fd;
    peers[fd] = peer;
    struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};
    epoll_ctl(poll_fd, EPOLL_CTL_ADD, fd, &event);
  }
}

static bool serve(struct peer *peer, uint32_t events) {
  if (events & EPOLLERR) return false;
  if (events & (EPOLLIN | EPOLLHUP)) {
    ssize_t got = recv(peer->fd, peer->in + peer->in_bytes, IN_BYTES - peer->in_bytes, 0);
    if (got == 0 || (got < 0 && errno != EAGAIN)) return false;
    if (got > 0) { peer->in_bytes += (size_t)got; if (!take(peer)) return false; }
  }
  if (events & EPOLLOUT) {
    if (peer->is_streaming && peer->shape.kind == FLOOD) return pour(peer);
    int flushed = flush(peer);
    if (flushed < 0) return false;
    if (flushed == 1) watch(peer, false);
  }
  return true;
}

static void beat(void) {
  int64_t at_ns;
  while (heap_count > 0 && heap[1]->due_ns <= (at_ns = now_ns())) {
    struct peer *peer = heap[1];
    bool is_alive = give_events(peer, 1);
    if (is_alive && peer->number >= peer->shape.events) is_alive = finish(peer);
    if (!is_alive) { close_peer(peer); continue; }
    if (peer->heap_at) { peer->due_ns += peer->interval_ns; settle(1); }
  }
}

static int listen_on(int port) {
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), on = 1;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  if (bind(fd, (struct sockaddr *)&address, sizeof address) < 0 || listen(fd, 16384) < 0) {
    perror("upstream");
    exit(1);
  }
  return fd;
}

int main(int count, char **words) {
  if (count != 2) { fputs("upstream PORT\n", stderr); return 2; }
  signal(SIGPIPE, SIG_IGN);
  srandom(1);
  raise_descriptors();
  for (int i = 0; i < BLOCK_EVENTS; i++) {
    char *chunk = block + i * CHUNK_BYTES;
    snprintf(chunk, FRAME_BYTES + 1, "%02x\r\n", (unsigned)EVENT_BYTES);
    put_event(chunk + FRAME_BYTES);
    memcpy(chunk + FRAME_BYTES + EVENT_BYTES, "\r\n", 2);
  }
  answer_bytes = (size_t)snprintf(answer, 256, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n", ANSWER_BYTES);
  put_answer(answer + answer_bytes);
  answer_bytes += ANSWER_BYTES;
  int listener = listen_on(atoi(words[1]));
  poll_fd = epoll_create1(0);
  struct epoll_event own = {.events = EPOLLIN, .data.fd = listener}, events[512];
  epoll_ctl(poll_fd, EPOLL_CTL_ADD, listener, &own);
  for (;;) {
    struct timespec wait = {1, 0};
    if (heap_count > 0) {
      int64_t left_ns = heap[1]->due_ns - now_ns();
      if (left_ns < 0) left_ns = 0;
      if (left_ns < 1000000000LL) wait = (struct timespec){0, left_ns};
    }
    int ready = epoll_pwait2(poll_fd, events, 512, &wait, NULL);
    for (int i = 0; i < ready; i++) {
      if (events[i].data.fd == listener) { accept_all(listener); continue; }
      struct peer *peer = peers[events[i].data.fd];
      if (peer != NULL && !serve(peer, events[i].events)) close_peer(peer);
    }
    beat();
  }
}

/* The readers before every contender: load KIND PORT STREAMS OPEN_NS CLOSE_NS RAMP_S GRACE_S EVENTS PATH [loose]

   stream  POSTs, read as they come; what arrives from OPEN_NS to CLOSE_NS (CLOCK_MONOTONIC) is in the window
   flood   the same; what is still on its way GRACE_S behind the window is left, for it may be minutes of it
   short   one POST after the other on each connection, until CLOSE_NS
   idle    streams of which the first event is awaited; says "open", and reads on at a line of its input
   stuck   streams of which nothing is read; says "open" when all were asked for, and reads at a line of its input

   Every byte of every answer is checked: status, framing, the text of each event, its number in its stream, the end.
   EVENTS is how many each stream must have, 0: as many as come. loose: what the proxy rebuilds is only looked through
   for the texts. Prints one object of JSON; what was wrong is counted by kind in it, and the first of it is told. */
#include "wire.h"
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define HEAD_LIMIT 4096
#define EVENT_LIMIT 1024 /* of what a proxy rebuilt */
#define LATENCIES (1 << 22)

enum kind { STREAM, FLOOD, ONE_SHORT, IDLE, STUCK };
enum wrong { CONNECT, STATUS, FRAMING, TEXT, ORDER, CUT, UNFINISHED, WRONG_KINDS };
static const char *const WRONG[] = {"connect", "status", "framing", "text", "order", "cut", "unfinished"};
enum at { IN_HEAD, SIZE, DATA, DATA_END, LAST_LINE, SIZED, OVER };

struct stream {
  int fd;
  enum at at;
  bool is_open, is_done, has_asked;
  size_t head_bytes, left, piece_bytes;
  int64_t number, asked_ns;
  char head[HEAD_LIMIT + 1], piece[EVENT_LIMIT];
};

static enum kind kind;
static int port, stream_count, poll_fd;
static bool is_loose;
static int64_t open_ns, close_ns, most_events;
static struct stream *streams;
static char request[1024], answer[ANSWER_BYTES], sample[EVENT_BYTES];
static size_t request_bytes;
static int64_t event_count, window_events, window_bytes, window_requests, request_count, over_count, whole_count, left_count, first_count;
static int64_t wrong[WRONG_KINDS];
static uint32_t *latencies_ns;
static size_t latency_count;

static void ask(struct stream *stream);

static bool in_window(int64_t at_ns) { return at_ns >= open_ns && at_ns < close_ns; }

static void keep_latency(int64_t ns) {
  if (latency_count < LATENCIES) latencies_ns[latency_count++] = ns < 0 ? 0 : ns > UINT32_MAX ? UINT32_MAX : (uint32_t)ns;
}

static void end(struct stream *stream) {
  if (stream->at == OVER) return;
  stream->at = OVER;
  over_count++;
  if (stream->is_open) { close(stream->fd); stream->is_open = false; }
}

static void fail(struct stream *stream, enum wrong what, const char *said) {
  if (wrong[what]++ == 0) fprintf(stderr, "stream %ld: %s: %.200s\n", (long)(stream - streams), WRONG[what], said);
  end(stream);
}

/* The body. */
static bool take_text(struct stream *stream, const char *text, int64_t at_ns) {
  int64_t stamp_ns = take_digits(text, STAMP_DIGITS), number = take_digits(text + STAMP_DIGITS + 1, NUMBER_DIGITS);
  if (stamp_ns < 0 || number < 0 || text[STAMP_DIGITS] != ' ') { fail(stream, TEXT, "no stamp and number"); return false; }
  if (number != stream->number) { fail(stream, ORDER, "an event is missing, twice or out of order"); return false; }
  if (stream->number++ == 0) first_count++;
  event_count++;
  if (in_window(at_ns)) { window_events++; keep_latency(at_ns - stamp_ns); }
  return true;
}

static bool take_event(struct stream *stream, const char *event, int64_t at_ns) {
  if (memcmp(event, sample, HEAD_BYTES) || memcmp(event + HEAD_BYTES + TEXT_BYTES, EVENT_TAIL, TAIL_BYTES)) {
    fail(stream, TEXT, "an event has other bytes");
    return false;
  }
  return take_text(stream, event + HEAD_BYTES, at_ns);
}

static bool take_done(struct stream *stream) {
  if (stream->is_done || (most_events > 0 && stream->number != most_events)) { fail(stream, ORDER, "the end comes too early, or twice"); return false; }
  return stream->is_done = true;
}

static bool take_exact(struct stream *stream, const char *data, size_t bytes, int64_t at_ns) {
  while (bytes > 0) {
    if (stream->piece_bytes == 0 && bytes >= EVENT_BYTES && data[6] != '[') {
      if (!take_event(stream, data, at_ns)) return false;
      data += EVENT_BYTES;
      bytes -= EVENT_BYTES;
      continue;
    }
    stream->piece[stream->piece_bytes++] = *data++;
    bytes--;
    bool may_be_done = stream->piece_bytes > 6 && stream->piece[6] == '[';
    if (stream->piece_bytes < (may_be_done ? DONE_BYTES : EVENT_BYTES)) continue;
    stream->piece_bytes = 0;
    if (!may_be_done) { if (!take_event(stream, stream->piece, at_ns)) return false; continue; }
    if (memcmp(stream->piece, DONE, DONE_BYTES)) { fail(stream, TEXT, "an end has other bytes"); return false; }
    if (!take_done(stream)) return false;
  }
  return true;
}

/* Events as another program wrote them: up to an empty line, with our text somewhere in it, or none. */
static bool take_loose(struct stream *stream, const char *data, size_t bytes, int64_t at_ns) {
  static const char BEFORE[] = "\"content\":\"";
  for (; bytes > 0; data++, bytes--) {
    if (stream->piece_bytes == EVENT_LIMIT - 1) { fail(stream, TEXT, "an event is too long"); return false; }
    stream->piece[stream->piece_bytes++] = *data;
    if (*data != '\n' || stream->piece_bytes < 2 || stream->piece[stream->piece_bytes - 2] != '\n') continue;
    stream->piece[stream->piece_bytes] = 0;
    stream->piece_bytes = 0;
    char *found = strstr(stream->piece, BEFORE);
    if (strstr(stream->piece, "data: [DONE]") != NULL) { if (!take_done(stream)) return false; }
    else if (found != NULL && strlen(found) > sizeof BEFORE + TEXT_BYTES && !take_text(stream, found + sizeof BEFORE - 1, at_ns)) return false;
  }
  return true;
}

static bool take_body(struct stream *stream, const char *data, size_t bytes, int64_t at_ns) {
  if (in_window(at_ns)) window_bytes += (int64_t)bytes;
  if (kind != ONE_SHORT) return is_loose ? take_loose(stream, data, bytes, at_ns) : take_exact(stream, data, bytes, at_ns);
  if (stream->piece_bytes + bytes > ANSWER_BYTES || memcmp(data, answer + stream->piece_bytes, bytes)) { fail(stream, TEXT, "the answer has other bytes"); return false; }
  stream->piece_bytes += bytes;
  return true;
}

/* The framing. */
static void whole(struct stream *stream, int64_t at_ns) {
  if (kind != ONE_SHORT) {
    if (!stream->is_done) { fail(stream, ORDER, "it ends without its end"); return; }
    whole_count++;
    end(stream);
    return;
  }
  if (stream->piece_bytes != ANSWER_BYTES) { fail(stream, TEXT, "the answer is too short"); return; }
  request_count++;
  if (in_window(at_ns)) { window_requests++; keep_latency(at_ns - stream->asked_ns); }
  if (at_ns >= close_ns) { whole_count++; end(stream); return; }
  ask(stream);
}

static bool take_head(struct stream *stream) {
  char *length;
  if (strncmp(stream->head, "HTTP/1.1 200", 12)) { fail(stream, STATUS, stream->head); return false; }
  if (strcasestr(stream->head, "\r\ntransfer-encoding: chunked")) { stream->at = SIZE; stream->left = 0; return true; }
  if ((length = strcasestr(stream->head, "\r\ncontent-length:")) == NULL) { fail(stream, FRAMING, "neither chunks nor a length"); return false; }
  stream->left = strtoul(length + 17, NULL, 10);
  stream->at = SIZED;
  return true;
}

static void feed(struct stream *stream, const char *data, size_t bytes, int64_t at_ns) {
  while (bytes > 0 && stream->at != OVER) {
    if (stream->at == DATA || stream->at == SIZED) {
      size_t part = bytes < stream->left ? bytes : stream->left;
      if (!take_body(stream, data, part, at_ns)) return;
      data += part;
      bytes -= part;
      if ((stream->left -= part) > 0) continue;
      if (stream->at == SIZED) { whole(stream, at_ns); continue; }
      stream->at = DATA_END;
      continue;
    }
    char byte = *data++;
    bytes--;
    switch (stream->at) {
      case IN_HEAD:
        if (stream->head_bytes == HEAD_LIMIT) { fail(stream, FRAMING, "the head is too long"); return; }
        stream->head[stream->head_bytes++] = byte;
        stream->head[stream->head_bytes] = 0;
        if (byte == '\n' && stream->head_bytes > 3 && !memcmp(stream->head + stream->head_bytes - 4, "\r\n\r\n", 4) && !take_head(stream)) return;
        break;
      case SIZE:
        if (byte == '\n') stream->at = stream->left > 0 ? DATA : LAST_LINE;
        else if (byte != '\r') {
          int digit = byte >= '0' && byte <= '9' ? byte - '0' : (byte | 32) >= 'a' && (byte | 32) <= 'f' ? (byte | 32) - 'a' + 10 : -1;
          if (digit < 0) { fail(stream, FRAMING, "the size of a chunk is no number"); return; }
          stream->left = stream->left * 16 + (size_t)digit;
        }
        break;
      case DATA_END:
        if (byte != '\r' && byte != '\n') { fail(stream, FRAMING, "no end of line behind a chunk"); return; }
        if (byte == '\n') stream->at = SIZE;
        break;
      case LAST_LINE:
        if (byte != '\r' && byte != '\n') { fail(stream, FRAMING, "more behind the last chunk"); return; }
        if (byte == '\n') whole(stream, at_ns);
        break;
      default: break;
    }
  }
}

/* Connections. */
static void ask(struct stream *stream) {
  stream->at = IN_HEAD;
  stream->head_bytes = stream->piece_bytes = 0;
  stream->asked_ns = now_ns();
  if (send(stream->fd, request, request_bytes, MSG_NOSIGNAL) != (ssize_t)request_bytes) fail(stream, CONNECT, strerror(errno));
  stream->has_asked = true;
}

static void dial(struct stream *stream) {
  int on = 1;
  stream->fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  stream->is_open = stream->fd >= 0;
  if (!stream->is_open) { fail(stream, CONNECT, strerror(errno)); return; }
  setsockopt(stream->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  if (connect(stream->fd, (struct sockaddr *)&address, sizeof address) < 0 && errno != EINPROGRESS) { fail(stream, CONNECT, strerror(errno)); return; }
  struct epoll_event event = {.events = EPOLLOUT, .data.ptr = stream};
  epoll_ctl(poll_fd, EPOLL_CTL_ADD, stream->fd, &event);
}

static void want(struct stream *stream, uint32_t events) {
  struct epoll_event event = {.events = events, .data.ptr = stream};
  epoll_ctl(poll_fd, EPOLL_CTL_MOD, stream->fd, &event);
}

static void serve(struct stream *stream, uint32_t events, bool may_read) {
  static char data[1 << 18];
  if (stream->at == OVER) return;
  if (!stream->has_asked) {
    if (events & EPOLLOUT) { want(stream, may_read ? EPOLLIN : 0); ask(stream); return; }
    fail(stream, CONNECT, "refused");
    return;
  }
  ssize_t got = recv(stream->fd, data, sizeof data, 0);
  int64_t at_ns = now_ns();
  if (got < 0 && errno == EAGAIN) return;
  if (got > 0) feed(stream, data, (size_t)got, at_ns);
  else fail(stream, CUT, got < 0 ? strerror(errno) : "closed in the middle");
}

static int asked(void) {
  int count = 0;
  for (int i = 0; i < stream_count; i++) count += streams[i].has_asked || streams[i].at == OVER;
  return count;
}

/* One turn of the loop, of 20 ms at most. */
static void turn(bool may_read, int64_t until_ns) {
  struct epoll_event events[256];
  int64_t left_ns = until_ns - now_ns();
  if (left_ns < 0) left_ns = 0;
  if (left_ns > 20000000) left_ns = 20000000;
  struct timespec wait = {0, left_ns};
  int ready = epoll_pwait2(poll_fd, events, 256, &wait, NULL);
  for (int i = 0; i < ready; i++) serve(events[i].data.ptr, events[i].events, may_read);
}

static int ascending(const void *a, const void *b) {
  uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
  return (x > y) - (x < y);
}

static double quantile_us(double share) {
  return latency_count == 0 ? 0 : latencies_ns[(size_t)((double)(latency_count - 1) * share)] / 1e3;
}

static void tell(void) {
  qsort(latencies_ns, latency_count, sizeof *latencies_ns, ascending);
  printf("{\"events\": %lld, \"window_events\": %lld, \"window_bytes\": %lld, \"window_requests\": %lld, \"requests\": %lld, "
         "\"streams\": %d, \"whole\": %lld, \"left\": %lld, \"p50_us\": %.1f, \"p90_us\": %.1f, \"p99_us\": %.1f, \"most_us\": %.1f, \"wrong\": {",
         (long long)event_count, (long long)window_events, (long long)window_bytes, (long long)window_requests, (long long)request_count,
         stream_count, (long long)whole_count, (long long)left_count, quantile_us(0.5), quantile_us(0.9), quantile_us(0.99), quantile_us(1));
  const char *comma = "";
  for (int i = 0; i < WRONG_KINDS; i++)
    if (wrong[i] > 0) { printf("%s\"%s\": %lld", comma, WRONG[i], (long long)wrong[i]); comma = ", "; }
  puts("}}");
}

/* Says that all is open, and returns when it is told to go on. */
static void rest(void) {
  struct pollfd input = {.fd = 0, .events = POLLIN};
  char line[8];
  puts("open");
  fflush(stdout);
  while (poll(&input, 1, 20) == 0) turn(kind != STUCK, 0);
  if (read(0, line, sizeof line) <= 0) exit(1); /* whoever started us is gone */
}

int main(int count, char **words) {
  if (count < 10) { fputs("load KIND PORT STREAMS OPEN_NS CLOSE_NS RAMP_S GRACE_S EVENTS PATH [loose]\n", stderr); return 2; }
  const char *name = words[1];
  kind = !strcmp(name, "short") ? ONE_SHORT : !strcmp(name, "flood") ? FLOOD : !strcmp(name, "idle") ? IDLE : !strcmp(name, "stuck") ? STUCK : STREAM;
  port = atoi(words[2]);
  stream_count = atoi(words[3]);
  open_ns = atoll(words[4]);
  close_ns = atoll(words[5]);
  int64_t ramp_ns = (int64_t)(atof(words[6]) * 1e9), grace_ns = (int64_t)(atof(words[7]) * 1e9);
  most_events = atoll(words[8]);
  is_loose = count > 10;
  signal(SIGPIPE, SIG_IGN);
  raise_descriptors();
  put_event(sample);
  put_answer(answer);
  char body[256];
  snprintf(body, sizeof body, "{\"model\":\"m1\",\"stream\":%s,\"messages\":[{\"role\":\"user\",\"content\":\"hello there, please write a story\"}]}",
           kind == ONE_SHORT ? "false" : "true");
  request_bytes = (size_t)snprintf(request, sizeof request,
      "POST %s HTTP/1.1\r\nHost: localhost\r\nUser-Agent: bench\r\nAccept: */*\r\nAuthorization: Bearer sk-bench\r\n"
      "Content-Type: application/json\r\nContent-Length: %zu\r\n\r\n%s", words[9], strlen(body), body);
  streams = must(calloc((size_t)stream_count, sizeof *streams));
  latencies_ns = must(malloc(LATENCIES * sizeof *latencies_ns));
  poll_fd = epoll_create1(0);

  bool may_read = kind != STUCK;
  int64_t began_ns = now_ns();
  int dialled = 0;
  while (dialled < stream_count) {
    int64_t at_ns = now_ns(), next_ns = began_ns + (int64_t)((double)ramp_ns * dialled / stream_count);
    if (at_ns >= next_ns) dial(&streams[dialled++]);
    else turn(may_read, next_ns);
  }
  if (kind == IDLE || kind == STUCK) {
    int64_t until_ns = now_ns() + grace_ns;
    while (now_ns() < until_ns && (kind == IDLE ? first_count + over_count < stream_count : asked() < stream_count)) turn(may_read, until_ns);
    rest();
    if (kind == STUCK) for (int i = 0; i < stream_count; i++) if (streams[i].at != OVER) want(&streams[i], EPOLLIN);
    close_ns = now_ns();
  }
  for (int64_t until_ns = close_ns + grace_ns; over_count < stream_count && now_ns() < until_ns;) turn(true, until_ns);
  for (int i = 0; i < stream_count; i++) {
    if (streams[i].at == OVER) continue;
    if (kind == FLOOD && streams[i].number > 0) { left_count++; end(&streams[i]); continue; }
    fail(&streams[i], UNFINISHED, "not whole in time");
  }
  tell();
  return 0;
}

/* What the upstream sends and the load checks, byte for byte. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

/* One event: CLOCK_MONOTONIC in nanoseconds when it was made, and its number in the stream. */
#define EVENT_HEAD "data: {\"id\":\"chatcmpl-7f3a9c\",\"object\":\"chat.completion.chunk\",\"created\":1760000000,\"model\":\"m1\"," \
                   "\"choices\":[{\"index\":0,\"delta\":{\"content\":\""
#define STAMP_DIGITS 19
#define NUMBER_DIGITS 9
#define EVENT_TAIL "\"},\"finish_reason\":null}]}\n\n"
#define HEAD_BYTES (sizeof EVENT_HEAD - 1)
#define TAIL_BYTES (sizeof EVENT_TAIL - 1)
#define TEXT_BYTES (STAMP_DIGITS + 1 + NUMBER_DIGITS)
#define EVENT_BYTES (HEAD_BYTES + TEXT_BYTES + TAIL_BYTES)
#define DONE "data: [DONE]\n\n"
#define DONE_BYTES (sizeof DONE - 1)

/* A short answer: no stream, 1 KB of JSON. */
#define ANSWER_HEAD "{\"id\":\"chatcmpl-7f3a9c\",\"object\":\"chat.completion\",\"created\":1760000000,\"model\":\"m1\",\"choices\":[{\"index\":0," \
                    "\"message\":{\"role\":\"assistant\",\"content\":\""
#define ANSWER_TAIL "\"},\"finish_reason\":\"stop\"}],\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":200,\"total_tokens\":209}}"
#define ANSWER_BYTES 1024

static inline int64_t now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static inline void put_digits(char *at, int count, uint64_t number) {
  while (count-- > 0) {
    at[count] = (char)('0' + number % 10);
    number /= 10;
  }
}

/* The number, or -1 where a byte is no digit. */
static inline int64_t take_digits(const char *at, int count) {
  int64_t number = 0;
  for (int i = 0; i < count; i++) {
    if (at[i] < '0' || at[i] > '9') return -1;
    number = number * 10 + (at[i] - '0');
  }
  return number;
}

static inline void put_event(char *at) {
  memcpy(at, EVENT_HEAD, HEAD_BYTES);
  memset(at + HEAD_BYTES, ' ', TEXT_BYTES);
  memcpy(at + HEAD_BYTES + TEXT_BYTES, EVENT_TAIL, TAIL_BYTES);
}

static inline void put_text(char *event, int64_t stamp_ns, int64_t number) {
  put_digits(event + HEAD_BYTES, STAMP_DIGITS, (uint64_t)stamp_ns);
  put_digits(event + HEAD_BYTES + STAMP_DIGITS + 1, NUMBER_DIGITS, (uint64_t)number);
}

static inline void put_answer(char *at) {
  memset(at, 'x', ANSWER_BYTES);
  memcpy(at, ANSWER_HEAD, sizeof ANSWER_HEAD - 1);
  memcpy(at + ANSWER_BYTES - (sizeof ANSWER_TAIL - 1), ANSWER_TAIL, sizeof ANSWER_TAIL - 1);
}

/* Ten thousand streams need more descriptors than a shell grants. */
static inline void raise_descriptors(void) {
  struct rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
  }
}

static inline void *must(void *memory) {
  if (memory == NULL) {
    fputs("no memory\n", stderr);
    exit(1);
  }
  return memory;
}

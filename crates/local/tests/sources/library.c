// A library of the CPU executable ABI, version 6, written by hand for the tests of the loader.
// Macros make the variants: CONSTANT_COUNT, VERSION, SANITIZER, IMPORTS, CONSTRUCTOR, MUTABLE, ...
#include <stddef.h>
#include <stdint.h>

#ifndef VERSION
#define VERSION 6
#endif
#ifndef SANITIZER
#define SANITIZER 0
#endif
#ifndef CONSTANT_COUNT
#define CONSTANT_COUNT 0
#endif
#ifndef BINDING_COUNT
#define BINDING_COUNT 3
#endif

struct header { uint32_t version; const char *name; uint32_t features; uint32_t sanitizer; };
typedef int (*import_fn)(void *params, void *context, void *reserved);
struct environment {
  const uint32_t *constants;
  int (*import_thunk)(import_fn, void *, void *, void *);
  const import_fn *import_funcs;
  void *const *import_contexts;
  uint64_t processor[8];
};
struct dispatch {
  uint32_t size_x, size_y; uint16_t size_z, constant_count;
  uint32_t count_x, count_y; uint16_t count_z; uint8_t max_concurrency, binding_count;
  const uint32_t *constants; void *const *bindings; const size_t *lengths;
};
struct workgroup {
  uint32_t x, y; uint16_t z, reserved; uint32_t processor;
  void *local_memory; uint32_t local_memory_size;
};
typedef int (*dispatch_fn)(const struct environment *, const struct dispatch *, const struct workgroup *);
struct attrs {
  uint64_t flags; uint16_t local_memory_pages; uint8_t constant_count, binding_count;
  uint32_t size_x, size_y; uint16_t size_z, parameter_count; uint64_t reserved[5];
};
struct parameter { uint8_t kind, size; uint16_t flags, name, offset; };
struct location { uint32_t line, path_length; const char *path; };
struct table {
  const struct header *header;
  struct { uint32_t count; const char *const *symbols; } imports;
  struct {
    uint32_t count; const dispatch_fn *ptrs; const struct attrs *attrs;
    const struct parameter *const *params; const int *occupancy; const char *const *names;
    const char *const *tags; const char *const *parameter_names; const struct location *locations;
    const void *stages;
  } exports;
  struct { uint32_t count; } constants;
  struct { uint32_t count; const void *files; } sources;
};

#define ARGS const struct environment *e, const struct dispatch *d, const struct workgroup *w

// out[i] = a[i] + b[i] + constant, one workgroup per element.
static int sum(ARGS) {
  const float *a = d->bindings[0], *b = d->bindings[1];
  float *out = d->bindings[2];
  if (d->lengths[2] < (w->x + 1) * sizeof(float)) return 3;
  out[w->x] = a[w->x] + b[w->x] + (float)d->constants[0];
  return 0;
}

// Appends what it sees to binding 0: words [0] is the cursor.
static int trace(ARGS) {
  uint32_t *words = d->bindings[0];
  uint32_t *at = words + 1 + words[0];
  at[0] = w->x; at[1] = w->y; at[2] = w->z;
  at[3] = d->count_x; at[4] = d->count_y; at[5] = d->count_z;
  at[6] = d->size_x; at[7] = d->size_y; at[8] = d->size_z;
  at[9] = w->local_memory_size; at[10] = d->max_concurrency;
  words[0] += 11;
  for (uint32_t i = 0; i < w->local_memory_size; ++i) ((volatile uint8_t *)w->local_memory)[i] = 1;
  return 0;
}

static int fails(ARGS) {
  ++*(uint32_t *)d->bindings[0];
  return w->x == 1 ? 7 : 0;
}

// out = constants of the executable, then the processor's words.
static int environment(ARGS) {
  uint64_t *out = d->bindings[0];
  for (int i = 0; i < CONSTANT_COUNT; ++i) *out++ = e->constants[i];
  for (int i = 0; i < 8; ++i) *out++ = e->processor[i];
  return 0;
}

// x / 2 * 2 of a denormal: 0 where denormals are flushed.
static int denormal(ARGS) {
  volatile float *x = d->bindings[0];
  float half = *x * 0.5f;
  *x = half * 2.0f;
  return 0;
}

#ifdef IMPORTS
struct add { int32_t a, b, result; };
// Sorted as the ABI asks; the table below refers to them by ordinal.
static const char *const import_names[] = {"?test_optional", "test_add"};
static int calls(ARGS) {
  int32_t *out = d->bindings[0];
  struct add params = {out[0], out[1], 0};
  int code = e->import_thunk(e->import_funcs[1], &params, e->import_contexts[1], 0);
  out[2] = params.result;
  out[3] = e->import_funcs[0] != 0;
  return code;
}
#endif

#ifdef __aarch64__
#define PAUSE() __asm__ volatile("yield")
#define BREAKPOINT() __asm__ volatile("brk #0xf000")
#define LACKED() __asm__ volatile(".inst 0x04a0e3e0")  // cntw x0: SVE
#define UNDEFINED() __asm__ volatile("udf #0")
#else
#define PAUSE() __builtin_ia32_pause()
#define BREAKPOINT() __asm__ volatile("int3")
// vfrczps xmm0, xmm1: XOP, which only a few old AMD processors have.
#define LACKED() __asm__ volatile(".byte 0x8f, 0xe9, 0x78, 0x80, 0xc1")
#define UNDEFINED() __builtin_trap()
#endif

#ifdef CONCURRENT
// Returns once as many workgroups as the constant says have begun, or fails after a while: only workgroups that run at
// the same time succeed.
static int meet(ARGS) {
  uint32_t *begun = d->bindings[0];
  __atomic_add_fetch(begun, 1, __ATOMIC_SEQ_CST);
  for (uint64_t turn = 0; turn < 400000000u; ++turn) {
    if (__atomic_load_n(begun, __ATOMIC_SEQ_CST) >= d->constants[0]) return 0;
    PAUSE();
  }
  return 9;
}

// Counts the workgroups that run (word 0) and the most that ever did at once (word 1), for a while.
static int crowd(ARGS) {
  uint32_t *words = d->bindings[0];
  uint32_t now = __atomic_add_fetch(&words[0], 1, __ATOMIC_SEQ_CST);
  uint32_t most = __atomic_load_n(&words[1], __ATOMIC_SEQ_CST);
  while (most < now && !__atomic_compare_exchange_n(&words[1], &most, now, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {
  }
  for (uint32_t turn = 0; turn < d->constants[0]; ++turn) PAUSE();
  __atomic_sub_fetch(&words[0], 1, __ATOMIC_SEQ_CST);
  return 0;
}

// The thread that runs it, and its CPU.
static int located(ARGS) {
  uint32_t *words = d->bindings[0];
  uint32_t processor = 0;
#ifdef __aarch64__
  register long number __asm__("x8") = 178;
  register long thread __asm__("x0");
  __asm__ volatile("svc #0" : "=r"(thread) : "r"(number) : "memory");
  words[0] = (uint32_t)thread;
  number = 168;
  register long first __asm__("x0") = (long)&processor;
  register long second __asm__("x1") = 0;
  register long third __asm__("x2") = 0;
  __asm__ volatile("svc #0" : "+r"(first) : "r"(number), "r"(second), "r"(third) : "memory");
#else
  long thread = 186, result = 309;
  __asm__ volatile("syscall" : "+a"(thread) : : "rcx", "r11", "memory");
  __asm__ volatile("syscall" : "+a"(result) : "D"(&processor), "S"(0), "d"(0) : "rcx", "r11", "memory");
#endif
  words[0] = (uint32_t)thread;
  words[1] = processor;
  return 0;
}
#endif

static int read_null(ARGS) { return *(volatile int *)d->bindings[0]; }
static int trap(ARGS) {
  UNDEFINED();
  return 0;
}
static int divide(ARGS) {
  volatile int seven = 7, zero = 0;
  return seven / zero;
}
static int lacked(ARGS) {
  LACKED();
  return 0;
}
__attribute__((noinline)) static int deep(volatile int *p) {
  volatile char frame[4096];
  frame[0] = 1;
  return deep((volatile int *)frame) + *p;
}
static int overflow(ARGS) { return deep((volatile int *)d->bindings); }
static int wild(ARGS) { return *(volatile int *)0x1234567812345678; }
static int breakpoint(ARGS) {
  BREAKPOINT();
  return 0;
}

#ifdef LIMITS
// Writes to all of a local array, from its lowest address on.
#define USES(name, kilobytes) \
  static int name(ARGS) { \
    volatile char array[kilobytes << 10]; \
    for (unsigned i = 0; i < sizeof(array); i += 512) array[i] = 1; \
    return array[512] - 1; \
  }
USES(uses_1900k, 1900)
USES(uses_3000k, 3000)
static int endless(ARGS) {
  for (volatile int i = 0;; ++i) {}
}
#endif

#define FUNCTIONS(F) \
  F(sum, 0, 1, BINDING_COUNT) F(trace, 2, 0, 1) F(fails, 0, 0, 1) F(environment, 0, 0, 1) F(denormal, 0, 0, 1) \
  F(read_null, 0, 0, 1) F(trap, 0, 0, 0) F(divide, 0, 0, 0) F(lacked, 0, 0, 0) F(overflow, 0, 0, 0) F(wild, 0, 0, 0) \
  F(breakpoint, 0, 0, 0) \
  MORE(F)
#ifdef IMPORTS
#define MORE(F) F(calls, 0, 0, 1)
#else
#ifdef CONCURRENT
#define MORE(F) F(meet, 0, 1, 1) F(crowd, 0, 1, 1) F(located, 0, 0, 1)
#else
#ifdef LIMITS
#define MORE(F) F(uses_1900k, 0, 0, 0) F(uses_3000k, 0, 0, 0) F(endless, 0, 0, 0)
#else
#define MORE(F)
#endif
#endif
#endif

#define POINTER(name, pages, constants, bindings) name,
#define NAME(name, pages, constants, bindings) #name,
#define ATTRS(name, pages, constants, bindings) \
  {.flags = 2, .local_memory_pages = pages, .constant_count = constants, .binding_count = bindings, \
   .size_x = 4, .size_y = 2, .size_z = 1, .parameter_count = PARAMETERS_##constants},
#define PARAMETERS_0 0
#define PARAMETERS_1 2
#define PARAMS(name, pages, constants, bindings) PARAMS_##constants,
#define PARAMS_0 0
#define PARAMS_1 sum_params
#define LOCATION(name, pages, constants, bindings) {__LINE__, 9, "library.c"},

static const struct parameter sum_params[] = {{0, 4, 0, 0, 0}, {1, 0, 0, 0xFFFF, 2}};
static const char *const parameter_names[] = {"bias"};
static const dispatch_fn ptrs[] = {FUNCTIONS(POINTER)};
static const struct attrs attributes[] = {FUNCTIONS(ATTRS)};
static const struct parameter *const params[] = {FUNCTIONS(PARAMS)};
#ifdef NO_NAME
static const char *const names[sizeof(ptrs) / sizeof(*ptrs)] = {0};
#else
static const char *const names[] = {FUNCTIONS(NAME)};
#endif
static const struct location locations[] = {FUNCTIONS(LOCATION)};
static const struct header header = {VERSION, "test_library", 0, SANITIZER};
static const struct table table = {
    .header = &header,
#ifdef IMPORTS
    .imports = {2, import_names},
#endif
    .exports = {.count = sizeof(ptrs) / sizeof(*ptrs), .ptrs = ptrs, .attrs = attributes, .params = params,
                .names = names, .parameter_names = parameter_names, .locations = locations},
    .constants = {CONSTANT_COUNT},
};

#ifdef CONSTRUCTOR
static int constructed;
__attribute__((constructor)) static void construct(void) { constructed = 1; }
#endif
#ifdef MUTABLE
int counter = 41;
#endif

__attribute__((visibility("default"))) const struct table *iree_hal_executable_library_query(
    uint32_t max_version, const struct environment *environment) {
#ifdef CRASHES_AT_LOAD
  UNDEFINED();
#endif
#ifdef CONSTRUCTOR
  if (!constructed) return 0;
#endif
#ifdef MUTABLE
  // Only a fresh copy of the image gives a table.
  if (++counter != 42) return 0;
#endif
#ifdef NEEDS_FUNCTION
  extern float NEEDS_FUNCTION(float, float);
  volatile float seven = 7.0f, four = 4.0f;
  if (NEEDS_FUNCTION(seven, four) != 3.0f) return 0;
#endif
#ifdef NEEDS_SYSTEM
  extern int getpid(void);
  if (getpid() < 0) return 0;
#endif
  return max_version >= 6 ? &table : 0;
}

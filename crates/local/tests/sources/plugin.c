// A plugin of the executable plugin ABI, version 1, written by hand for the tests. BIAS is added to
// every sum, so that tests can tell plugins apart.
#include <stddef.h>
#include <stdint.h>

#ifndef VERSION
#define VERSION 1
#endif
#ifndef BIAS
#define BIAS 0
#endif

typedef uintptr_t status;
struct allocator { void *self; status (*ctl)(void *self, int command, const void *params, void **pointer); };
struct environment { struct allocator allocator; };
struct resolve { size_t count; const char *const *names; void **functions; void **contexts; };
struct header {
  uint32_t version; const char *name, *description; uint32_t features, sanitizer; uint64_t reserved[8];
};
struct plugin {
  const struct header *header;
  status (*load)(const struct environment *, size_t, const void *, void **);
  void (*unload)(void *);
  status (*resolve)(void *, const struct resolve *, uint32_t *);
};
struct state { struct allocator allocator; int bias; };

static int same(const char *a, const char *b) {
  while (*a && *a == *b) ++a, ++b;
  return *a == *b;
}

static int add(void *params, void *context, void *reserved) {
  int32_t *values = params;
  values[2] = values[0] + values[1] + ((struct state *)context)->bias;
  return 0;
}

static status load(const struct environment *e, size_t count, const void *params, void **self) {
#ifdef REFUSES
  return REFUSES;
#endif
  size_t length = sizeof(struct state);
  void *memory = 0;
  status result = e->allocator.ctl(e->allocator.self, 1, &length, &memory);
  if (result) return result;
  struct state *state = memory;
  if (state->bias) return 13;  // Not zeroed.
  state->allocator = e->allocator;
  state->bias = BIAS;
  length = 4096;
  result = e->allocator.ctl(e->allocator.self, 2, &length, &memory);  // Grow: keeps the contents.
  *self = memory;
  return result;
}

static void unload(void *self) {
  struct state *state = self;
  void *memory = self;
  state->allocator.ctl(state->allocator.self, 3, 0, &memory);
}

static status resolve(void *self, const struct resolve *params, uint32_t *resolution) {
  int missing = 0;
  *resolution = 0;
  for (size_t i = 0; i < params->count; ++i) {
    const char *name = params->names[i];
    int optional = *name == '?';
    if (params->functions[i]) continue;
#ifndef PROVIDES_NOTHING
    if (same(name + optional, "test_add")) {
      params->functions[i] = (void *)add;
      params->contexts[i] = self;
      continue;
    }
#endif
    if (optional) *resolution |= 1; else missing = 1;
  }
  return missing ? 5 : 0;
}

static const struct header header = {VERSION, "test_plugin", "adds", 1, 0, {0}};
static const struct plugin plugin = {&header, load, unload, resolve};

__attribute__((visibility("default"))) const struct plugin *iree_hal_executable_plugin_query(
    uint32_t max_version, void *reserved) {
  return max_version >= 1 ? &plugin : 0;
}

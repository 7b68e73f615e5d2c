/* An executable library whose function adds two tensors of 4 x f32, and OFFSET, which makes it wrong. */

#include <stddef.h>
#include <stdint.h>

typedef struct {
  char before[32];
  float* const* bindings;
  const size_t* binding_lengths;
} dispatch_t;

static int kernel(const void* environment, const dispatch_t* dispatch, const void* workgroup) {
  (void)environment, (void)workgroup;
  for (int at = 0; at < 4; ++at) {
    dispatch->bindings[2][at] = dispatch->bindings[0][at] + dispatch->bindings[1][at] + OFFSET;
  }
  return 0;
}

typedef int (*kernel_t)(const void*, const dispatch_t*, const void*);

static const struct {
  uint32_t version;
  const char* name;
  uint32_t features, sanitizer;
} header = {6, "kernel", 0, 0};

static const struct {
  uint64_t flags;
  uint16_t local_memory_pages;
  uint8_t constant_count, binding_count;
  uint32_t workgroup_size[2];
  uint16_t workgroup_depth, parameter_count;
  uint64_t reserved[5];
} attributes = {.binding_count = 3, .workgroup_size = {1, 1}, .workgroup_depth = 1};

static const kernel_t kernels[] = {kernel};
static const char* const names[] = {"add_dispatch_0_elementwise_4_f32"};

static const struct {
  const void *header, *imports[2];
  uint64_t count;
  const void *kernels, *attributes, *parameters, *occupancy, *names, *others[4];
  uint64_t constants, sources[2];
} library = {.header = &header, .count = 1, .kernels = kernels, .attributes = &attributes, .names = names};

_Static_assert(sizeof(attributes) == 64 && sizeof(library) == 128, "the layout of a 64-bit machine");

const void* iree_hal_executable_library_query(uint32_t max_version, const void* environment) {
  (void)environment;
  return max_version >= 6 ? &library : NULL;
}

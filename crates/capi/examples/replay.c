/* Replays a capture, and prints what the program read: `replay CAPTURE.ireereplay`. */

#include <inttypes.h>
#include <stdio.h>

#include "rehal.h"

/* Prints an error and frees it. Returns the status of the process. */
static int failed(rehal_error_t* error) {
  rehal_string_t report = rehal_error_report(error);
  fprintf(stderr, "%.*s\n", (int)report.size, report.data);
  rehal_error_free(error);
  return 1;
}

static rehal_error_t* on_scope_begin(void* user, rehal_string_t name, rehal_record_t record) {
  (void)user;
  printf("scope %.*s begins at record #%" PRIu64 "\n", (int)name.size, name.data, record.ordinal);
  return NULL;
}

static rehal_error_t* on_host_read(void* user, const rehal_host_read_t* read) {
  size_t* count = user;
  *count += 1;
  printf("record #%" PRIu64 " reads %zu bytes of buffer %" PRIu64 ":", read->record.ordinal,
         read->bytes.size, read->buffer_id);
  for (size_t at = 0; at < read->bytes.size && at < 8; ++at) printf(" %02x", read->bytes.data[at]);
  printf("\n");
  return NULL;
}

static rehal_error_t* after_dispatch(void* user, const rehal_dispatch_t* dispatch) {
  (void)user;
  rehal_dispatch_info_t info = {.size = sizeof(info)};
  rehal_error_t* error = rehal_dispatch_info(dispatch, &info);
  for (size_t index = 0; !error && index < info.binding_count; ++index) {
    rehal_binding_info_t binding = {.size = sizeof(binding)};
    error = rehal_dispatch_binding(dispatch, index, &binding);
    if (error || binding.length < 4) continue;
    uint32_t first = 0;
    error = rehal_dispatch_read(dispatch, index, 0, &first, sizeof(first));
    if (!error) printf("  binding %zu: %" PRIu64 " bytes, first 0x%08" PRIx32 "\n", index, binding.length, first);
  }
  if (!error) printf("%.*s\n", (int)info.function_name.size, info.function_name.data);
  /* What is returned ends the replay, and is its error. */
  return error;
}

static rehal_error_t* replay(const char* path) {
  rehal_capture_t* capture = NULL;
  rehal_plan_t* plan = NULL;
  rehal_devices_t* devices = NULL;
  rehal_replay_t* replay = NULL;
  rehal_error_t* error = rehal_capture_open(rehal_string(path), NULL, &capture);
  if (!error) error = rehal_plan_create(capture, &plan);
  if (!error) error = rehal_devices_open_for_plan(plan, rehal_string("local-sync"), &devices);
  if (!error) error = rehal_replay_create(plan, devices, NULL, &replay);
  /* The replay keeps what it needs. */
  rehal_devices_free(devices);
  rehal_plan_free(plan);
  rehal_capture_free(capture);
  size_t count = 0;
  const rehal_observer_t observer = {
      .size = sizeof(observer),
      .user = &count,
      .scope_begin = on_scope_begin,
      .host_read = on_host_read,
      .after_dispatch = after_dispatch,
  };
  if (!error) error = rehal_replay_run(replay, &observer);
  if (!error) printf("%zu host reads\n", count);
  rehal_replay_free(replay);
  return error;
}

int main(int argc, char** argv) {
  if (argc != 2) {
    fprintf(stderr, "expected CAPTURE.ireereplay\n");
    return 2;
  }
  rehal_error_t* error = replay(argv[1]);
  return error ? failed(error) : 0;
}

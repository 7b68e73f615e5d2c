/* Records work of this program, then replays it: `record KERNEL.elf CAPTURE.ireereplay`. The kernel has a
 * function `affine` with two constants and two bindings. */

#include <inttypes.h>
#include <stdio.h>

#include "rehal.h"

enum { COUNT = 16 };

/* Computes y = 3 x + 4 on wrapped devices, in a scope. */
static rehal_error_t* work(const rehal_recorder_t* recorder, const rehal_devices_t* devices, const char* kernel) {
  rehal_executable_t* executable = NULL;
  rehal_buffer_t* input = NULL;
  rehal_buffer_t* output = NULL;
  rehal_semaphore_t* done = NULL;
  uint32_t function = 0;
  uint32_t numbers[COUNT];
  for (uint32_t at = 0; at < COUNT; ++at) numbers[at] = at;

  rehal_error_t* error =
      rehal_executable_load(devices, 0, rehal_string(kernel), rehal_string(NULL), &executable);
  if (!error) error = rehal_executable_function(executable, rehal_string("affine"), &function);
  if (!error) error = rehal_buffer_allocate(devices, 0, sizeof(numbers), &input);
  if (!error) error = rehal_buffer_allocate(devices, 0, sizeof(numbers), &output);
  if (!error) error = rehal_semaphore_create(devices, 0, 0, &done);
  if (!error) error = rehal_buffer_write(input, 0, rehal_bytes(numbers, sizeof(numbers)));
  if (!error) error = rehal_recorder_scope_begin(recorder, rehal_string("execute"));

  /* First zeros, then the kernel, ordered by the semaphore. */
  const uint8_t zero = 0;
  const rehal_timepoint_t filled = {done, 1}, computed = {done, 2};
  rehal_submission_t submission = {.size = sizeof(submission), .devices = devices};
  submission.signals = &filled;
  submission.signal_count = 1;
  const rehal_range_t whole = rehal_range(output, 0, REHAL_WHOLE_BUFFER);
  if (!error) error = rehal_queue_fill(&submission, whole, rehal_bytes(&zero, 1));
  const uint32_t constants[2] = {3, 4};
  const rehal_range_t bindings[2] = {rehal_range(input, 0, REHAL_WHOLE_BUFFER), whole};
  const rehal_launch_t launch = {
      .size = sizeof(launch),
      .executable = executable,
      .function = function,
      .workgroup_count = {1, 1, 1},
      .constants = constants,
      .constant_count = 2,
      .bindings = bindings,
      .binding_count = 2,
  };
  submission.waits = &filled;
  submission.wait_count = 1;
  submission.signals = &computed;
  if (!error) error = rehal_queue_dispatch(&submission, &launch);
  if (!error) error = rehal_semaphore_wait(done, 2, REHAL_WAIT_FOREVER);
  if (!error) error = rehal_buffer_read(output, 0, numbers, sizeof(numbers));
  if (!error) error = rehal_recorder_scope_end(recorder, rehal_string("execute"));
  if (!error) printf("computed %" PRIu32 " %" PRIu32 "\n", numbers[0], numbers[1]);

  rehal_semaphore_free(done);
  rehal_buffer_free(output);
  rehal_buffer_free(input);
  rehal_executable_free(executable);
  return error;
}

static rehal_error_t* record(const char* kernel, const char* path) {
  rehal_recorder_t* recorder = NULL;
  rehal_devices_t* devices = NULL;
  rehal_devices_t* recorded = NULL;
  rehal_error_t* error = rehal_recorder_create(rehal_string(path), NULL, &recorder);
  if (!error) error = rehal_devices_open(NULL, 0, &devices);
  if (!error) error = rehal_recorder_wrap(recorder, devices, &recorded);
  if (!error) error = work(recorder, recorded, kernel);
  /* The capture is closed even if the work failed. The first error counts. */
  if (recorder) {
    rehal_error_t* closed = rehal_recorder_close(recorder);
    if (error) {
      rehal_error_free(closed);
    } else {
      error = closed;
    }
  }
  rehal_devices_free(recorded);
  rehal_devices_free(devices);
  rehal_recorder_free(recorder);
  return error;
}

static rehal_error_t* on_host_read(void* user, const rehal_host_read_t* read) {
  (void)user;
  uint32_t numbers[2] = {0, 0};
  if (read->bytes.size < sizeof(numbers)) {
    return rehal_error_create(REHAL_STATUS_DATA_LOSS, rehal_string("the read is too short"));
  }
  memcpy(numbers, read->bytes.data, sizeof(numbers));
  printf("replayed %" PRIu32 " %" PRIu32 "\n", numbers[0], numbers[1]);
  return NULL;
}

static rehal_error_t* replay(const char* path) {
  rehal_capture_t* capture = NULL;
  rehal_plan_t* plan = NULL;
  rehal_devices_t* devices = NULL;
  rehal_replay_t* replay = NULL;
  rehal_kernels_t* kernels = NULL;
  rehal_kernel_info_t kernel = {.size = sizeof(kernel)};
  const rehal_observer_t observer = {.size = sizeof(observer), .host_read = on_host_read};
  rehal_error_t* error = rehal_capture_open(rehal_string(path), NULL, &capture);
  if (!error) error = rehal_plan_create(capture, &plan);
  if (!error) error = rehal_devices_open_for_plan(plan, rehal_string(NULL), &devices);
  if (!error) error = rehal_replay_create(plan, devices, NULL, &replay);
  if (!error) error = rehal_replay_run(replay, &observer);
  if (!error) error = rehal_kernels_measure(replay, NULL, &kernels);
  if (!error) error = rehal_kernels_get(kernels, 0, &kernel);
  if (!error) printf("kernel %.*s: %" PRIu64 " dispatch\n", (int)kernel.name.size, kernel.name.data, kernel.count);
  rehal_kernels_free(kernels);
  rehal_replay_free(replay);
  rehal_devices_free(devices);
  rehal_plan_free(plan);
  rehal_capture_free(capture);
  return error;
}

int main(int argc, char** argv) {
  if (argc != 3) {
    fprintf(stderr, "expected KERNEL.elf CAPTURE.ireereplay\n");
    return 2;
  }
  rehal_error_t* error = record(argv[1], argv[2]);
  if (!error) error = replay(argv[2]);
  if (!error) return 0;
  rehal_string_t report = rehal_error_report(error);
  fprintf(stderr, "%.*s\n", (int)report.size, report.data);
  rehal_error_free(error);
  return 1;
}

/* What the examples do not show: `rest FIXTURES DIRECTORY`. Prints `ok`. */

#include <fcntl.h>
#include <unistd.h>

#include "expect.h"

static const char* fixtures;
static const char* directory;

static rehal_error_t* on_driver(void* user, rehal_string_t name, rehal_string_t description,
                                rehal_string_t unavailable) {
  EXPECT(description.size > 0);
  if (equals(name, "local-sync")) *(bool*)user = unavailable.size == 0;
  return NULL;
}

struct reads {
  uint8_t bytes[64];
  size_t size;
};

/* Keeps the last read. */
static rehal_error_t* on_host_read(void* user, const rehal_host_read_t* read) {
  struct reads* reads = user;
  reads->size = read->bytes.size < sizeof(reads->bytes) ? read->bytes.size : sizeof(reads->bytes);
  memcpy(reads->bytes, read->bytes.data, reads->size);
  return NULL;
}

/* Replaces the first input. */
static rehal_error_t* other_input(void* user, const rehal_dispatch_t* dispatch) {
  (void)user;
  const float ones[4] = {1, 1, 1, 1};
  rehal_error_t* error = rehal_dispatch_write(dispatch, 0, 0, rehal_bytes(ones, sizeof(ones)));
  if (!error) error = rehal_dispatch_write(dispatch, 1, 0, rehal_bytes(ones, sizeof(ones)));
  return error;
}

struct code {
  const uint8_t* bytes;
  size_t size;
  int asked;
};

static rehal_error_t* substitute(void* user, const rehal_executable_info_t* executable, rehal_bytes_t code,
                                 rehal_replacement_t* replacement) {
  struct code* other = user;
  other->asked += 1;
  EXPECT(executable->size == sizeof(*executable) && code.size == executable->code_bytes);
  replacement->code = rehal_bytes(other->bytes, other->size);
  // The compiler made it.
  replacement->same_workgroups = true;
  return NULL;
}

static struct reads replayed(rehal_plan_t* plan, const rehal_replay_options_t* options, bool writes) {
  rehal_devices_t* devices = NULL;
  rehal_replay_t* replay = NULL;
  struct reads reads = {.size = 0};
  rehal_observer_t observer = {.size = sizeof(observer), .user = &reads, .host_read = on_host_read};
  if (writes) observer.before_dispatch = other_input;
  OK(rehal_devices_open_for_plan(plan, rehal_string("local-sync"), &devices));
  OK(rehal_replay_create(plan, devices, options, &replay));
  OK(rehal_replay_run(replay, &observer));
  rehal_replay_free(replay);
  rehal_devices_free(devices);
  EXPECT(reads.size >= 16);
  return reads;
}

static void captures(void) {
  rehal_capture_t* capture = NULL;
  rehal_plan_t* plan = NULL;
  OK(rehal_capture_open(path(0, fixtures, "captures/add4.add.local-sync.ireereplay"), NULL, &capture));
  rehal_capture_info_t info = {.size = sizeof(info)};
  OK(rehal_capture_info(capture, &info));
  EXPECT(info.version_major == 2 && info.is_closed && info.dispatch_count == 1 && info.executable_count == 1);
  rehal_scope_info_t scope = {.size = sizeof(scope)};
  bool has_execute = false;
  for (size_t index = 0; index < info.scope_count; ++index) {
    OK(rehal_capture_scope(capture, index, &scope));
    has_execute |= equals(scope.name, "execute") && scope.count == 1;
  }
  EXPECT(has_execute);
  FAILS(rehal_capture_scope(capture, info.scope_count, &scope), REHAL_STATUS_OUT_OF_RANGE);
  rehal_file_info_t file = {.size = sizeof(file)};
  FAILS(rehal_capture_file(capture, 0, &file), REHAL_STATUS_OUT_OF_RANGE);
  rehal_executable_info_t executable = {.size = sizeof(executable)};
  OK(rehal_capture_executable(capture, 0, &executable));
  EXPECT(equals(executable.format, "embedded-elf-x86_64") && executable.function_count > 0);
  rehal_function_info_t function = {.size = sizeof(function)};
  OK(rehal_capture_function(capture, 0, 0, &function));
  EXPECT(function.binding_count == 3 && function.name.size > 0);
  OK(rehal_plan_create(capture, &plan));
  rehal_capture_free(capture);

  /* Other inputs, written before the dispatch, have other results. */
  struct reads captured = replayed(plan, NULL, false);
  float sum[4];
  struct reads written = replayed(plan, NULL, true);
  memcpy(sum, written.bytes, sizeof(sum));
  EXPECT(sum[0] == 2 && sum[3] == 2);
  EXPECT(memcmp(captured.bytes, written.bytes, 16) != 0);

  /* So has another executable, given as bytes by a function. */
  struct code code = {.asked = 0};
  uint8_t* bytes = read_file(path(1, fixtures, "modules/add4_swapped.elf"), &code.size);
  code.bytes = bytes;
  rehal_replay_options_t options = {
      .size = sizeof(options), .substitute = substitute, .substitute_user = &code};
  const rehal_file_remap_t remap = {rehal_string("/captured"), rehal_string("/here")};
  options.file_remaps = &remap;
  options.file_remap_count = 1;
  options.order = REHAL_REPLAY_ORDER_CAPTURED;
  struct reads replaced = replayed(plan, &options, false);
  EXPECT(code.asked == 1 && memcmp(captured.bytes, replaced.bytes, 16) != 0);
  free(bytes);
  options.order = 7;
  rehal_devices_t* devices = NULL;
  rehal_replay_t* replay = NULL;
  OK(rehal_devices_open(NULL, 0, &devices));
  FAILS(rehal_replay_create(plan, devices, &options, &replay), REHAL_STATUS_INVALID_ARGUMENT);

  /* Kernels, and slices, which are captures. */
  OK(rehal_replay_create(plan, devices, NULL, &replay));
  rehal_kernels_t* kernels = NULL;
  OK(rehal_kernels_list(plan, NULL, &kernels));
  size_t count = 0;
  OK(rehal_kernels_count(kernels, &count));
  EXPECT(count == 1);
  rehal_kernel_info_t kernel = {.size = sizeof(kernel)};
  OK(rehal_kernels_get(kernels, 0, &kernel));
  EXPECT(kernel.count == 1 && kernel.binding_count == 3 && kernel.has_workgroup_count && !kernel.has_time);
  rehal_slice_info_t slice = {.size = sizeof(slice)};
  rehal_string_t cut = path(2, directory, "dispatch.ireereplay");
  OK(rehal_slice_dispatch(replay, kernel.record, kernel.occurrence, cut, &slice));
  EXPECT(slice.is_checked && slice.content_bytes > 0 && slice.record == kernel.record);
  FAILS(rehal_slice_dispatch(replay, kernel.record, 0, cut, NULL), REHAL_STATUS_ALREADY_EXISTS);
  FAILS(rehal_slice_scope(replay, rehal_string("none"), 0, path(3, directory, "none"), NULL),
        REHAL_STATUS_NOT_FOUND);
  OK(rehal_slice_scope(replay, rehal_string("execute"), 0, path(3, directory, "scope.ireereplay"), NULL));
  for (int slot = 2; slot < 4; ++slot) {
    rehal_plan_t* of_slice = NULL;
    OK(rehal_capture_open(rehal_string(paths[slot]), NULL, &capture));
    OK(rehal_plan_create(capture, &of_slice));
    struct reads reads = replayed(of_slice, NULL, false);
    EXPECT(memcmp(captured.bytes, reads.bytes, 16) == 0);
    rehal_plan_free(of_slice);
    rehal_capture_free(capture);
  }
  rehal_kernels_free(kernels);
  rehal_replay_free(replay);
  rehal_devices_free(devices);
  rehal_plan_free(plan);
}

/* Records to a descriptor. */
static void work(void) {
  const int file = open(path(4, directory, "work.ireereplay").data, O_RDWR | O_CREAT | O_EXCL, 0600);
  EXPECT(file >= 0);
  rehal_recorder_t* recorder = NULL;
  const rehal_record_options_t options = {
      .size = sizeof(options), .file_policy = REHAL_FILE_POLICY_CAPTURE_ALL, .flush_submissions = true};
  OK(rehal_recorder_create_fd(file, &options, &recorder));
  close(file);
  rehal_recorder_t* none = NULL;
  FAILS(rehal_recorder_create_fd(-1, NULL, &none), REHAL_STATUS_INVALID_ARGUMENT);
  const int appending = open("/dev/null", O_WRONLY | O_APPEND);
  FAILS(rehal_recorder_create_fd(appending, NULL, &none), REHAL_STATUS_INVALID_ARGUMENT);
  close(appending);
  rehal_devices_t *base = NULL, *devices = NULL;
  OK(rehal_devices_open(NULL, 0, &base));
  OK(rehal_recorder_wrap(recorder, base, &devices));
  rehal_string_t driver;
  size_t count = 0;
  OK(rehal_devices_count(devices, &count));
  OK(rehal_devices_driver(devices, 0, &driver));
  EXPECT(count == 1 && equals(driver, "local-task"));

  size_t size = 0;
  uint8_t* kernel = read_file(path(5, fixtures, "cts/affine.embedded.elf"), &size);
  rehal_executable_t* executable = NULL;
  OK(rehal_executable_load_bytes(devices, 0, rehal_bytes(kernel, size), rehal_string("embedded-elf-x86_64"),
                                 &executable));
  free(kernel);
  uint32_t function = 0;
  FAILS(rehal_executable_function(executable, rehal_string("none"), &function), REHAL_STATUS_NOT_FOUND);
  OK(rehal_executable_function(executable, rehal_string("affine"), &function));

  rehal_buffer_t *source = NULL, *target = NULL;
  rehal_semaphore_t* done = NULL;
  OK(rehal_buffer_allocate(devices, 0, 64, &source));
  OK(rehal_buffer_allocate(devices, 0, 64, &target));
  OK(rehal_semaphore_create(devices, 0, 0, &done));
  FAILS(rehal_semaphore_wait(done, 1, 1000), REHAL_STATUS_DEADLINE_EXCEEDED);
  const uint32_t numbers[4] = {1, 2, 3, 4};
  const rehal_timepoint_t points[4] = {{done, 1}, {done, 2}, {done, 3}, {done, 4}};
  rehal_submission_t submission = {.size = sizeof(submission), .devices = devices};
  submission.signals = &points[0];
  submission.signal_count = 1;
  OK(rehal_queue_update(&submission, rehal_range(source, 16, sizeof(numbers)),
                        rehal_bytes(numbers, sizeof(numbers))));
  submission.waits = &points[0];
  submission.wait_count = 1;
  submission.signals = &points[1];
  OK(rehal_queue_copy(&submission, rehal_range(source, 16, 16), rehal_range(target, 0, 16)));
  submission.waits = &points[1];
  submission.signals = &points[2];
  OK(rehal_queue_barrier(&submission));
  OK(rehal_semaphore_wait(done, 3, REHAL_WAIT_FOREVER));
  OK(rehal_semaphore_signal(done, 4));
  FAILS(rehal_semaphore_signal(done, 4), REHAL_STATUS_OUT_OF_RANGE);
  uint64_t value = 0;
  OK(rehal_semaphore_query(done, &value));
  EXPECT(value == 4);
  uint32_t copied[4] = {0, 0, 0, 0};
  OK(rehal_buffer_read(target, 0, copied, sizeof(copied)));
  EXPECT(memcmp(copied, numbers, sizeof(numbers)) == 0);
  FAILS(rehal_buffer_read(target, 60, copied, sizeof(copied)), REHAL_STATUS_OUT_OF_RANGE);
  rehal_launch_t launch = {.size = sizeof(launch), .executable = executable, .function = function};
  FAILS(rehal_queue_dispatch(&submission, &launch), REHAL_STATUS_INVALID_ARGUMENT);

  OK(rehal_recorder_close(recorder));
  OK(rehal_recorder_close(recorder));
  rehal_semaphore_free(done);
  rehal_buffer_free(target);
  rehal_buffer_free(source);
  rehal_executable_free(executable);
  rehal_devices_free(devices);
  rehal_devices_free(base);
  rehal_recorder_free(recorder);
  rehal_capture_t* capture = NULL;
  rehal_capture_info_t info = {.size = sizeof(info)};
  OK(rehal_capture_open(rehal_string(paths[4]), NULL, &capture));
  OK(rehal_capture_info(capture, &info));
  EXPECT(info.is_closed && info.submission_count == 3);
  rehal_capture_free(capture);
}

/* A module in memory, recorded. */
static void programs(void) {
  size_t size = 0;
  uint8_t* module = read_file(path(6, fixtures, "modules/simple_abs.vmfb"), &size);
  const rehal_string_t uri = rehal_string("local-sync");
  rehal_program_options_t options = {.size = sizeof(options), .device_uris = &uri, .device_uri_count = 1};
  options.module_bytes = rehal_bytes(module, size);
  options.recording_path = path(7, directory, "program.ireereplay");
  rehal_program_t* program = NULL;
  OK(rehal_program_load(&options, &program));
  free(module);
  size_t count = 0;
  OK(rehal_program_function_count(program, &count));
  EXPECT(count == 1);
  rehal_function_t* function = NULL;
  OK(rehal_program_function_at(program, 0, &function));
  rehal_callable_info_t info = {.size = sizeof(info)};
  OK(rehal_function_info(function, &info));
  EXPECT(equals(info.name, "abs") && info.input_count == 1 && info.result_count == 1 && !info.is_async);

  const float number = -4;
  rehal_element_type_t element_type = 0;
  rehal_value_t *input = NULL, *result = NULL, *integer = NULL;
  OK(rehal_element_type_parse(rehal_string("f32"), &element_type));
  EXPECT(element_type == REHAL_ELEMENT_F32);
  FAILS(rehal_tensor_create(program, element_type, NULL, 0, rehal_bytes(&number, 3), &input),
        REHAL_STATUS_INVALID_ARGUMENT);
  OK(rehal_tensor_create(program, element_type, NULL, 0, rehal_bytes(&number, sizeof(number)), &input));
  const rehal_value_t* const inputs[1] = {input};
  FAILS(rehal_function_call(function, inputs, 0, &result, 1, &count), REHAL_STATUS_INVALID_ARGUMENT);
  FAILS(rehal_function_call(function, inputs, 1, NULL, 0, &count), REHAL_STATUS_OUT_OF_RANGE);
  EXPECT(count == 1);
  OK(rehal_function_call(function, inputs, 1, &result, 1, &count));
  rehal_value_info_t shape = {.size = sizeof(shape)};
  OK(rehal_value_info(result, &shape));
  EXPECT(shape.kind == REHAL_VALUE_TENSOR && shape.element_type == element_type && shape.rank == 0);
  rehal_bytes_t bytes;
  float absolute = 0;
  OK(rehal_value_map(result, &bytes));
  EXPECT(bytes.size == sizeof(absolute) && shape.byte_count == sizeof(absolute));
  memcpy(&absolute, bytes.data, sizeof(absolute));
  EXPECT(absolute == 4);
  OK(rehal_value_unmap(result));
  OK(rehal_value_create_i32(7, &integer));
  OK(rehal_value_info(integer, &shape));
  EXPECT(shape.kind == REHAL_VALUE_I32 && shape.byte_count == 4);
  /* Misaligned memory is the caller's again. */
  float* memory = aligned_alloc(64, 128);
  rehal_value_t* over = NULL;
  FAILS(rehal_tensor_create_over(program, element_type, NULL, 0, memory + 1, free, memory, &over),
        REHAL_STATUS_OUT_OF_RANGE);
  free(memory);

  rehal_call_t* call = NULL;
  OK(rehal_function_start(function, inputs, 1, &call));
  FAILS(rehal_program_close(program), REHAL_STATUS_FAILED_PRECONDITION);
  rehal_call_free(call);
  rehal_value_free(integer);
  rehal_value_free(result);
  rehal_value_free(input);
  rehal_function_free(function);
  OK(rehal_program_close(program));
  FAILS(rehal_program_function_count(program, &count), REHAL_STATUS_FAILED_PRECONDITION);
  rehal_program_free(program);
  rehal_capture_t* capture = NULL;
  OK(rehal_capture_open(rehal_string(paths[7]), NULL, &capture));
  rehal_capture_free(capture);
}

int main(int argc, char** argv) {
  EXPECT(argc == 3);
  fixtures = argv[1];
  directory = argv[2];
  EXPECT(rehal_version().size > 0);
  bool works = false;
  OK(rehal_drivers_visit(on_driver, &works));
  EXPECT(works);
  captures();
  work();
  programs();
  printf("ok\n");
  return 0;
}

/* Command buffers, files, parameters, profiles, repeated scopes and dumps: `work FIXTURES DIRECTORY`. With
 * the name of a kernel for Vulkan, command buffers on such a device. Prints `ok`. */

#include <unistd.h>

#include "expect.h"

static const char* fixtures;
static const char* directory;

enum { COUNT = 16 };

/* Devices of a URI, that a recorder has wrapped. */
struct recorded {
  rehal_recorder_t* recorder;
  rehal_devices_t* base;
  rehal_devices_t* devices;
  rehal_semaphore_t* done;
  uint64_t value;
};

static struct recorded begin(const char* uri, rehal_string_t capture, const rehal_record_options_t* options) {
  struct recorded it = {.value = 0};
  const rehal_string_t name = rehal_string(uri);
  OK(rehal_recorder_create(capture, options, &it.recorder));
  OK(rehal_devices_open(&name, 1, &it.base));
  OK(rehal_recorder_wrap(it.recorder, it.base, &it.devices));
  OK(rehal_semaphore_create(it.devices, 0, 0, &it.done));
  return it;
}

static void end(struct recorded* it) {
  OK(rehal_recorder_close(it->recorder));
  rehal_semaphore_free(it->done);
  rehal_devices_free(it->devices);
  rehal_devices_free(it->base);
  rehal_recorder_free(it->recorder);
}

/* A submission that signals the next value. */
static rehal_submission_t next(struct recorded* it, rehal_timepoint_t* signal) {
  *signal = (rehal_timepoint_t){it->done, ++it->value};
  return (rehal_submission_t){
      .size = sizeof(rehal_submission_t), .devices = it->devices, .signals = signal, .signal_count = 1};
}

#define SUBMIT(it, function, ...)                                          \
  do {                                                                     \
    rehal_timepoint_t signal;                                              \
    const rehal_submission_t submission = next(it, &signal);               \
    OK(function(&submission, __VA_ARGS__));                                \
    OK(rehal_semaphore_wait((it)->done, (it)->value, REHAL_WAIT_FOREVER)); \
  } while (0)

static rehal_range_t whole(const rehal_buffer_t* buffer) {
  return rehal_range(buffer, 0, REHAL_WHOLE_BUFFER);
}

struct reads {
  uint32_t numbers[COUNT];
  size_t count;
};

/* Keeps the last read. */
static rehal_error_t* on_host_read(void* user, const rehal_host_read_t* read) {
  struct reads* reads = user;
  EXPECT(read->bytes.size == sizeof(reads->numbers));
  memcpy(reads->numbers, read->bytes.data, sizeof(reads->numbers));
  reads->count += 1;
  return NULL;
}

static rehal_plan_t* planned(rehal_string_t path) {
  rehal_capture_t* capture = NULL;
  rehal_plan_t* plan = NULL;
  OK(rehal_capture_open(path, NULL, &capture));
  OK(rehal_plan_create(capture, &plan));
  rehal_capture_free(capture);
  return plan;
}

/* Replays a capture, and returns the last numbers that it reads. */
static struct reads replayed(const char* uri, rehal_string_t path, const rehal_replay_options_t* options) {
  rehal_plan_t* plan = planned(path);
  rehal_devices_t* devices = NULL;
  rehal_replay_t* replay = NULL;
  struct reads reads = {.count = 0};
  const rehal_observer_t observer = {
      .size = sizeof(observer), .user = &reads, .host_read = on_host_read};
  OK(rehal_devices_open_for_plan(plan, rehal_string(uri), &devices));
  OK(rehal_replay_create(plan, devices, options, &replay));
  OK(rehal_replay_run(replay, &observer));
  rehal_replay_free(replay);
  rehal_devices_free(devices);
  rehal_plan_free(plan);
  EXPECT(reads.count > 0);
  return reads;
}

/* Records y = 3 x + 4 into a command buffer whose input and output are slots, and executes it for two inputs. */
static void commands(const char* uri, const char* kernel, int slot) {
  char name[64];
  snprintf(name, sizeof(name), "commands.%s.ireereplay", uri);
  rehal_string_t capture = path(slot, directory, name);
  struct recorded it = begin(uri, capture, NULL);
  rehal_executable_t* executable = NULL;
  rehal_event_t* event = NULL;
  rehal_command_buffer_t* commands = NULL;
  rehal_buffer_t* buffers[4] = {NULL};
  OK(rehal_executable_load(it.devices, 0, path(11, fixtures, kernel), rehal_string(NULL), &executable));
  OK(rehal_event_create(it.devices, 0, &event));
  for (int at = 0; at < 4; ++at) {
    OK(rehal_buffer_allocate(it.devices, 0, COUNT * sizeof(uint32_t), &buffers[at]));
  }
  uint32_t numbers[COUNT];
  for (uint32_t at = 0; at < COUNT; ++at) numbers[at] = at;
  OK(rehal_buffer_write(buffers[0], 0, rehal_bytes(numbers, sizeof(numbers))));

  const rehal_command_buffer_options_t options = {.size = sizeof(options), .slot_count = 2};
  OK(rehal_command_buffer_create(it.devices, 0, &options, &commands));
  const rehal_range_t input = rehal_slot_range(0, 0, REHAL_WHOLE_BUFFER);
  const rehal_range_t output = rehal_slot_range(1, 0, REHAL_WHOLE_BUFFER);
  const uint32_t constants[2] = {3, 4};
  const rehal_range_t bindings[2] = {whole(buffers[3]), output};
  const rehal_launch_t launch = {
      .size = sizeof(launch),
      .executable = executable,
      .workgroup_count = {1, 1, 1},
      .constants = constants,
      .constant_count = 2,
      .bindings = bindings,
      .binding_count = 2,
  };
  const uint8_t zero = 0;
  OK(rehal_command_fill(commands, output, rehal_bytes(&zero, 1)));
  OK(rehal_command_copy(commands, input, whole(buffers[3])));
  OK(rehal_command_signal_event(commands, event));
  const rehal_event_t* const events[1] = {event};
  OK(rehal_command_wait_events(commands, events, 1));
  OK(rehal_command_dispatch(commands, &launch));
  OK(rehal_command_barrier(commands));
  const uint32_t last = 77;
  OK(rehal_command_update(commands, rehal_slot_range(1, 60, 4), rehal_bytes(&last, sizeof(last))));
  OK(rehal_command_reset_event(commands, event));
  /* Slots, handles and states that are not there. */
  FAILS(rehal_command_fill(commands, rehal_slot_range(2, 0, 4), rehal_bytes(&zero, 1)),
        REHAL_STATUS_OUT_OF_RANGE);
  rehal_range_t both = whole(buffers[0]);
  both.slot = 1;
  FAILS(rehal_command_fill(commands, both, rehal_bytes(&zero, 1)), REHAL_STATUS_INVALID_ARGUMENT);
  FAILS(rehal_command_wait_events(commands, NULL, 1), REHAL_STATUS_INVALID_ARGUMENT);
  FAILS(rehal_command_signal_event(commands, NULL), REHAL_STATUS_INVALID_ARGUMENT);
  const rehal_range_t first[2] = {whole(buffers[0]), whole(buffers[1])};
  rehal_timepoint_t never;
  const rehal_submission_t early = next(&it, &never);
  FAILS(rehal_queue_execute(&early, commands, first, 2), REHAL_STATUS_FAILED_PRECONDITION);
  FAILS(rehal_queue_fill(&early, input, rehal_bytes(&zero, 1)), REHAL_STATUS_INVALID_ARGUMENT);
  OK(rehal_command_buffer_end(commands));
  FAILS(rehal_command_barrier(commands), REHAL_STATUS_FAILED_PRECONDITION);

  SUBMIT(&it, rehal_queue_execute, commands, first, 2);
  const rehal_range_t second[2] = {whole(buffers[1]), whole(buffers[2])};
  SUBMIT(&it, rehal_queue_execute, commands, second, 2);
  OK(rehal_buffer_read(buffers[2], 0, numbers, sizeof(numbers)));
  EXPECT(numbers[0] == 3 * 4 + 4 && numbers[2] == 3 * (3 * 2 + 4) + 4 && numbers[15] == last);
  rehal_command_buffer_free(commands);
  rehal_event_free(event);
  for (int at = 0; at < 4; ++at) rehal_buffer_free(buffers[at]);
  rehal_executable_free(executable);
  end(&it);

  const struct reads reads = replayed(uri, capture, NULL);
  EXPECT(memcmp(reads.numbers, numbers, sizeof(numbers)) == 0);
}

/* Records the whole life of a buffer of a queue, which waits for its begin: y = 3 x + 4 in it. */
static void transient(const char* uri, const char* kernel, int slot) {
  char name[64];
  snprintf(name, sizeof(name), "transient.%s.ireereplay", uri);
  rehal_string_t capture = path(slot, directory, name);
  struct recorded it = begin(uri, capture, NULL);
  rehal_executable_t* executable = NULL;
  rehal_semaphore_t* order = NULL;
  rehal_buffer_t *memory = NULL, *result = NULL;
  uint32_t numbers[COUNT];
  const uint32_t constants[2] = {3, 4}, five = 5;
  OK(rehal_executable_load(it.devices, 0, path(11, fixtures, kernel), rehal_string(NULL), &executable));
  OK(rehal_buffer_allocate(it.devices, 0, sizeof(numbers), &result));
  OK(rehal_semaphore_create(it.devices, 0, 0, &order));
  rehal_timepoint_t points[6];
  for (uint64_t at = 0; at < 6; ++at) points[at] = (rehal_timepoint_t){order, at + 1};
  rehal_submission_t submissions[5];
  for (int at = 0; at < 5; ++at) {
    submissions[at] = (rehal_submission_t){
        .size = sizeof(rehal_submission_t),
        .devices = it.devices,
        .waits = &points[at],
        .wait_count = 1,
        .signals = &points[at + 1],
        .signal_count = 1,
    };
  }
  OK(rehal_queue_allocate(&submissions[0], sizeof(numbers), &memory));
  OK(rehal_queue_fill(&submissions[1], whole(memory), rehal_bytes(&five, sizeof(five))));
  const rehal_range_t bindings[2] = {whole(memory), whole(memory)};
  const rehal_launch_t launch = {
      .size = sizeof(launch),
      .executable = executable,
      .workgroup_count = {1, 1, 1},
      .constants = constants,
      .constant_count = 2,
      .bindings = bindings,
      .binding_count = 2,
  };
  OK(rehal_queue_dispatch(&submissions[2], &launch));
  OK(rehal_queue_copy(&submissions[3], whole(memory), whole(result)));
  OK(rehal_queue_deallocate(&submissions[4], memory));
  OK(rehal_semaphore_signal(order, 1));
  OK(rehal_semaphore_wait(order, 6, REHAL_WAIT_FOREVER));
  OK(rehal_buffer_read(result, 0, numbers, sizeof(numbers)));
  EXPECT(numbers[0] == 3 * 5 + 4 && numbers[15] == 3 * 5 + 4);
  /* Work that fails tells the caller or its signals. It is not recorded any more. */
  OK(rehal_recorder_close(it.recorder));
  rehal_timepoint_t never;
  const rehal_submission_t late = next(&it, &never);
  rehal_error_t* error = rehal_queue_fill(&late, whole(memory), rehal_bytes(&five, sizeof(five)));
  if (!error) error = rehal_semaphore_wait(it.done, it.value, REHAL_WAIT_FOREVER);
  FAILS(error, REHAL_STATUS_FAILED_PRECONDITION);
  rehal_buffer_free(memory);
  rehal_buffer_free(result);
  rehal_semaphore_free(order);
  rehal_executable_free(executable);
  end(&it);
  const struct reads reads = replayed(uri, capture, NULL);
  EXPECT(memcmp(reads.numbers, numbers, sizeof(numbers)) == 0);
}

static void write_file(rehal_string_t name, const uint32_t* numbers) {
  FILE* file = fopen(name.data, "wb");
  EXPECT(file && fwrite(numbers, sizeof(uint32_t), COUNT, file) == COUNT && fclose(file) == 0);
}

/* Records that a queue reads a file. Returns the number of files that the capture refers to. */
static size_t read_by_queue(rehal_string_t capture, rehal_string_t name, rehal_file_policy_t policy,
                            rehal_file_validation_t validation, const char* expected) {
  const rehal_record_options_t options = {
      .size = sizeof(options), .file_policy = policy, .file_validation = validation};
  struct recorded it = begin("local-sync", capture, &options);
  rehal_file_t* file = NULL;
  rehal_buffer_t* buffer = NULL;
  uint32_t numbers[COUNT];
  uint64_t length = 0;
  OK(rehal_file_open(it.devices, 0, name, false, &file));
  OK(rehal_file_length(file, &length));
  EXPECT(length == sizeof(numbers));
  OK(rehal_buffer_allocate(it.devices, 0, sizeof(numbers), &buffer));
  SUBMIT(&it, rehal_queue_read, file, 0, whole(buffer));
  OK(rehal_buffer_read(buffer, 0, numbers, sizeof(numbers)));
  EXPECT(numbers[3] == 103);
  rehal_timepoint_t never;
  const rehal_submission_t refused = next(&it, &never);
  FAILS(rehal_queue_write(&refused, whole(buffer), file, 0), REHAL_STATUS_PERMISSION_DENIED);
  FAILS(rehal_queue_read(&refused, file, 4, whole(buffer)), REHAL_STATUS_OUT_OF_RANGE);
  rehal_buffer_free(buffer);
  rehal_file_free(file);
  end(&it);

  rehal_capture_t* opened = NULL;
  rehal_capture_info_t info = {.size = sizeof(info)};
  OK(rehal_capture_open(capture, NULL, &opened));
  OK(rehal_capture_info(opened, &info));
  if (info.file_count > 0) {
    rehal_file_info_t stored = {.size = sizeof(stored)};
    OK(rehal_capture_file(opened, 0, &stored));
    EXPECT(stored.length_bytes == sizeof(numbers) && equals(stored.validation, expected));
  }
  rehal_capture_free(opened);
  return info.file_count;
}

static void files(void) {
  uint32_t numbers[COUNT];
  for (uint32_t at = 0; at < COUNT; ++at) numbers[at] = 100 + at;
  rehal_string_t name = path(0, directory, "weights.bin"), moved = path(1, directory, "moved.bin");
  write_file(name, numbers);
  rehal_string_t by_path = path(2, directory, "by-path.ireereplay");
  rehal_string_t ranges = path(3, directory, "ranges.ireereplay");
  rehal_string_t all = path(4, directory, "all.ireereplay");
  EXPECT(read_by_queue(by_path, name, REHAL_FILE_POLICY_REFERENCE, REHAL_FILE_VALIDATION_DIGEST, "digest") == 1);
  EXPECT(read_by_queue(ranges, name, REHAL_FILE_POLICY_CAPTURE_RANGES, 0, "") == 0);
  EXPECT(read_by_queue(all, name, REHAL_FILE_POLICY_CAPTURE_ALL, 0, "") == 0);
  rehal_string_t identity = path(5, directory, "identity.ireereplay");
  EXPECT(read_by_queue(identity, name, REHAL_FILE_POLICY_REFERENCE, REHAL_FILE_VALIDATION_IDENTITY,
                       "identity") == 1);

  /* A capture with the bytes needs no file; one with the path finds it where a remap says, by its digest. */
  EXPECT(rename(name.data, moved.data) == 0);
  EXPECT(replayed("local-sync", ranges, NULL).numbers[15] == 115);
  EXPECT(replayed("local-sync", all, NULL).numbers[15] == 115);
  const rehal_file_remap_t remap = {name, moved};
  const rehal_replay_options_t options = {
      .size = sizeof(options), .file_remaps = &remap, .file_remap_count = 1};
  EXPECT(replayed("local-sync", by_path, &options).numbers[15] == 115);
  rehal_plan_t* plan = planned(by_path);
  rehal_devices_t* devices = NULL;
  rehal_replay_t* replay = NULL;
  OK(rehal_devices_open_for_plan(plan, rehal_string(NULL), &devices));
  FAILS(rehal_replay_create(plan, devices, NULL, &replay), REHAL_STATUS_NOT_FOUND);
  numbers[15] = 0;
  write_file(moved, numbers);
  uint32_t before[COUNT];
  memcpy(before, numbers, sizeof(before));
  FAILS(rehal_replay_create(plan, devices, &options, &replay), REHAL_STATUS_FAILED_PRECONDITION);
  rehal_devices_free(devices);
  rehal_plan_free(plan);

  /* Writes of a replay change a copy, unless they are to change the file. */
  rehal_string_t written = path(6, directory, "written.ireereplay");
  const rehal_record_options_t by_digest = {
      .size = sizeof(by_digest), .file_validation = REHAL_FILE_VALIDATION_DIGEST};
  struct recorded it = begin("local-task", written, &by_digest);
  rehal_file_t* file = NULL;
  rehal_buffer_t* buffer = NULL;
  OK(rehal_file_open(it.devices, 0, moved, true, &file));
  OK(rehal_buffer_allocate(it.devices, 0, sizeof(numbers), &buffer));
  const uint32_t five = 5;
  SUBMIT(&it, rehal_queue_fill, whole(buffer), rehal_bytes(&five, sizeof(five)));
  SUBMIT(&it, rehal_queue_write, whole(buffer), file, 0);
  SUBMIT(&it, rehal_queue_read, file, 0, whole(buffer));
  OK(rehal_buffer_read(buffer, 0, numbers, sizeof(numbers)));
  EXPECT(numbers[0] == 5 && numbers[15] == 5);
  rehal_buffer_free(buffer);
  rehal_file_free(file);
  end(&it);
  write_file(moved, before);
  EXPECT(replayed("local-task", written, NULL).numbers[15] == 5);
  size_t size = 0;
  uint8_t* kept = read_file(moved, &size);
  EXPECT(size == sizeof(before) && memcmp(kept, before, size) == 0);
  free(kept);
  const rehal_replay_options_t fails = {.size = sizeof(fails), .file_writes = REHAL_FILE_WRITES_FAIL};
  plan = planned(written);
  OK(rehal_devices_open_for_plan(plan, rehal_string(NULL), &devices));
  FAILS(rehal_replay_create(plan, devices, &fails, &replay), REHAL_STATUS_FAILED_PRECONDITION);
  rehal_devices_free(devices);
  rehal_plan_free(plan);

  /* A recording that refuses files. */
  const rehal_record_options_t policy = {.size = sizeof(policy), .file_policy = REHAL_FILE_POLICY_FAIL};
  it = begin("local-sync", path(7, directory, "refused.ireereplay"), &policy);
  FAILS(rehal_file_open(it.devices, 0, moved, false, &file), REHAL_STATUS_FAILED_PRECONDITION);
  FAILS(rehal_file_open(it.devices, 0, name, false, &file), REHAL_STATUS_NOT_FOUND);
  FAILS(rehal_file_length(NULL, &(uint64_t){0}), REHAL_STATUS_INVALID_ARGUMENT);
  end(&it);
}

/* A program with parameters, and the replay of its recording where the parameters have moved. */
static void parameters(void) {
  rehal_string_t capture = path(0, directory, "parameters.ireereplay");
  const rehal_string_t module = path(1, fixtures, "modules/params.vmfb"), uri = rehal_string("local-sync");
  const rehal_parameters_t model = {rehal_string("model"), path(2, fixtures, "params/model.irpa")};
  const rehal_record_options_t policy = {
      .size = sizeof(policy), .file_validation = REHAL_FILE_VALIDATION_DIGEST};
  rehal_program_options_t options = {
      .size = sizeof(options),
      .module_paths = &module,
      .module_path_count = 1,
      .device_uris = &uri,
      .device_uri_count = 1,
  };
  rehal_program_t* program = NULL;
  FAILS(rehal_program_load(&options, &program), REHAL_STATUS_NOT_FOUND);
  options.parameters = &model;
  options.parameter_count = 1;
  options.recording_path = capture;
  options.recording_options = &policy;
  OK(rehal_program_load(&options, &program));
  size_t size = 0, count = 0;
  uint8_t* file = read_file(path(3, fixtures, "inputs/params_x.npy"), &size);
  const uint64_t shape[2] = {4, 64};
  rehal_function_t* forward = NULL;
  rehal_value_t *input = NULL, *result = NULL;
  OK(rehal_program_function(program, rehal_string("forward"), &forward));
  /* The elements are the end of the file. */
  OK(rehal_tensor_create(program, REHAL_ELEMENT_F32, shape, 2, rehal_bytes(file + size - 1024, 1024), &input));
  free(file);
  const rehal_value_t* const inputs[1] = {input};
  OK(rehal_function_call(forward, inputs, 1, &result, 1, &count));
  rehal_bytes_t bytes;
  OK(rehal_value_map(result, &bytes));
  float number = 0;
  memcpy(&number, bytes.data, sizeof(number));
  EXPECT(bytes.size == 4 * 16 * sizeof(number) && number > 1.2706 && number < 1.2707);
  rehal_value_free(result);
  rehal_value_free(input);
  rehal_function_free(forward);
  OK(rehal_program_close(program));
  FAILS(rehal_program_close(program), REHAL_STATUS_FAILED_PRECONDITION);
  rehal_program_free(program);
}

struct text {
  char* data;
  size_t size;
  size_t calls;
};

static rehal_error_t* append(void* user, rehal_bytes_t bytes) {
  struct text* text = user;
  text->data = realloc(text->data, text->size + bytes.size + 1);
  memcpy(text->data + text->size, bytes.data, bytes.size);
  text->size += bytes.size;
  text->data[text->size] = 0;
  text->calls += 1;
  return NULL;
}

static rehal_error_t* full(void* user, rehal_bytes_t bytes) {
  (void)user, (void)bytes;
  return rehal_error_create(REHAL_STATUS_RESOURCE_EXHAUSTED, rehal_string("no space"));
}

/* Uses the scope that is being repeated. */
static rehal_error_t* repeats(void* user, rehal_string_t name, rehal_record_t record) {
  (void)name, (void)record;
  FAILS(rehal_fast_forward_restore(user), REHAL_STATUS_FAILED_PRECONDITION);
  return NULL;
}

/* A scope that is repeated, timed by a profile, of a capture that is printed. */
static void captures(void) {
  rehal_string_t name = path(0, fixtures, "captures/add4.add.local-sync.ireereplay");
  rehal_capture_t* capture = NULL;
  OK(rehal_capture_open(name, NULL, &capture));
  struct text text = {.size = 0}, lines = {.size = 0};
  OK(rehal_capture_dump(capture, REHAL_DUMP_TEXT, append, &text));
  OK(rehal_capture_dump(capture, REHAL_DUMP_JSONL, append, &lines));
  EXPECT(lines.data[0] == '{' && lines.data[lines.size - 1] == '\n' && strstr(lines.data, "\"dispatch"));
  size_t size = 0;
  uint8_t* expected = read_file(path(1, fixtures, "expected/add4.add.local-sync.dump.text"), &size);
  EXPECT(size == text.size && memcmp(expected, text.data, size) == 0);
  free(expected);
  free(text.data);
  free(lines.data);
  FAILS(rehal_capture_dump(capture, REHAL_DUMP_TEXT, full, NULL), REHAL_STATUS_RESOURCE_EXHAUSTED);
  FAILS(rehal_capture_dump(capture, 9, append, NULL), REHAL_STATUS_INVALID_ARGUMENT);
  FAILS(rehal_capture_dump(capture, REHAL_DUMP_TEXT, NULL, NULL), REHAL_STATUS_INVALID_ARGUMENT);
  rehal_capture_free(capture);

  rehal_plan_t* plan = planned(name);
  rehal_devices_t* devices = NULL;
  rehal_replay_t* replay = NULL;
  rehal_profiling_t* profiling = NULL;
  rehal_fast_forward_t* scope = NULL;
  OK(rehal_devices_open_for_plan(plan, rehal_string("local-task"), &devices));
  OK(rehal_replay_create(plan, devices, NULL, &replay));
  rehal_profiling_options_t options = {.size = sizeof(options)};
  FAILS(rehal_profiling_begin(devices, &options, &profiling), REHAL_STATUS_INVALID_ARGUMENT);
  options.path = path(2, directory, "run.ireeprof");
  options.data = 1u << 31;
  FAILS(rehal_profiling_begin(devices, &options, &profiling), REHAL_STATUS_INVALID_ARGUMENT);
  options.data = REHAL_PROFILE_DISPATCH_EVENTS;
  FAILS(rehal_profiling_begin(devices, &options, &profiling), REHAL_STATUS_UNIMPLEMENTED);
  options.data = REHAL_PROFILE_QUEUE_EVENTS | REHAL_PROFILE_HOST_EXECUTION;
  OK(rehal_profiling_begin(devices, &options, &profiling));
  rehal_observer_t observer = {.size = sizeof(observer), .profiling = profiling};
  OK(rehal_replay_run(replay, &observer));

  FAILS(rehal_fast_forward_create(replay, rehal_string("none"), &observer, &scope), REHAL_STATUS_NOT_FOUND);
  OK(rehal_fast_forward_create(replay, rehal_string("execute"), &observer, &scope));
  observer.user = scope;
  observer.scope_begin = repeats;
  for (int time = 0; time < 3; ++time) {
    OK(rehal_fast_forward_restore(scope));
    OK(rehal_fast_forward_repeat(scope, &observer));
  }
  OK(rehal_fast_forward_finish(scope));
  FAILS(rehal_fast_forward_restore(scope), REHAL_STATUS_FAILED_PRECONDITION);
  FAILS(rehal_fast_forward_finish(scope), REHAL_STATUS_FAILED_PRECONDITION);
  rehal_fast_forward_free(scope);

  observer.scope_begin = NULL;
  OK(rehal_profiling_end(profiling));
  FAILS(rehal_profiling_end(profiling), REHAL_STATUS_FAILED_PRECONDITION);
  FAILS(rehal_replay_run(replay, &observer), REHAL_STATUS_FAILED_PRECONDITION);
  rehal_profiling_free(profiling);
  uint8_t* profile = read_file(options.path, &size);
  EXPECT(size > 1000);
  free(profile);
  rehal_replay_free(replay);
  rehal_devices_free(devices);
  rehal_plan_free(plan);
}

/* Records fills for some queues, and reads their numbers from what is printed. Without this test, 0 may stay 0,
 * which is not a queue, or every submission may be for any queue. */
static void affinities(void) {
  const uint64_t given[3] = {0, 1, 6}, expected[3] = {UINT64_MAX, 1, 6};
  rehal_string_t name = path(0, directory, "affinities.ireereplay");
  struct recorded it = begin("local-sync", name, NULL);
  rehal_buffer_t* buffer = NULL;
  OK(rehal_buffer_allocate(it.devices, 0, 16, &buffer));
  const uint8_t five = 5;
  for (int at = 0; at < 3; ++at) {
    rehal_timepoint_t signal;
    rehal_submission_t submission = next(&it, &signal);
    submission.queue_affinity = given[at];
    OK(rehal_queue_fill(&submission, whole(buffer), rehal_bytes(&five, 1)));
    OK(rehal_semaphore_wait(it.done, it.value, REHAL_WAIT_FOREVER));
  }
  rehal_buffer_free(buffer);
  end(&it);
  rehal_capture_t* capture = NULL;
  struct text lines = {.size = 0};
  OK(rehal_capture_open(name, NULL, &capture));
  OK(rehal_capture_dump(capture, REHAL_DUMP_JSONL, append, &lines));
  const char* at = lines.data;
  for (int fill = 0; fill < 3; ++fill) {
    at = strstr(at, "\"device.queue_fill\"");
    EXPECT(at);
    const char* number = strstr(at, "\"queue_affinity\":");
    EXPECT(number && number < strchr(at, '\n'));
    EXPECT(strtoull(number + strlen("\"queue_affinity\":"), NULL, 10) == expected[fill]);
    at = number;
  }
  free(lines.data);
  rehal_capture_free(capture);
}

/* NULL, handles of other types and, since the tests have a debug build, freed ones are errors. */
static void wrong_handles(void) {
  rehal_devices_t* devices = NULL;
  rehal_command_buffer_t* commands = NULL;
  rehal_event_t* event = NULL;
  rehal_file_t* file = NULL;
  rehal_buffer_t* buffer = NULL;
  uint64_t length = 0;
  const rehal_string_t uri = rehal_string("local-sync");
  const uint32_t invalid = REHAL_STATUS_INVALID_ARGUMENT, freed = REHAL_STATUS_FAILED_PRECONDITION;
  FAILS(rehal_command_buffer_create(NULL, 0, NULL, &commands), invalid);
  FAILS(rehal_event_create(NULL, 0, &event), invalid);
  FAILS(rehal_file_open(NULL, 0, uri, false, &file), invalid);
  OK(rehal_devices_open(&uri, 1, &devices));
  FAILS(rehal_command_buffer_create(devices, 1, NULL, &commands), REHAL_STATUS_OUT_OF_RANGE);
  FAILS(rehal_command_buffer_create(devices, 0, NULL, NULL), invalid);
  FAILS(rehal_file_open(devices, 0, uri, false, NULL), invalid);
  OK(rehal_command_buffer_create(devices, 0, NULL, &commands));
  OK(rehal_event_create(devices, 0, &event));
  OK(rehal_file_open(devices, 0, path(0, fixtures, "params/model.irpa"), false, &file));
  FAILS(rehal_command_signal_event(commands, (const rehal_event_t*)file), invalid);
  rehal_command_buffer_free(commands);
  rehal_event_free(event);
  rehal_file_free(file);
  FAILS(rehal_command_barrier(commands), freed);
  FAILS(rehal_file_length(file, &length), freed);
  const rehal_submission_t submission = {.size = sizeof(submission), .devices = devices};
  FAILS(rehal_queue_execute(&submission, commands, NULL, 0), freed);
  FAILS(rehal_queue_execute(&submission, NULL, NULL, 0), invalid);
  FAILS(rehal_queue_read(&submission, NULL, 0, rehal_range(NULL, 0, 1)), invalid);
  FAILS(rehal_queue_allocate(NULL, 16, &buffer), invalid);
  FAILS(rehal_queue_allocate(&submission, 16, NULL), invalid);
  FAILS(rehal_queue_allocate(&submission, UINT64_MAX, &buffer), REHAL_STATUS_RESOURCE_EXHAUSTED);
  EXPECT(!buffer);
  FAILS(rehal_queue_deallocate(&submission, NULL), invalid);
  FAILS(rehal_queue_write(NULL, rehal_range(NULL, 0, 1), file, 0), freed);
  OK(rehal_command_buffer_create(devices, 0, NULL, &commands));
  FAILS(rehal_command_signal_event(commands, event), freed);
  rehal_command_buffer_free(commands);
  rehal_devices_free(devices);
  FAILS(rehal_command_barrier(NULL), invalid);
  FAILS(rehal_command_buffer_end(NULL), invalid);
  FAILS(rehal_command_dispatch(NULL, NULL), invalid);
  FAILS(rehal_fast_forward_create(NULL, uri, NULL, NULL), invalid);
  FAILS(rehal_fast_forward_restore(NULL), invalid);
  FAILS(rehal_fast_forward_repeat(NULL, NULL), invalid);
  FAILS(rehal_fast_forward_finish(NULL), invalid);
  FAILS(rehal_capture_dump(NULL, REHAL_DUMP_TEXT, NULL, NULL), invalid);
  FAILS(rehal_profiling_begin(NULL, NULL, NULL), invalid);
  FAILS(rehal_profiling_end(NULL), invalid);
  rehal_command_buffer_free(NULL);
  rehal_event_free(NULL);
  rehal_file_free(NULL);
  rehal_fast_forward_free(NULL);
  rehal_profiling_free(NULL);
}

int main(int argc, char** argv) {
  EXPECT(argc == 3 || argc == 4);
  fixtures = argv[1];
  directory = argv[2];
  if (argc == 4) {
    commands("vulkan", argv[3], 0);
    transient("vulkan", argv[3], 1);
    return printf("ok\n") < 0;
  }
  commands("local-sync", "cts/affine.embedded.elf", 0);
  commands("local-task", "cts/affine.embedded.elf", 1);
  transient("local-sync", "cts/affine.embedded.elf", 2);
  transient("local-task", "cts/affine.embedded.elf", 3);
  wrong_handles();
  files();
  parameters();
  captures();
  affinities();
  printf("ok\n");
  return 0;
}

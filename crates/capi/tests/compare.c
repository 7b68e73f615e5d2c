/* Records, code and comparisons: `compare CAPTURE OTHER FUNCTION RIGHT.so WRONG.so REHAL`. */

#include <sys/wait.h>
#include <unistd.h>

#include "expect.h"

static bool has(rehal_string_t text, const char* part) {
  size_t length = strlen(part);
  for (size_t at = 0; at + length <= text.size; ++at) {
    if (memcmp(text.data + at, part, length) == 0) return true;
  }
  return false;
}

/* Checks the outcome and a part of the JSON of a report, and frees it. */
static void expect_report(rehal_report_t* report, rehal_outcome_t expected, const char* part) {
  rehal_outcome_t outcome = 7;
  rehal_string_t json = {0};
  OK(rehal_report_outcome(report, &outcome));
  OK(rehal_report_json(report, &json));
  if (outcome != expected || !has(json, part)) {
    fprintf(stderr, "%u, without %s: %.*s\n", outcome, part, (int)json.size, json.data);
    exit(1);
  }
  EXPECT(json.data[0] == '{' && json.data[json.size - 1] == '}');
  rehal_report_free(report);
}

static void records(const rehal_capture_t* capture) {
  rehal_capture_info_t all = {.size = sizeof(all)};
  OK(rehal_capture_info(capture, &all));
  rehal_records_t* records = NULL;
  OK(rehal_records_create(capture, NULL, &records));
  uint64_t count = 0, dispatches = 0, in_scope = 0;
  rehal_record_info_t record = {.size = sizeof(record)};
  for (bool has_record = true;;) {
    OK(rehal_records_next(records, &record, &has_record));
    if (!has_record) break;
    EXPECT(record.record.ordinal == count && record.size_bytes > 0 && record.record_type.size > 0);
    if (record.is_dispatch) EXPECT(record.has_workgroup_count && record.workgroup_count[0] >= 1);
    dispatches += record.is_dispatch;
    in_scope += equals(record.scope, "execute");
    ++count;
  }
  EXPECT(count == all.record_count && dispatches > 0 && in_scope > 0 && in_scope < count);
  /* It has ended. */
  bool has_record = true;
  OK(rehal_records_next(records, &record, &has_record));
  EXPECT(!has_record);
  rehal_records_free(records);
  rehal_record_filter_t filter = {.size = sizeof(filter), .function = rehal_string("*")};
  OK(rehal_records_create(capture, &filter, &records));
  for (count = 0;; ++count) {
    OK(rehal_records_next(records, &record, &has_record));
    if (!has_record) break;
    EXPECT(record.is_dispatch && record.function_name.size > 0);
  }
  EXPECT(count == dispatches);
  rehal_records_free(records);
}

static void code(const rehal_capture_t* capture) {
  rehal_executable_info_t executable = {.size = sizeof(executable)};
  rehal_bytes_t bytes = {0};
  OK(rehal_capture_executable(capture, 0, &executable));
  OK(rehal_capture_executable_code(capture, 0, &bytes));
  EXPECT(bytes.size == executable.code_bytes && memcmp(bytes.data, "\177ELF", 4) == 0);
  FAILS(rehal_capture_executable_code(capture, 99, &bytes), REHAL_STATUS_OUT_OF_RANGE);
}

static void diff(const rehal_capture_t* capture, const rehal_capture_t* other) {
  rehal_report_t* report = NULL;
  OK(rehal_capture_diff(capture, capture, NULL, &report));
  expect_report(report, REHAL_OUTCOME_SAME, "\"schema\":\"rehal.diff/1\",\"same\":true");
  rehal_diff_options_t options = {.size = sizeof(options), .element_type = REHAL_ELEMENT_F32};
  OK(rehal_capture_diff(capture, other, &options, &report));
  expect_report(report, REHAL_OUTCOME_DIFFERENT, "\"same\":false");
  FAILS(rehal_capture_diff(capture, NULL, NULL, &report), REHAL_STATUS_INVALID_ARGUMENT);
}

static rehal_error_t* with_file(void* user, const rehal_executable_info_t* executable, rehal_bytes_t code,
                                rehal_replacement_t* replacement) {
  (void)executable, (void)code;
  replacement->code = *(rehal_bytes_t*)user;
  replacement->keep_missing = true;
  return NULL;
}

static rehal_bytes_t file(const char* name) {
  size_t size = 0;
  uint8_t* bytes = read_file(rehal_string(name), &size);
  return rehal_bytes(bytes, size);
}

static void verify(const rehal_plan_t* plan, rehal_bytes_t wrong) {
  rehal_devices_t* devices[2] = {0};
  rehal_replay_t* replays[2] = {0};
  rehal_report_t* report = NULL;
  const char* uris[] = {"local-sync", "local-task"};
  for (int side = 0; side < 2; ++side) {
    OK(rehal_devices_open_for_plan(plan, rehal_string(uris[side]), &devices[side]));
    OK(rehal_replay_create(plan, devices[side], NULL, &replays[side]));
  }
  rehal_verify_options_t options = {.size = sizeof(options), .expected = replays[0]};
  OK(rehal_replay_verify(replays[1], &options, &report));
  expect_report(report, REHAL_OUTCOME_SAME, "\"schema\":\"rehal.verify/1\",\"outcome\":\"same\"");
  rehal_replay_free(replays[1]);
  rehal_replay_options_t replaced = {.size = sizeof(replaced), .substitute = with_file, .substitute_user = &wrong};
  OK(rehal_replay_create(plan, devices[1], &replaced, &replays[1]));
  OK(rehal_replay_verify(replays[1], &options, &report));
  expect_report(report, REHAL_OUTCOME_DIFFERENT, "\"different_count\":1");
  rehal_string_t tolerance = rehal_string("*:f32:abs=1000");
  options.tolerances = &tolerance;
  options.tolerance_count = 1;
  rehal_string_t element_type = rehal_string("f32");
  options.element_types = &element_type;
  options.element_type_count = 1;
  OK(rehal_replay_verify(replays[1], &options, &report));
  expect_report(report, REHAL_OUTCOME_SAME, "\"tolerated_count\":");
  tolerance = rehal_string("all");
  FAILS(rehal_replay_verify(replays[1], &options, &report), REHAL_STATUS_INVALID_ARGUMENT);
  /* The capture has no results of its own, and no file is a ledger. */
  FAILS(rehal_replay_verify(replays[0], NULL, &report), REHAL_STATUS_INVALID_ARGUMENT);
  options = (rehal_verify_options_t){.size = sizeof(options), .ledger = rehal_string("/nonexistent")};
  FAILS(rehal_replay_verify(replays[0], &options, &report), REHAL_STATUS_NOT_FOUND);
  for (int side = 0; side < 2; ++side) {
    rehal_replay_free(replays[side]);
    rehal_devices_free(devices[side]);
  }
}

static void compare(const rehal_plan_t* plan, rehal_string_t function, rehal_bytes_t right, rehal_bytes_t wrong,
                    rehal_string_t program) {
  rehal_report_t* report = NULL;
  rehal_isolation_options_t isolation = {.size = sizeof(isolation), .program = program};
  rehal_compare_options_t options = {
      .size = sizeof(options), .device = rehal_string("local-sync"), .max_time_ns = 100000000, .isolation = &isolation};
  rehal_replacement_t replacement = {.size = sizeof(replacement), .code = right};
  OK(rehal_kernel_compare(plan, function, &replacement, &options, &report));
  expect_report(report, REHAL_OUTCOME_SAME, "\"outcome\":\"right\"");
  OK(rehal_kernel_compare(plan, function, &replacement, &options, &report));
  expect_report(report, REHAL_OUTCOME_SAME, "\"changes_inputs\":true");
  OK(rehal_kernel_compare(plan, function, &replacement, &options, &report));
  expect_report(report, REHAL_OUTCOME_SAME, "\"pair_count\":");
  isolation.isolation = REHAL_ISOLATION_NONE;
  OK(rehal_kernel_compare(plan, function, &replacement, &options, &report));
  expect_report(report, REHAL_OUTCOME_SAME, "\"pair_count\":");
  isolation.isolation = REHAL_ISOLATION_PROCESS;
  replacement.code = wrong;
  OK(rehal_kernel_compare(plan, function, &replacement, &options, &report));
  expect_report(report, REHAL_OUTCOME_DIFFERENT, "\"outcome\":\"wrong\"");
  replacement.code = rehal_bytes(NULL, 0);
  FAILS(rehal_kernel_compare(plan, function, &replacement, &options, &report), REHAL_STATUS_INVALID_ARGUMENT);
  replacement.code = right;
  FAILS(rehal_kernel_compare(plan, rehal_string("none"), &replacement, &options, &report), REHAL_STATUS_NOT_FOUND);
}

static void judge(void) {
  const double before[] = {1.00, 1.04, 1.01, 1.02}, after[] = {1.21, 1.24, 1.20, 1.27};
  rehal_judgment_t judgment = {.size = sizeof(judgment)};
  OK(rehal_judge_processes(before, 4, after, 4, 0.05, 1, &judgment));
  EXPECT(judgment.verdict == REHAL_VERDICT_SLOWER && judgment.has_interval);
  EXPECT(judgment.interval_low > 1.15 && judgment.interval_high < 1.28);
  EXPECT(judgment.ratio > judgment.interval_low && judgment.ratio < judgment.interval_high);
  OK(rehal_judge_processes(after, 4, before, 4, 0.05, 1, &judgment));
  EXPECT(judgment.verdict == REHAL_VERDICT_FASTER);
  /* Of a hundred functions, four times are too few, and so is one of each of one function. */
  OK(rehal_judge_processes(before, 4, after, 4, 0.05, 100, &judgment));
  EXPECT(judgment.verdict == REHAL_VERDICT_CANNOT_TELL && !judgment.has_interval);
  OK(rehal_judge_processes(before, 1, after, 1, 0.05, 1, &judgment));
  EXPECT(judgment.verdict == REHAL_VERDICT_CANNOT_TELL && judgment.ratio == 1.21);
  const double wrong[] = {1.0, -1.0};
  FAILS(rehal_judge_processes(before, 4, wrong, 2, 0.05, 1, &judgment), REHAL_STATUS_INVALID_ARGUMENT);
  FAILS(rehal_judge_processes(before, 0, after, 4, 0.05, 1, &judgment), REHAL_STATUS_INVALID_ARGUMENT);
  FAILS(rehal_judge_processes(before, 4, after, 4, -1, 1, &judgment), REHAL_STATUS_INVALID_ARGUMENT);
}

int main(int argc, char** argv) {
  EXPECT(argc == 7);
  rehal_capture_t *capture = NULL, *other = NULL;
  rehal_plan_t* plan = NULL;
  OK(rehal_capture_open(rehal_string(argv[1]), NULL, &capture));
  OK(rehal_capture_open(rehal_string(argv[2]), NULL, &other));
  records(capture);
  code(capture);
  diff(capture, other);
  judge();
  /* What ran on several threads runs on one in a child, which lacks the others. */
  pid_t child = fork();
  EXPECT(child >= 0);
  if (child == 0) {
    alarm(60);
    OK(rehal_capture_open(rehal_string(argv[1]), NULL, &capture));
    OK(rehal_capture_open(rehal_string(argv[2]), NULL, &other));
    diff(capture, other);
    _exit(0);
  }
  OK(rehal_plan_create(capture, &plan));
  rehal_capture_free(other);
  rehal_capture_free(capture);
  rehal_bytes_t right = file(argv[4]), wrong = file(argv[5]);
  int status = 0;
  EXPECT(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
  verify(plan, wrong);
  compare(plan, rehal_string(argv[3]), right, wrong, rehal_string(argv[6]));
  free((void*)right.data);
  free((void*)wrong.data);
  rehal_plan_free(plan);
  printf("ok\n");
  return 0;
}

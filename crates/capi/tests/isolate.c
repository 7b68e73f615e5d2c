/* Kernels that end or hold their process, in another one: `isolate REHAL CAPTURE FUNCTION RIGHT.so CRASHES.so
 * EXITS.so HANGS.so PICKY.so`. */

#include "expect.h"

static bool has(rehal_string_t text, const char* part) {
  size_t length = strlen(part);
  for (size_t at = 0; at + length <= text.size; ++at) {
    if (memcmp(text.data + at, part, length) == 0) return true;
  }
  return false;
}

/* Checks the code and parts of the report of an error, and frees it. */
static void expect_error(rehal_error_t* error, uint32_t code, const char* part, const char* function) {
  EXPECT(error);
  rehal_string_t report = rehal_error_report(error);
  if (rehal_error_code(error) != code || !has(report, part) || !has(report, function)) {
    fprintf(stderr, "without %s or %s: %.*s\n", part, function, (int)report.size, report.data);
    exit(1);
  }
  rehal_error_free(error);
}

static void run(const rehal_plan_t* plan, const rehal_run_options_t* options, const char* part) {
  rehal_report_t* report = NULL;
  rehal_string_t json = {0};
  OK(rehal_plan_run(plan, options, &report));
  OK(rehal_report_json(report, &json));
  EXPECT(has(json, "\"schema\":\"rehal.run/1\"") && has(json, part));
  rehal_report_free(report);
}

int main(int argc, char** argv) {
  EXPECT(argc == 9);
  const char* function = argv[3];
  rehal_capture_t* capture = NULL;
  rehal_plan_t* plan = NULL;
  rehal_report_t* report = NULL;
  OK(rehal_capture_open(rehal_string(argv[2]), NULL, &capture));
  OK(rehal_plan_create(capture, &plan));
  rehal_isolation_options_t isolation = {.size = sizeof(isolation), .program = rehal_string(argv[1])};
  rehal_run_options_t options = {
      .size = sizeof(options), .device = rehal_string("local-sync"), .isolation = &isolation};
  /* 11, 22, 33 and 44 as f32. */
  const char* bytes = "\"bytes\":\"000030410000b0410000044200003042\"";
  run(plan, &options, bytes);
  rehal_replacement_t replacement = {.size = sizeof(replacement)};
  options.function = rehal_string(function);
  options.replacement = &replacement;
  FAILS(rehal_plan_run(plan, &options, &report), REHAL_STATUS_INVALID_ARGUMENT);
  const struct {
    uint32_t code;
    const char* part;
  } expected[] = {{REHAL_STATUS_OK, bytes},
                  {REHAL_STATUS_ABORTED, "a kernel crashed with SIGSEGV"},
                  {REHAL_STATUS_ABORTED, "the process ended with status 0 before its work was done"},
                  {REHAL_STATUS_DEADLINE_EXCEEDED, "has not ended within 2000 ms"}};
  for (int kernel = 0; kernel < 4; ++kernel) {
    size_t size = 0;
    uint8_t* code = read_file(rehal_string(argv[4 + kernel]), &size);
    replacement.code = rehal_bytes(code, size);
    isolation.max_time_ns = expected[kernel].code == REHAL_STATUS_DEADLINE_EXCEEDED ? 2000000000 : 0;
    rehal_compare_options_t compare = {.size = sizeof(compare),
                                       .device = rehal_string("local-sync"),
                                       .max_time_ns = 50000000,
                                       .isolation = &isolation};
    if (expected[kernel].code == REHAL_STATUS_OK) {
      run(plan, &options, expected[kernel].part);
    } else {
      expect_error(rehal_plan_run(plan, &options, &report), expected[kernel].code, expected[kernel].part, function);
      expect_error(rehal_kernel_compare(plan, rehal_string(function), &replacement, &compare, &report),
                   expected[kernel].code, expected[kernel].part, function);
    }
    if (expected[kernel].code == REHAL_STATUS_DEADLINE_EXCEEDED) {
      isolation.max_time_ns = 0;
      isolation.progress_time_ns = 1000000000;
      expect_error(rehal_plan_run(plan, &options, &report), expected[kernel].code, "has not ended within 1 seconds",
                   function);
      isolation.progress_time_ns = 0;
    }
    free(code);
  }
  /* It crashes with other inputs than the captured ones. */
  size_t size = 0;
  uint8_t* picky = read_file(rehal_string(argv[8]), &size);
  replacement.code = rehal_bytes(picky, size);
  rehal_compare_options_t compare = {.size = sizeof(compare),
                                     .device = rehal_string("local-sync"),
                                     .max_time_ns = 50000000,
                                     .isolation = &isolation};
  isolation.max_time_ns = 0;
  rehal_outcome_t outcome = 7;
  rehal_string_t json = {0};
  OK(rehal_kernel_compare(plan, rehal_string(function), &replacement, &compare, &report));
  OK(rehal_report_outcome(report, &outcome));
  OK(rehal_report_json(report, &json));
  EXPECT(outcome == REHAL_OUTCOME_DIFFERENT && has(json, "\"changes_inputs\":false"));
  rehal_report_free(report);
  free(picky);
  options.function = rehal_string(NULL);
  /* Nothing runs without the program. */
  isolation.program = rehal_string("/nonexistent");
  FAILS(rehal_plan_run(plan, &options, &report), REHAL_STATUS_NOT_FOUND);
  isolation.isolation = 7;
  FAILS(rehal_plan_run(plan, &options, &report), REHAL_STATUS_INVALID_ARGUMENT);
  /* In this process. */
  isolation.isolation = REHAL_ISOLATION_NONE;
  run(plan, &options, bytes);
  rehal_plan_free(plan);
  rehal_capture_free(capture);
  printf("ok\n");
  return 0;
}

/* Loads a program and calls a function that takes and returns an f32: `call MODULE.vmfb FUNCTION NUMBER`. */

#include <stdio.h>
#include <stdlib.h>

#include "rehal.h"

static rehal_error_t* call(const char* module, const char* name, float number) {
  const rehal_string_t path = rehal_string(module);
  const rehal_program_options_t options = {
      .size = sizeof(options), .module_paths = &path, .module_path_count = 1};
  rehal_program_t* program = NULL;
  rehal_function_t* function = NULL;
  rehal_value_t* input = NULL;
  rehal_value_t* result = NULL;
  rehal_call_t* started = NULL;
  rehal_callable_info_t info = {.size = sizeof(info)};
  rehal_bytes_t bytes = {NULL, 0};
  size_t count = 0;

  /* The kernels read this memory where it is. CPU devices need this alignment. */
  float* memory = aligned_alloc(64, 64);
  if (!memory) return rehal_error_create(REHAL_STATUS_RESOURCE_EXHAUSTED, rehal_string("no memory"));
  memory[0] = number;

  rehal_error_t* error = rehal_program_load(&options, &program);
  if (!error) error = rehal_program_function(program, rehal_string(name), &function);
  if (!error) error = rehal_function_info(function, &info);
  if (!error) printf("%.*s\n", (int)info.signature.size, info.signature.data);
  if (!error) {
    /* `free` is called when the tensor is no longer used. */
    error = rehal_tensor_create_over(program, REHAL_ELEMENT_F32, NULL, 0, memory, free, memory, &input);
    if (error) free(memory);
  } else {
    free(memory);
  }

  /* A call that waits ... */
  const rehal_value_t* const inputs[1] = {input};
  if (!error) error = rehal_function_call(function, inputs, 1, &result, 1, &count);
  if (!error) error = rehal_value_map(result, &bytes);
  if (!error) {
    float computed = 0;
    memcpy(&computed, bytes.data, sizeof(computed));
    printf("%s(%g) = %g\n", name, number, computed);
  }
  rehal_value_free(result);
  result = NULL;

  /* ... and one that is waited for later, and could be cancelled by freeing it. */
  bool is_done = false;
  if (!error) error = rehal_function_start(function, inputs, 1, &started);
  while (!error && !is_done) error = rehal_call_wait(started, 1000 * 1000, &is_done);
  if (!error) error = rehal_call_results(started, &result, 1, &count);
  if (!error) printf("%zu result\n", count);

  rehal_value_free(result);
  rehal_value_free(input);
  rehal_call_free(started);
  rehal_function_free(function);
  if (program) {
    rehal_error_t* closed = rehal_program_close(program);
    if (error) {
      rehal_error_free(closed);
    } else {
      error = closed;
    }
  }
  rehal_program_free(program);
  return error;
}

int main(int argc, char** argv) {
  if (argc != 4) {
    fprintf(stderr, "expected MODULE.vmfb FUNCTION NUMBER\n");
    return 2;
  }
  rehal_error_t* error = call(argv[1], argv[2], strtof(argv[3], NULL));
  if (!error) return 0;
  rehal_string_t report = rehal_error_report(error);
  fprintf(stderr, "%.*s\n", (int)report.size, report.data);
  rehal_error_free(error);
  return 1;
}

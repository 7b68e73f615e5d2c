/* What the tests in C share. */
#ifndef EXPECT_H_
#define EXPECT_H_

#include <stdio.h>
#include <stdlib.h>

#include "rehal.h"

static char paths[12][4096];

static inline void expect_at(bool holds, const char* what, int line) {
  if (holds) return;
  fprintf(stderr, "line %d: %s\n", line, what);
  exit(1);
}

#define EXPECT(condition) expect_at(condition, #condition, __LINE__)

static inline void ok_at(rehal_error_t* error, int line) {
  if (!error) return;
  rehal_string_t report = rehal_error_report(error);
  fprintf(stderr, "line %d: %.*s\n", line, (int)report.size, report.data);
  exit(1);
}

#define OK(call) ok_at(call, __LINE__)

static inline void fails_at(rehal_error_t* error, uint32_t code, int line) {
  if (rehal_error_code(error) != code) ok_at(error, line);
  expect_at(rehal_error_code(error) == code, "another code", line);
  rehal_error_free(error);
}

#define FAILS(call, code) fails_at(call, code, __LINE__)

static inline rehal_string_t path(int slot, const char* in, const char* name) {
  snprintf(paths[slot], sizeof(paths[slot]), "%s/%s", in, name);
  return rehal_string(paths[slot]);
}

static inline bool equals(rehal_string_t string, const char* text) {
  return string.size == strlen(text) && memcmp(string.data, text, string.size) == 0;
}

static inline uint8_t* read_file(rehal_string_t name, size_t* size) {
  FILE* file = fopen(name.data, "rb");
  EXPECT(file);
  fseek(file, 0, SEEK_END);
  *size = (size_t)ftell(file);
  rewind(file);
  uint8_t* bytes = malloc(*size);
  EXPECT(bytes && fread(bytes, 1, *size, file) == *size);
  fclose(file);
  return bytes;
}

#endif /* EXPECT_H_ */

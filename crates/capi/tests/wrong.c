/* What a program may do wrong with processes: a child of fork uses handles of its parent. */

#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "rehal.h"

static void expect(bool holds, const char* what) {
  if (holds) return;
  fprintf(stderr, "failed: %s\n", what);
  exit(1);
}

/* In the child: every use is an error, and freeing does nothing. */
static int child(rehal_recorder_t* recorder, rehal_devices_t* devices) {
  size_t count = 0;
  rehal_error_t* error = rehal_devices_count(devices, &count);
  if (rehal_error_code(error) != REHAL_STATUS_FAILED_PRECONDITION) return 1;
  rehal_error_free(error);
  error = rehal_recorder_close(recorder);
  if (rehal_error_code(error) != REHAL_STATUS_FAILED_PRECONDITION) return 2;
  rehal_error_free(error);
  rehal_recorder_free(recorder);
  rehal_devices_free(devices);
  /* The recorder has a thread: handles of its own are refused as well. */
  rehal_devices_t* own = NULL;
  rehal_string_t uri = rehal_string("local-sync");
  error = rehal_devices_open(&uri, 1, &own);
  if (rehal_error_code(error) != REHAL_STATUS_FAILED_PRECONDITION) return 3;
  rehal_error_free(error);
  return 0;
}

int main(int argc, char** argv) {
  expect(argc == 2, "a path");
  rehal_recorder_t* recorder = NULL;
  rehal_devices_t* devices = NULL;
  rehal_capture_t* capture = NULL;
  expect(!rehal_recorder_create(rehal_string(argv[1]), NULL, &recorder), "a recorder");
  expect(!rehal_devices_open(NULL, 0, &devices), "devices");
  pid_t process = fork();
  expect(process >= 0, "fork");
  if (process == 0) _exit(child(recorder, devices));
  int status = 0;
  expect(waitpid(process, &status, 0) == process, "waitpid");
  expect(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the child");
  /* The parent continues. */
  expect(!rehal_recorder_close(recorder), "closing");
  expect(!rehal_capture_open(rehal_string(argv[1]), NULL, &capture), "opening");
  rehal_capture_free(capture);
  rehal_recorder_free(recorder);
  rehal_devices_free(devices);
  printf("ok\n");
  return 0;
}

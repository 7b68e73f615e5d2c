/* A capture that is truncated while it is open: `truncated CAPTURE [run]`. Prints `ok` unless it is truncated
 * during a run, which ends the process. */

#include <unistd.h>

#include "expect.h"

static rehal_error_t* truncate_it(void* user, const rehal_dispatch_t* dispatch) {
  (void)dispatch;
  EXPECT(truncate(user, 4096) == 0);
  return NULL;
}

int main(int argc, char** argv) {
  EXPECT(argc == 2 || argc == 3);
  rehal_capture_t* capture = NULL;
  rehal_plan_t *plan = NULL, *none = NULL;
  rehal_devices_t* devices = NULL;
  rehal_replay_t* replay = NULL;
  OK(rehal_capture_open(rehal_string(argv[1]), NULL, &capture));
  OK(rehal_plan_create(capture, &plan));
  OK(rehal_devices_open_for_plan(plan, rehal_string("local-sync"), &devices));
  OK(rehal_replay_create(plan, devices, NULL, &replay));
  rehal_observer_t observer = {.size = sizeof(observer), .user = argv[1]};
  if (argc == 3) {
    observer.after_dispatch = truncate_it;
    OK(rehal_replay_run(replay, &observer));
  }
  OK(rehal_replay_run(replay, NULL));
  EXPECT(truncate(argv[1], 4096) == 0);
  rehal_capture_info_t info = {.size = sizeof(info)};
  FAILS(rehal_capture_info(capture, &info), REHAL_STATUS_DATA_LOSS);
  FAILS(rehal_plan_create(capture, &none), REHAL_STATUS_DATA_LOSS);
  FAILS(rehal_replay_run(replay, NULL), REHAL_STATUS_DATA_LOSS);
  rehal_replay_free(replay);
  rehal_devices_free(devices);
  rehal_plan_free(plan);
  rehal_capture_free(capture);
  printf("ok\n");
  return 0;
}

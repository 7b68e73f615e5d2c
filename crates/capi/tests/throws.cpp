// A callback that throws ends the process: `throws CAPTURE.ireereplay`.

#include <cstdio>
#include <stdexcept>

#include "rehal.h"

static rehal_error_t* throws(void*, const rehal_host_read_t*) { throw std::runtime_error("from a callback"); }

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  rehal_capture_t* capture = nullptr;
  rehal_plan_t* plan = nullptr;
  rehal_devices_t* devices = nullptr;
  rehal_replay_t* replay = nullptr;
  rehal_error_t* error = rehal_capture_open(rehal_string(argv[1]), nullptr, &capture);
  if (!error) error = rehal_plan_create(capture, &plan);
  if (!error) error = rehal_devices_open_for_plan(plan, rehal_string("local-sync"), &devices);
  if (!error) error = rehal_replay_create(plan, devices, nullptr, &replay);
  if (error) return 3;
  rehal_observer_t observer = {};
  observer.size = sizeof(observer);
  observer.host_read = throws;
  error = rehal_replay_run(replay, &observer);
  std::printf("it came back\n");
  return 0;
}

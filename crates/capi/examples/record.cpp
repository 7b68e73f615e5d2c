// Records a program that is compiled code to memory, by functions as a sink, and replays what was written:
// `record_cpp CAPTURE.ireereplay` records the work of a replay of that capture.

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "rehal.h"

namespace {

// Errors become exceptions of C++ here, and never in a callback.
void check(rehal_error_t* error) {
  if (!error) return;
  rehal_string_t report = rehal_error_report(error);
  std::string text(report.data, report.size);
  rehal_error_free(error);
  throw std::runtime_error(text);
}

template <typename T, void (*Free)(T*)>
struct Freeing {
  void operator()(T* handle) const { Free(handle); }
};

template <typename T, void (*Free)(T*)>
using Owned = std::unique_ptr<T, Freeing<T, Free>>;

using Capture = Owned<rehal_capture_t, rehal_capture_free>;
using Plan = Owned<rehal_plan_t, rehal_plan_free>;
using Devices = Owned<rehal_devices_t, rehal_devices_free>;
using Replay = Owned<rehal_replay_t, rehal_replay_free>;
using Recorder = Owned<rehal_recorder_t, rehal_recorder_free>;

// Calls a function that makes a handle, which is its last argument.
template <typename Handle, typename Function, typename... Arguments>
Handle make(Function function, Arguments... arguments) {
  typename Handle::pointer made = nullptr;
  check(function(arguments..., &made));
  return Handle(made);
}

rehal_error_t* write(void* user, uint64_t offset, rehal_bytes_t bytes) {
  auto& memory = *static_cast<std::vector<uint8_t>*>(user);
  try {
    memory.resize(std::max<size_t>(memory.size(), offset + bytes.size));
  } catch (const std::exception& error) {
    return rehal_error_create(REHAL_STATUS_RESOURCE_EXHAUSTED, rehal_string(error.what()));
  }
  std::memcpy(memory.data() + offset, bytes.data, bytes.size);
  return nullptr;
}

rehal_error_t* count_read(void* user, const rehal_host_read_t* read) {
  *static_cast<size_t*>(user) += read->bytes.size;
  return nullptr;
}

size_t run(const Replay& replay) {
  size_t bytes = 0;
  rehal_observer_t observer = {};
  observer.size = sizeof(observer);
  observer.user = &bytes;
  observer.host_read = count_read;
  check(rehal_replay_run(replay.get(), &observer));
  return bytes;
}

void record_again(const char* path) {
  auto options = static_cast<const rehal_capture_options_t*>(nullptr);
  auto capture = make<Capture>(rehal_capture_open, rehal_string(path), options);
  auto plan = make<Plan>(rehal_plan_create, capture.get());
  auto devices = make<Devices>(rehal_devices_open_for_plan, plan.get(), rehal_string("local-sync"));

  std::vector<uint8_t> memory;
  rehal_sink_t sink = {};
  sink.size = sizeof(sink);
  sink.user = &memory;
  sink.write = write;
  auto recording = static_cast<const rehal_record_options_t*>(nullptr);
  auto recorder = make<Recorder>(rehal_recorder_create_sink, &sink, recording);
  auto recorded = make<Devices>(rehal_recorder_wrap, recorder.get(), devices.get());
  auto replaying = static_cast<const rehal_replay_options_t*>(nullptr);
  auto replay = make<Replay>(rehal_replay_create, plan.get(), recorded.get(), replaying);
  size_t first = run(replay);
  check(rehal_recorder_close(recorder.get()));

  auto again = make<Capture>(rehal_capture_open_bytes, rehal_bytes(memory.data(), memory.size()), options);
  auto plan_again = make<Plan>(rehal_plan_create, again.get());
  auto replay_again = make<Replay>(rehal_replay_create, plan_again.get(), devices.get(), replaying);
  std::printf("%zu bytes read, again %zu\n", first, run(replay_again));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "expected CAPTURE.ireereplay\n");
    return 2;
  }
  try {
    record_again(argv[1]);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}

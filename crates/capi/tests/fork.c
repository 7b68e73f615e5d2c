/* A child of fork makes handles of its own: `fork CAPTURE PARENT CHILD [busy|callback]`, with the devices of the
 * parent and of the child. Prints how the child ends: `works`, or `refused` if every function is. */

#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include "expect.h"

static const char* capture_path;
static const char* child_device;

static void replays(const char* device) {
  rehal_capture_t* capture = NULL;
  rehal_plan_t* plan = NULL;
  rehal_devices_t* devices = NULL;
  rehal_replay_t* replay = NULL;
  OK(rehal_capture_open(rehal_string(capture_path), NULL, &capture));
  OK(rehal_plan_create(capture, &plan));
  OK(rehal_devices_open_for_plan(plan, rehal_string(device), &devices));
  OK(rehal_replay_create(plan, devices, NULL, &replay));
  OK(rehal_replay_run(replay, NULL));
  rehal_replay_free(replay);
  rehal_devices_free(devices);
  rehal_plan_free(plan);
  rehal_capture_free(capture);
}

/* Forks, and prints what the child can do. */
static rehal_error_t* forks(rehal_devices_t* parents) {
  fflush(stdout);
  pid_t child = fork();
  EXPECT(child >= 0);
  if (child == 0) {
    alarm(60);
    rehal_capture_t* capture = NULL;
    rehal_error_t* error = rehal_capture_open(rehal_string(capture_path), NULL, &capture);
    if (error) {
      rehal_string_t advice = rehal_error_advice(error);
      EXPECT(strncmp(advice.data, "call execve in the child", 24) == 0);
      FAILS(error, REHAL_STATUS_FAILED_PRECONDITION);
      rehal_devices_t* own = NULL;
      FAILS(rehal_devices_open(NULL, 0, &own), REHAL_STATUS_FAILED_PRECONDITION);
      rehal_devices_free(parents);
      _exit(7);
    }
    rehal_capture_free(capture);
    size_t count = 0;
    FAILS(rehal_devices_count(parents, &count), REHAL_STATUS_FAILED_PRECONDITION);
    rehal_devices_free(parents);
    replays(child_device);
    _exit(0);
  }
  int status = 0;
  EXPECT(waitpid(child, &status, 0) == child);
  EXPECT(WIFEXITED(status) && (WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == 7));
  printf("%s\n", WEXITSTATUS(status) == 0 ? "works" : "refused");
  return NULL;
}

static rehal_semaphore_t* gate;

static void* waits(void* begun) {
  (void)begun;
  OK(rehal_semaphore_wait(gate, 1, REHAL_WAIT_FOREVER));
  return NULL;
}

static rehal_error_t* in_callback(void* user, rehal_string_t name, rehal_string_t description,
                                  rehal_string_t unavailable) {
  (void)description, (void)unavailable;
  return equals(name, "local-sync") ? forks(user) : NULL;
}

int main(int argc, char** argv) {
  EXPECT(argc == 4 || argc == 5);
  capture_path = argv[1];
  child_device = argv[3];
  rehal_string_t uri = rehal_string(argv[2]);
  rehal_devices_t* devices = NULL;
  OK(rehal_devices_open(&uri, 1, &devices));
  if (argc == 4) {
    /* At once: its threads are starting. */
    forks(devices);
    /* And the parent continues. */
    replays(argv[2]);
  } else if (strcmp(argv[4], "busy") == 0) {
    pthread_t thread;
    OK(rehal_semaphore_create(devices, 0, 0, &gate));
    EXPECT(pthread_create(&thread, NULL, waits, NULL) == 0);
    usleep(200000);
    forks(devices);
    OK(rehal_semaphore_signal(gate, 1));
    EXPECT(pthread_join(thread, NULL) == 0);
    rehal_semaphore_free(gate);
    forks(devices);
  } else {
    OK(rehal_drivers_visit(in_callback, devices));
  }
  rehal_devices_free(devices);
  return 0;
}

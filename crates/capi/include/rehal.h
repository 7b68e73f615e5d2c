/*
 * rehal.h: record, replay and run what a program gives to an accelerator.
 *
 * Link with `pkg-config --cflags --libs rehal`. Everything here works in C11 and in C++.
 *
 *
 * Errors
 *
 * A function that can fail returns an error, or NULL for success. An error is an object of the caller, which
 * frees it by `rehal_error_free`. It has a code, a message, its context (where), advice (what to do), and a
 * report, which has all of these. A function that fails sets the handle that it would have made to NULL, and
 * leaves other results unspecified.
 *
 *     rehal_capture_t* capture = NULL;
 *     rehal_error_t* error = rehal_capture_open(rehal_string("model.ireereplay"), NULL, &capture);
 *     if (error) {
 *       rehal_string_t report = rehal_error_report(error);
 *       fprintf(stderr, "%.*s\n", (int)report.size, report.data);
 *       rehal_error_free(error);
 *     }
 *
 *
 * Ownership
 *
 * Handles (pointers to opaque types) are made by functions that take a pointer to a pointer as their last
 * argument, and belong to the caller, who frees each by the function `rehal_..._free` of its type. Handles may
 * be freed in any order: each keeps what it needs. Freeing NULL does nothing.
 *
 * Strings and bytes are a pointer and a length, and are not terminated. Those that are given to a function are
 * read before it returns, unless its comment says otherwise. Those that a function gives belong to the handle
 * that they come from, and are valid until it is freed; those that a callback is given, until it returns.
 *
 * A NULL handle, and a handle of another type, are an error (REHAL_STATUS_INVALID_ARGUMENT). To use a handle
 * after it was freed is undefined. Debug builds of the library (`cargo build --package rehal-capi`) tell: such a
 * use is an error (REHAL_STATUS_FAILED_PRECONDITION), and freeing a handle twice ends the process with a
 * message.
 *
 *
 * Options and results as structs
 *
 * A struct that begins with `size_t size` is given with its size there, and with zeros in all fields that are
 * not needed: zeros are defaults. `{.size = sizeof(options)}` does both. A later library may know more fields;
 * it then takes those of an older program as zeros, and writes no more than the size says. NULL stands for
 * default options.
 *
 *
 * Threads
 *
 * Every handle may be used on any thread, and by several threads at once, except that it must not be freed
 * while another thread uses it. Calls that use one `rehal_call_t` wait for each other. Functions block until
 * they are done; comments say which start work in the background.
 *
 * Callbacks are called on the thread whose call causes them, before this call returns; exceptions say so. A
 * callback returns NULL to continue, or an error of its own (`rehal_error_create`), which ends the call and is
 * what the call returns. A callback must not throw an exception of C++, nor leave by longjmp: that ends the
 * process. It may call functions of this header. If it frees a handle that the call uses, this handle is freed
 * when the call ends, which is an error (REHAL_STATUS_FAILED_PRECONDITION).
 *
 * A panic (a bug of the library) is caught, and becomes an error with REHAL_STATUS_INTERNAL.
 *
 *
 * fork
 *
 * Threads exist only in the process that made them. In a child after fork, every function that is given a
 * handle of the parent fails with REHAL_STATUS_FAILED_PRECONDITION, and freeing it does nothing. The handles of
 * the parent are not affected.
 *
 * A child may make handles of its own if its parent has opened no devices but those of "local-sync", and has
 * made no recorder and no profile, and if no other thread of it was in a call of this library when it forked.
 * Otherwise every function fails there with REHAL_STATUS_FAILED_PRECONDITION, except those of errors, and those
 * that free: the child may call execve, or do without this library.
 *
 *
 * Trust
 *
 * A replay, a program and an executable run native code of their file, with the privileges of the process.
 * Treat captures and modules like programs. A kernel that crashes ends the process in which it runs:
 * `rehal_plan_run` and `rehal_kernel_compare` run it in another one. Opening, planning and listing a capture
 * runs nothing, and is safe for any bytes.
 */
#ifndef REHAL_H_
#define REHAL_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Strings and bytes ------------------------------------------------------------------------------- */

/* Text in UTF-8, or a path in the encoding of the system. `data` may be NULL if `size` is 0. */
typedef struct rehal_string_t {
  const char* data;
  size_t size;
} rehal_string_t;

/* Bytes. `data` may be NULL if `size` is 0. */
typedef struct rehal_bytes_t {
  const uint8_t* data;
  size_t size;
} rehal_bytes_t;

/* A string of C, which it borrows; empty for NULL. */
static inline rehal_string_t rehal_string(const char* text) {
  rehal_string_t string = {text, text ? strlen(text) : 0};
  return string;
}

/* Bytes of any type, which it borrows. */
static inline rehal_bytes_t rehal_bytes(const void* data, size_t size) {
  rehal_bytes_t bytes = {(const uint8_t*)data, size};
  return bytes;
}

/* The version of the library, such as "0.1.0". It is valid forever. */
rehal_string_t rehal_version(void);

/* ---- Errors ------------------------------------------------------------------------------------------ */

typedef struct rehal_error_t rehal_error_t;

/* The codes of errors. Captures store them, too. */
enum {
  REHAL_STATUS_OK = 0,
  REHAL_STATUS_CANCELLED = 1,
  REHAL_STATUS_UNKNOWN = 2,
  REHAL_STATUS_INVALID_ARGUMENT = 3,
  REHAL_STATUS_DEADLINE_EXCEEDED = 4,
  REHAL_STATUS_NOT_FOUND = 5,
  REHAL_STATUS_ALREADY_EXISTS = 6,
  REHAL_STATUS_PERMISSION_DENIED = 7,
  REHAL_STATUS_RESOURCE_EXHAUSTED = 8,
  REHAL_STATUS_FAILED_PRECONDITION = 9,
  REHAL_STATUS_ABORTED = 10,
  REHAL_STATUS_OUT_OF_RANGE = 11,
  REHAL_STATUS_UNIMPLEMENTED = 12,
  REHAL_STATUS_INTERNAL = 13,
  REHAL_STATUS_UNAVAILABLE = 14,
  REHAL_STATUS_DATA_LOSS = 15,
  REHAL_STATUS_UNAUTHENTICATED = 16,
  REHAL_STATUS_DEFERRED = 17,
  REHAL_STATUS_INCOMPATIBLE = 18
};

/* An error of the program, for a callback to return. An unknown code, and OK, become UNKNOWN. Never fails. */
rehal_error_t* rehal_error_create(uint32_t code, rehal_string_t message);

/* The code of an error; REHAL_STATUS_OK for NULL. */
uint32_t rehal_error_code(const rehal_error_t* error);

/* What failed. Empty for NULL, like all texts of errors. */
rehal_string_t rehal_error_message(const rehal_error_t* error);

/* Where it failed, innermost first, such as the record and the file. May be empty. */
rehal_string_t rehal_error_context(const rehal_error_t* error);

/* What to do about it. May be empty. */
rehal_string_t rehal_error_advice(const rehal_error_t* error);

/* Code, message, context and advice, in up to three lines without a last line feed. */
rehal_string_t rehal_error_report(const rehal_error_t* error);

void rehal_error_free(rehal_error_t* error);

/* ---- Captures ---------------------------------------------------------------------------------------- */

/* An open capture. Its file is mapped, and may be deleted or replaced: the capture, its plans and replays keep
 * the file that was opened. It must not be truncated or written. If it is truncated all the same, functions
 * that make a plan or run a replay fail with REHAL_STATUS_DATA_LOSS from then on. One that is reading it at that
 * time, that repeats a scope, or that reads lent bytes ends the process by SIGBUS, as every read of a mapped
 * file does. A program that has to survive this opens the bytes
 * of the file (`rehal_capture_open_bytes`). */
typedef struct rehal_capture_t rehal_capture_t;

typedef struct rehal_capture_options_t {
  size_t size;
  /* Read the complete records of a capture that is truncated, was not closed, or is damaged, instead of
   * refusing it. */
  bool recover;
} rehal_capture_options_t;

/* Opens the capture at `path`, and checks its header. */
rehal_error_t* rehal_capture_open(rehal_string_t path, const rehal_capture_options_t* options,
                                  rehal_capture_t** capture);

/* Opens a capture in memory, which is copied. */
rehal_error_t* rehal_capture_open_bytes(rehal_bytes_t bytes, const rehal_capture_options_t* options,
                                        rehal_capture_t** capture);

void rehal_capture_free(rehal_capture_t* capture);

typedef struct rehal_capture_info_t {
  size_t size;
  uint32_t version_major;
  uint32_t version_minor;
  /* Whether the recorder closed it. */
  bool is_closed;
  /* Whether it ends within a record; only with `recover`. */
  bool is_truncated;
  uint64_t length_bytes;
  uint64_t record_count;
  uint64_t operation_count;
  /* Calls that had failed when they were captured; a replay skips them. */
  uint64_t failed_count;
  /* Calls that could not be captured. */
  uint64_t unsupported_count;
  uint64_t device_count;
  uint64_t submission_count;
  uint64_t dispatch_count;
  /* Numbers of elements for the functions below. */
  size_t scope_count;
  size_t executable_count;
  size_t file_count;
} rehal_capture_info_t;

/* What the capture contains. The first call of this and of the next four functions reads all records. */
rehal_error_t* rehal_capture_info(const rehal_capture_t* capture, rehal_capture_info_t* info);

typedef struct rehal_scope_info_t {
  size_t size;
  /* UTF-8 by convention; not validated. */
  rehal_string_t name;
  /* How often it is entered. */
  uint64_t count;
} rehal_scope_info_t;

/* A scope, by index, in order of first appearance. */
rehal_error_t* rehal_capture_scope(const rehal_capture_t* capture, size_t index, rehal_scope_info_t* info);

typedef struct rehal_executable_info_t {
  size_t size;
  uint64_t id;
  /* Such as "embedded-elf-x86_64". */
  rehal_string_t format;
  uint64_t code_bytes;
  size_t function_count;
} rehal_executable_info_t;

/* An executable, by index, in the order in which they are prepared. */
rehal_error_t* rehal_capture_executable(const rehal_capture_t* capture, size_t index,
                                        rehal_executable_info_t* info);

typedef struct rehal_function_info_t {
  size_t size;
  /* Empty in captures of version 1.0. */
  rehal_string_t name;
  uint32_t constant_count;
  uint32_t binding_count;
  uint64_t dispatch_count;
} rehal_function_info_t;

/* A function of an executable, both by index. */
rehal_error_t* rehal_capture_function(const rehal_capture_t* capture, size_t executable, size_t function,
                                      rehal_function_info_t* info);

/* The code of an executable, by index: bytes of the capture, where they are. */
rehal_error_t* rehal_capture_executable_code(const rehal_capture_t* capture, size_t index, rehal_bytes_t* code);

typedef struct rehal_file_info_t {
  size_t size;
  uint64_t id;
  /* As the program named it. */
  rehal_string_t path;
  uint64_t length_bytes;
  /* How a replay verifies it: "none" (by its length), "identity" or "digest". */
  rehal_string_t validation;
  bool is_written;
} rehal_file_info_t;

/* A file that is not in the capture, by index. */
rehal_error_t* rehal_capture_file(const rehal_capture_t* capture, size_t index, rehal_file_info_t* info);

/* How a capture is printed: REHAL_DUMP_... */
typedef uint32_t rehal_dump_format_t;
/* A summary, then a line for each record. */
#define REHAL_DUMP_TEXT 0
/* A JSON object on each line: the file, the summary, then each record. */
#define REHAL_DUMP_JSONL 1

/* Takes some bytes of what is printed; they end anywhere. An error ends the call, which returns it. */
typedef rehal_error_t* (*rehal_write_t)(void* user, rehal_bytes_t bytes);

/* Prints all records, as `iree-dump-replay` does. The whole capture is checked before anything is printed. */
rehal_error_t* rehal_capture_dump(const rehal_capture_t* capture, rehal_dump_format_t format,
                                  rehal_write_t write, void* user);

/* Records of a capture, in the order of the file. */
typedef struct rehal_records_t rehal_records_t;

/* Which records: those that all of these patterns select, with * and ?. Empty ones select all. */
typedef struct rehal_record_filter_t {
  size_t size;
  /* The type of the record, or its kind. */
  rehal_string_t kind;
  /* The name of a dispatched function, or its ordinal, such as #0. */
  rehal_string_t function;
  /* The name of an open scope. */
  rehal_string_t scope;
} rehal_record_filter_t;

/* The place of a record in its capture. */
typedef struct rehal_record_t {
  uint64_t ordinal;
  /* File offset in bytes. */
  uint64_t offset;
} rehal_record_t;

typedef struct rehal_record_info_t {
  size_t size;
  rehal_record_t record;
  /* With its header. */
  uint64_t size_bytes;
  /* Such as "operation". */
  rehal_string_t record_type;
  /* The operation, such as "device.queue_execute", or the type of the object; "none" for other records. */
  rehal_string_t kind;
  uint64_t thread_id;
  /* Ids are 0 for none. */
  uint64_t device_id;
  /* The object that the call is made on, or that is described. */
  uint64_t object_id;
  /* Another object, such as the one that the call creates. */
  uint64_t related_id;
  /* What the call returned: REHAL_STATUS_... */
  uint32_t status;
  /* The innermost open scope; empty outside of scopes. */
  rehal_string_t scope;
  /* Of a dispatch, or in the table of an execution. */
  uint32_t binding_count;
  /* Whether the rest is set. */
  bool is_dispatch;
  /* False if the count is read from a buffer. */
  bool has_workgroup_count;
  uint64_t executable_id;
  /* The ordinal of the function. */
  uint32_t function;
  /* Empty in captures of version 1.0. */
  rehal_string_t function_name;
  uint32_t workgroup_count[3];
} rehal_record_info_t;

/* The records that a filter selects; all for NULL. They keep the capture. */
rehal_error_t* rehal_records_create(const rehal_capture_t* capture, const rehal_record_filter_t* filter,
                                    rehal_records_t** records);

/* The next record, whose texts belong to `records`. `has_record` is false after the last one, and after an
 * error, such as a damaged record. */
rehal_error_t* rehal_records_next(const rehal_records_t* records, rehal_record_info_t* info, bool* has_record);

void rehal_records_free(rehal_records_t* records);

/* ---- Devices ----------------------------------------------------------------------------------------- */

/* Devices of one program, in its order. */
typedef struct rehal_devices_t rehal_devices_t;

/* Called with each driver. `unavailable` says why it cannot be used here; empty if it can. */
typedef rehal_error_t* (*rehal_driver_visitor_t)(void* user, rehal_string_t name, rehal_string_t description,
                                                 rehal_string_t unavailable);

/* Lists the drivers, including those that this build lacks. */
rehal_error_t* rehal_drivers_visit(rehal_driver_visitor_t visitor, void* user);

/* Opens devices, which start threads, by their URIs: "local-sync", "local-task", "vulkan", "vulkan://1". The
 * default device if there are none. */
rehal_error_t* rehal_devices_open(const rehal_string_t* uris, size_t count, rehal_devices_t** devices);

rehal_error_t* rehal_devices_count(const rehal_devices_t* devices, size_t* count);

/* The name of the driver of a device. */
rehal_error_t* rehal_devices_driver(const rehal_devices_t* devices, size_t index, rehal_string_t* driver);

void rehal_devices_free(rehal_devices_t* devices);

/* ---- Plans and replays ------------------------------------------------------------------------------- */

/* A capture that has passed every check that needs no device. It can be replayed by several threads. */
typedef struct rehal_plan_t rehal_plan_t;

/* Compiles a capture. The error names the record that cannot be reproduced. */
rehal_error_t* rehal_plan_create(const rehal_capture_t* capture, rehal_plan_t** plan);

/* The number of devices that a replay needs. */
rehal_error_t* rehal_plan_device_count(const rehal_plan_t* plan, size_t* count);

/* Opens as many devices of a URI as the plan needs; of the default device if the URI is empty. */
rehal_error_t* rehal_devices_open_for_plan(const rehal_plan_t* plan, rehal_string_t uri,
                                           rehal_devices_t** devices);

void rehal_plan_free(rehal_plan_t* plan);

/* A plan on devices: files are open and validated, substitutes are chosen. */
typedef struct rehal_replay_t rehal_replay_t;

/* When the host waits: REHAL_REPLAY_ORDER_... */
typedef uint32_t rehal_replay_order_t;
/* For each submission before the next operation. */
#define REHAL_REPLAY_ORDER_SERIALIZED 0
/* Only where it must: the captured semaphores order the work. */
#define REHAL_REPLAY_ORDER_CAPTURED 1

/* What writes to external files change: REHAL_FILE_WRITES_... */
typedef uint32_t rehal_file_writes_t;
/* A private copy. */
#define REHAL_FILE_WRITES_COPY 0
/* The file. */
#define REHAL_FILE_WRITES_IN_PLACE 1
/* Nothing: such a capture is refused. */
#define REHAL_FILE_WRITES_FAIL 2

/* Captured paths that begin with `captured` begin with `here` instead; the longest match counts. */
typedef struct rehal_file_remap_t {
  rehal_string_t captured;
  rehal_string_t here;
} rehal_file_remap_t;

/* What runs in place of an executable. */
typedef struct rehal_replacement_t {
  size_t size;
  /* Empty keeps the captured executable. The library copies the bytes when the callback has returned: they
   * must be valid until it is called again, or until `rehal_replay_create` returns. */
  rehal_bytes_t code;
  /* Such as "embedded-elf-x86_64"; empty lets the device infer it from the bytes. */
  rehal_string_t format;
  /* Keep the captured functions that the replacement lacks, which is otherwise an error. */
  bool keep_missing;
  /* Its functions need the workgroups of the captured ones. Code that the compiler of programs made does not say
   * which it needs: without this or a count, it does not run. */
  bool same_workgroups;
  /* The workgroups that its functions need in x, y and z; zeros state none. */
  uint32_t workgroup_count[3];
} rehal_replacement_t;

/* Called for each executable of a capture, with its bytes. `replacement` has its size, and zeros. */
typedef rehal_error_t* (*rehal_substitute_t)(void* user, const rehal_executable_info_t* executable,
                                             rehal_bytes_t code, rehal_replacement_t* replacement);

typedef struct rehal_replay_options_t {
  size_t size;
  rehal_replay_order_t order;
  rehal_file_writes_t file_writes;
  const rehal_file_remap_t* file_remaps;
  size_t file_remap_count;
  /* May be NULL. Called by `rehal_replay_create` only. */
  rehal_substitute_t substitute;
  void* substitute_user;
} rehal_replay_options_t;

/* Prepares a replay. Fails if the number of devices differs from the plan's, or if a file is missing or is not
 * the captured one. */
rehal_error_t* rehal_replay_create(const rehal_plan_t* plan, const rehal_devices_t* devices,
                                   const rehal_replay_options_t* options, rehal_replay_t** replay);

void rehal_replay_free(rehal_replay_t* replay);

/* Bytes that the program read: its view of the results. */
typedef struct rehal_host_read_t {
  size_t size;
  rehal_record_t record;
  /* The innermost open scope; empty outside of scopes. */
  rehal_string_t scope;
  uint64_t buffer_id;
  /* Offset in the buffer, in bytes. */
  uint64_t offset;
  /* The bytes where they are, not a copy. */
  rehal_bytes_t bytes;
} rehal_host_read_t;

/* A dispatch, during a callback. */
typedef struct rehal_dispatch_t rehal_dispatch_t;

typedef struct rehal_dispatch_info_t {
  size_t size;
  rehal_record_t record;
  /* The record of the submission that performs it. */
  rehal_record_t submission;
  /* How often this record has been performed before. */
  uint64_t occurrence;
  rehal_string_t scope;
  /* Index of the device. */
  size_t device;
  /* The id of the captured executable. */
  uint64_t executable_id;
  /* The captured ordinal of the function. */
  uint32_t function;
  rehal_string_t function_name;
  uint32_t workgroup_count[3];
  uint32_t workgroup_size[3];
  /* 32-bit constants, little-endian. */
  rehal_bytes_t constants;
  size_t binding_count;
} rehal_dispatch_info_t;

typedef struct rehal_binding_info_t {
  size_t size;
  /* The id of the buffer in the capture. */
  uint64_t buffer_id;
  uint64_t offset;
  uint64_t length;
} rehal_binding_info_t;

rehal_error_t* rehal_dispatch_info(const rehal_dispatch_t* dispatch, rehal_dispatch_info_t* info);

/* A binding, by ordinal. */
rehal_error_t* rehal_dispatch_binding(const rehal_dispatch_t* dispatch, size_t index,
                                      rehal_binding_info_t* info);

/* Copies bytes of a binding from `offset` on to `target`. */
rehal_error_t* rehal_dispatch_read(const rehal_dispatch_t* dispatch, size_t index, uint64_t offset,
                                   void* target, size_t size);

/* Copies bytes to a binding, such as other inputs before the dispatch. */
rehal_error_t* rehal_dispatch_write(const rehal_dispatch_t* dispatch, size_t index, uint64_t offset,
                                    rehal_bytes_t bytes);

/* A profile of devices that is being written; see "Profiles". */
typedef struct rehal_profiling_t rehal_profiling_t;

typedef rehal_error_t* (*rehal_scope_callback_t)(void* user, rehal_string_t name, rehal_record_t record);
typedef rehal_error_t* (*rehal_host_read_callback_t)(void* user, const rehal_host_read_t* read);
typedef rehal_error_t* (*rehal_dispatch_callback_t)(void* user, const rehal_dispatch_t* dispatch);

/* What a run calls; functions may be NULL. */
typedef struct rehal_observer_t {
  size_t size;
  void* user;
  rehal_scope_callback_t scope_begin;
  /* If it is given, the work of a scope is complete at its end, so that its time can be measured. */
  rehal_scope_callback_t scope_end;
  rehal_host_read_callback_t host_read;
  /* If one of these is given, operations are performed one at a time, in serialized order. No work is in
   * flight during these callbacks. */
  rehal_dispatch_callback_t before_dispatch;
  rehal_dispatch_callback_t after_dispatch;
  /* A profile of the devices, which then names the records of the capture. May be NULL. */
  const rehal_profiling_t* profiling;
} rehal_observer_t;

/* Runs the replay once, and waits for it. `observer` may be NULL. It can be run again, and by several threads
 * at once: each run has objects of its own. The error names the record that failed. */
rehal_error_t* rehal_replay_run(const rehal_replay_t* replay, const rehal_observer_t* observer);

/* A scope of a replay that is repeated without what is outside of it, such as to measure it. Calls that use it
 * at the same time, also from their callbacks, fail with REHAL_STATUS_FAILED_PRECONDITION. */
typedef struct rehal_fast_forward_t rehal_fast_forward_t;

/* Runs the replay from its start to the end of a scope, and prepares to repeat the scope. If it is entered
 * more than once, a repetition is from its first begin to its last end. `observer` may be NULL, and sees this
 * first pass; it cannot have functions for dispatches. Fails if what the scope changes cannot be put back. */
rehal_error_t* rehal_fast_forward_create(const rehal_replay_t* replay, rehal_string_t scope,
                                         const rehal_observer_t* observer,
                                         rehal_fast_forward_t** fast_forward);

/* Puts back what the scope has changed. A repetition without it before fails with
 * REHAL_STATUS_FAILED_PRECONDITION. */
rehal_error_t* rehal_fast_forward_restore(const rehal_fast_forward_t* fast_forward);

/* Runs the scope once, with an observer as above. Fails if the program reads other bytes than in the first
 * pass. After an error, further repetitions fail. */
rehal_error_t* rehal_fast_forward_repeat(const rehal_fast_forward_t* fast_forward,
                                         const rehal_observer_t* observer);

/* Verifies that no repetition changed bytes that are not put back. Afterwards, only freeing it is allowed. */
rehal_error_t* rehal_fast_forward_finish(const rehal_fast_forward_t* fast_forward);

/* Frees it, also without `rehal_fast_forward_finish`. */
void rehal_fast_forward_free(rehal_fast_forward_t* fast_forward);

/* ---- Kernels and slices ------------------------------------------------------------------------------ */

/* The distinct dispatches of a capture. */
typedef struct rehal_kernels_t rehal_kernels_t;

typedef struct rehal_kernel_options_t {
  size_t size;
  /* Only functions whose names match this pattern, with * and ?; empty for all. */
  rehal_string_t function;
  /* Number of replays that are timed; 0 for one. */
  uint64_t repetitions;
} rehal_kernel_options_t;

/* The kernels of a plan, in the order in which they first run. Runs nothing. */
rehal_error_t* rehal_kernels_list(const rehal_plan_t* plan, const rehal_kernel_options_t* options,
                                  rehal_kernels_t** kernels);

/* The kernels of a replay with their times, the longest first. Runs it. */
rehal_error_t* rehal_kernels_measure(const rehal_replay_t* replay, const rehal_kernel_options_t* options,
                                     rehal_kernels_t** kernels);

rehal_error_t* rehal_kernels_count(const rehal_kernels_t* kernels, size_t* count);

typedef struct rehal_kernel_info_t {
  size_t size;
  rehal_string_t name;
  uint64_t executable_id;
  uint32_t function;
  /* False if the count is read from a buffer, and nothing was run. */
  bool has_workgroup_count;
  uint32_t workgroup_count[3];
  uint32_t workgroup_size[3];
  size_t binding_count;
  size_t constant_count;
  /* Number of dispatches. */
  uint64_t count;
  /* The first of them: the ordinal of its record, and its occurrence. */
  uint64_t record;
  uint64_t occurrence;
  bool has_time;
  /* Of all dispatches in nanoseconds: the median of the replays. */
  uint64_t time_ns;
} rehal_kernel_info_t;

rehal_error_t* rehal_kernels_get(const rehal_kernels_t* kernels, size_t index, rehal_kernel_info_t* info);

void rehal_kernels_free(rehal_kernels_t* kernels);

typedef struct rehal_slice_info_t {
  size_t size;
  /* Bytes of buffers in the slice. */
  uint64_t content_bytes;
  /* The record of the dispatch, or of the begin of the scope. */
  uint64_t record;
  uint64_t occurrence;
  /* Host reads of the slice: what the work wrote. */
  size_t read_count;
  /* Whether the work was performed by itself, and wrote the same bytes. */
  bool is_checked;
} rehal_slice_info_t;

/* Writes a capture of one dispatch with what it reads, to a file that must not exist. Runs the replay up to
 * there. `info` may be NULL. */
rehal_error_t* rehal_slice_dispatch(const rehal_replay_t* replay, uint64_t record, uint64_t occurrence,
                                    rehal_string_t path, rehal_slice_info_t* info);

/* Writes a capture of one entry of a scope with what it reads, like `rehal_slice_dispatch`. */
rehal_error_t* rehal_slice_scope(const rehal_replay_t* replay, rehal_string_t name, uint64_t occurrence,
                                 rehal_string_t path, rehal_slice_info_t* info);

/* ---- Comparisons ------------------------------------------------------------------------------------- */

/* What a comparison found. */
typedef struct rehal_report_t rehal_report_t;

/* REHAL_OUTCOME_... */
typedef uint32_t rehal_outcome_t;
/* The same, within the tolerances. */
#define REHAL_OUTCOME_SAME 0
#define REHAL_OUTCOME_DIFFERENT 1
/* It cannot be told; the report says why. */
#define REHAL_OUTCOME_INCONCLUSIVE 2

rehal_error_t* rehal_report_outcome(const rehal_report_t* report, rehal_outcome_t* outcome);

/* All of it, as JSON on a line: the keys of `rehal VERB --format=json` except `header`, and `schema`. It
 * belongs to the report. */
rehal_error_t* rehal_report_json(const rehal_report_t* report, rehal_string_t* json);

void rehal_report_free(rehal_report_t* report);

/* Where captured code runs that this program may not trust: REHAL_ISOLATION_... */
typedef uint32_t rehal_isolation_t;
/* In a process of the program `rehal`, which is found beside this library, in PATH, or by REHAL_BINARY: a
 * kernel that crashes or ends its process is an error with the name of its function, REHAL_STATUS_ABORTED; one
 * that never ends is REHAL_STATUS_DEADLINE_EXCEEDED. */
#define REHAL_ISOLATION_PROCESS 0
/* In this process, which such a kernel ends. */
#define REHAL_ISOLATION_NONE 1

/* NULL stands for the defaults. */
typedef struct rehal_isolation_options_t {
  size_t size;
  rehal_isolation_t isolation;
  /* The path of the program, of the version of this library. Empty: what REHAL_BINARY names in the environment,
   * else `rehal` beside this program or this library, or in `bin` beside its directory, as packages have it,
   * else that of PATH. If it is missing, or of another version, nothing runs: REHAL_STATUS_NOT_FOUND,
   * REHAL_STATUS_INCOMPATIBLE. */
  rehal_string_t program;
  /* The longest time of the process; 0 for no limit. */
  uint64_t max_time_ns;
  /* The longest time of the process without progress, such as that of one kernel; 0 for 60 s, UINT64_MAX for no
   * limit. */
  uint64_t progress_time_ns;
} rehal_isolation_options_t;

typedef struct rehal_run_options_t {
  size_t size;
  /* The URI of the devices, one for each of the capture; empty for the default device. */
  rehal_string_t device;
  /* May be NULL. No callback is called from another process. */
  const rehal_replay_options_t* replay;
  /* The function that is replaced, and its replacement; empty for none. */
  rehal_string_t function;
  const rehal_replacement_t* replacement;
  /* Bytes to tell of each host read; 0 for 64 KiB. Digests are of all of them. */
  size_t bytes_limit;
  /* May be NULL. */
  const rehal_isolation_options_t* isolation;
} rehal_run_options_t;

/* Runs the capture of a plan, which is in a file, once. The report has the host reads and their digests, as
 * `rehal run --format=json` prints them. An observer of `rehal_replay_run` sees live buffers, which no other
 * process does: that one runs in this process. More than 64 MiB of report from another process are
 * REHAL_STATUS_RESOURCE_EXHAUSTED. The file of the capture must not have changed since it was opened:
 * REHAL_STATUS_FAILED_PRECONDITION. */
rehal_error_t* rehal_plan_run(const rehal_plan_t* plan, const rehal_run_options_t* options,
                              rehal_report_t** report);

typedef struct rehal_diff_options_t {
  size_t size;
  /* The type of the elements of inputs and weights, which are then told with their errors; 0 for bytes. */
  uint32_t element_type;
  /* Elements to tell of each difference; 0 for the default. */
  size_t max_elements;
} rehal_diff_options_t;

/* What differs between two captures, as `rehal diff` tells it. Runs nothing. */
rehal_error_t* rehal_capture_diff(const rehal_capture_t* before, const rehal_capture_t* after,
                                  const rehal_diff_options_t* options, rehal_report_t** report);

/* What a replay is compared with: `expected`, or a ledger, or else the results that the capture has. */
typedef struct rehal_verify_options_t {
  size_t size;
  /* Another replay, of other devices, which runs at the same time: of the same plan with other devices or
   * executables, or of another capture of the program. */
  const rehal_replay_t* expected;
  /* The path of a ledger of the capture. */
  rehal_string_t ledger;
  /* How much numbers may differ: "GLOB:TYPE:LIMIT[,LIMIT]", with limits ulp=N, abs=X and rel=X; the last one
   * that matches counts. */
  const rehal_string_t* tolerances;
  size_t tolerance_count;
  /* The types of what functions write: "[GLOB:]TYPE". */
  const rehal_string_t* element_types;
  size_t element_type_count;
  /* Go on after a difference. */
  bool keep_going;
} rehal_verify_options_t;

/* Runs a replay, and compares what each dispatch writes and what the host reads, as `rehal verify` does, which
 * also watches what replacements access. */
rehal_error_t* rehal_replay_verify(const rehal_replay_t* replay, const rehal_verify_options_t* options,
                                   rehal_report_t** report);

typedef struct rehal_compare_options_t {
  size_t size;
  /* The URI of the device; empty for the default device. */
  rehal_string_t device;
  /* As in `rehal_verify_options_t`. */
  const rehal_string_t* tolerances;
  size_t tolerance_count;
  const rehal_string_t* element_types;
  size_t element_type_count;
  /* Timing ends once half the interval of the ratio is at most this fraction of it; 0 for 0.01. */
  double precision;
  /* By which fraction of the captured time a replacement may be slower; 0 for 0.05. */
  double margin;
  /* The longest time of timing; 0 for a minute. */
  uint64_t max_time_ns;
  /* Workgroups may use atomic operations on the same numbers, which are races otherwise. */
  bool allow_atomics;
  /* May be NULL. */
  const rehal_isolation_options_t* isolation;
} rehal_compare_options_t;

/* Whether a replacement of the function of this name computes what the captured one does, which the outcome
 * says, and whether it is faster, as `rehal compare` tells it. The capture of the plan is in a file. After a
 * crash with other inputs than the captured ones, it is compared again with these alone, within what is left of
 * the longest time of the process: `changes_inputs` of the report is false. */
rehal_error_t* rehal_kernel_compare(const rehal_plan_t* plan, rehal_string_t function,
                                    const rehal_replacement_t* replacement,
                                    const rehal_compare_options_t* options, rehal_report_t** report);

/* REHAL_VERDICT_... */
typedef uint32_t rehal_verdict_t;
/* The interval of the ratio ends below 1 / (1 + margin). */
#define REHAL_VERDICT_FASTER 0
/* It ends below 1 plus the margin. */
#define REHAL_VERDICT_NOT_SLOWER 1
/* It begins above 1 plus the margin. */
#define REHAL_VERDICT_SLOWER 2
#define REHAL_VERDICT_CANNOT_TELL 3

typedef struct rehal_judgment_t {
  size_t size;
  /* The median after, as a fraction of that before. */
  double ratio;
  /* Its interval, with 95 %. There is none with fewer than four times of each. */
  bool has_interval;
  double interval_low;
  double interval_high;
  rehal_verdict_t verdict;
} rehal_judgment_t;

/* Judges the times of processes of two versions, each the median of one process, since the memory that a
 * process happens to get may make it slower by some percent: one process of each proves nothing. `comparisons`
 * is how many such judgments a report has, such as one for each function: their intervals are wider, so that
 * all contain their ratios. */
rehal_error_t* rehal_judge_processes(const double* before, size_t before_count, const double* after,
                                     size_t after_count, double margin, size_t comparisons,
                                     rehal_judgment_t* judgment);

/* ---- Recordings -------------------------------------------------------------------------------------- */

/* Records the work of this program. Work that is given to wrapped devices is performed, and recorded. */
typedef struct rehal_recorder_t rehal_recorder_t;

/* How the capture stores files on disk (`rehal_file_open`, and parameters of programs):
 * REHAL_FILE_POLICY_... */
typedef uint32_t rehal_file_policy_t;
/* By their paths. A replay needs the files. */
#define REHAL_FILE_POLICY_REFERENCE 0
/* The bytes that queues read. */
#define REHAL_FILE_POLICY_CAPTURE_RANGES 1
/* As a whole. */
#define REHAL_FILE_POLICY_CAPTURE_ALL 2
/* Not at all: `rehal_file_open` fails. */
#define REHAL_FILE_POLICY_FAIL 3

/* How a replay validates a file that is stored by its path: REHAL_FILE_VALIDATION_... */
typedef uint32_t rehal_file_validation_t;
/* By device, inode and time of change. */
#define REHAL_FILE_VALIDATION_IDENTITY 0
/* By a digest of its contents. */
#define REHAL_FILE_VALIDATION_DIGEST 1

typedef struct rehal_record_options_t {
  size_t size;
  rehal_file_policy_t file_policy;
  rehal_file_validation_t file_validation;
  /* Write all records to the file before each submission, so that the capture of a program that crashes in a
   * kernel has this kernel's submission. */
  bool flush_submissions;
} rehal_record_options_t;

/* Starts a capture at `path`, which is created or truncated, and locked until the capture is closed. A second
 * recorder for the same path, in this process or another, fails with REHAL_STATUS_UNAVAILABLE. */
rehal_error_t* rehal_recorder_create(rehal_string_t path, const rehal_record_options_t* options,
                                     rehal_recorder_t** recorder);

/* Starts a capture in an open file, which must be writable and able to seek, from its current position, which
 * should be 0, without O_APPEND. The descriptor is duplicated: the caller closes its own at any time. */
rehal_error_t* rehal_recorder_create_fd(int32_t descriptor, const rehal_record_options_t* options,
                                        rehal_recorder_t** recorder);

/* Writes `bytes` at `offset`. Offsets grow but for the header, which is written again when the capture is
 * closed. Called on a thread of the recorder, by one thread at a time. An error ends the recording, not the
 * program: closing reports it. */
typedef rehal_error_t* (*rehal_sink_write_t)(void* user, uint64_t offset, rehal_bytes_t bytes);

/* Called once, on any thread, when what it belongs to is no longer used. */
typedef void (*rehal_release_t)(void* user);

/* Where a capture is written to. */
typedef struct rehal_sink_t {
  size_t size;
  void* user;
  rehal_sink_write_t write;
  /* May be NULL. */
  rehal_release_t release;
} rehal_sink_t;

/* Starts a capture in a sink. */
rehal_error_t* rehal_recorder_create_sink(const rehal_sink_t* sink, const rehal_record_options_t* options,
                                          rehal_recorder_t** recorder);

/* Wraps devices: what is done with the wrapped ones is recorded, and what is done with the others is not.
 * Objects of wrapped and other devices do not mix. */
rehal_error_t* rehal_recorder_wrap(const rehal_recorder_t* recorder, const rehal_devices_t* devices,
                                   rehal_devices_t** wrapped);

/* Begins a scope, which names what the program is doing. Scopes may nest, and names may repeat. */
rehal_error_t* rehal_recorder_scope_begin(const rehal_recorder_t* recorder, rehal_string_t name);

rehal_error_t* rehal_recorder_scope_end(const rehal_recorder_t* recorder, rehal_string_t name);

/* Writes what is pending, and seals the capture. Returns the first error of the recording. Later work on
 * wrapped devices is performed, but not recorded. Closing again does nothing. */
rehal_error_t* rehal_recorder_close(const rehal_recorder_t* recorder);

/* Frees it. A capture that is not closed ends with the last of its wrapped devices, and needs `recover`. */
void rehal_recorder_free(rehal_recorder_t* recorder);

/* ---- Work on devices --------------------------------------------------------------------------------- */

/* Memory of a device, which dispatches, transfers and the host can access. */
typedef struct rehal_buffer_t rehal_buffer_t;

/* A number that only grows: work waits until it has reached a value, and signals it. */
typedef struct rehal_semaphore_t rehal_semaphore_t;

/* Compiled kernels, prepared for a device. */
typedef struct rehal_executable_t rehal_executable_t;

/* Allocates memory of the device with this index. Its contents are unspecified. */
rehal_error_t* rehal_buffer_allocate(const rehal_devices_t* devices, size_t index, uint64_t size_bytes,
                                     rehal_buffer_t** buffer);

/* Copies bytes to a buffer. No work in flight may access them. */
rehal_error_t* rehal_buffer_write(const rehal_buffer_t* buffer, uint64_t offset, rehal_bytes_t bytes);

/* Copies bytes from a buffer. No work in flight may write them. */
rehal_error_t* rehal_buffer_read(const rehal_buffer_t* buffer, uint64_t offset, void* data, size_t size);

/* Work in flight keeps the memory until it is done. */
void rehal_buffer_free(rehal_buffer_t* buffer);

/* A timeout in nanoseconds that never ends. */
#define REHAL_WAIT_FOREVER UINT64_MAX

rehal_error_t* rehal_semaphore_create(const rehal_devices_t* devices, size_t index, uint64_t initial_value,
                                      rehal_semaphore_t** semaphore);

/* Its current value. Fails with the error of the work that was to signal it, if that failed. */
rehal_error_t* rehal_semaphore_query(const rehal_semaphore_t* semaphore, uint64_t* value);

/* Signals it by the host. The value must increase. */
rehal_error_t* rehal_semaphore_signal(const rehal_semaphore_t* semaphore, uint64_t value);

/* Waits until it has reached a value. Fails with REHAL_STATUS_DEADLINE_EXCEEDED after the timeout, and with
 * the error of the work that was to signal it. */
rehal_error_t* rehal_semaphore_wait(const rehal_semaphore_t* semaphore, uint64_t value, uint64_t timeout_ns);

void rehal_semaphore_free(rehal_semaphore_t* semaphore);

/* Loads an executable: an ELF image, a shared library, or SPIR-V for Vulkan. An empty format lets the device
 * infer it. This runs the executable's initializers. */
rehal_error_t* rehal_executable_load(const rehal_devices_t* devices, size_t index, rehal_string_t path,
                                     rehal_string_t format, rehal_executable_t** executable);

/* Loads an executable from memory, which is copied. */
rehal_error_t* rehal_executable_load_bytes(const rehal_devices_t* devices, size_t index, rehal_bytes_t bytes,
                                           rehal_string_t format, rehal_executable_t** executable);

/* The ordinal of a function. The error lists the names that exist. */
rehal_error_t* rehal_executable_function(const rehal_executable_t* executable, rehal_string_t name,
                                         uint32_t* function);

void rehal_executable_free(rehal_executable_t* executable);

typedef struct rehal_timepoint_t {
  const rehal_semaphore_t* semaphore;
  uint64_t value;
} rehal_timepoint_t;

/* To which device work is given, and what orders it: it begins when all waits are reached, and reaches the
 * signals when it is done. Nothing else orders work. */
typedef struct rehal_submission_t {
  size_t size;
  const rehal_devices_t* devices;
  size_t device;
  /* A bit for each queue that may perform it; 0 for any. */
  uint64_t queue_affinity;
  const rehal_timepoint_t* waits;
  size_t wait_count;
  const rehal_timepoint_t* signals;
  size_t signal_count;
} rehal_submission_t;

/* The length of a range up to the end of its buffer. */
#define REHAL_WHOLE_BUFFER UINT64_MAX

/* Bytes of a buffer or, in command buffers, of what an execution gives for a slot. */
typedef struct rehal_range_t {
  /* NULL for a slot. */
  const rehal_buffer_t* buffer;
  uint64_t offset;
  uint64_t length;
  /* 0 for a buffer. */
  uint32_t slot;
} rehal_range_t;

/* A range of a buffer. */
static inline rehal_range_t rehal_range(const rehal_buffer_t* buffer, uint64_t offset, uint64_t length) {
  rehal_range_t range = {buffer, offset, length, 0};
  return range;
}

/* A range of a slot. */
static inline rehal_range_t rehal_slot_range(uint32_t slot, uint64_t offset, uint64_t length) {
  rehal_range_t range = {NULL, offset, length, slot};
  return range;
}

/* The functions below start work in the background, unless the device performs it at once. An error means
 * that nothing is signalled by it. What they are given may be freed when they return. */

/* Allocates memory of the device in the order of its work. The buffer may be given to other functions at
 * once, and accessed by work that waits for what the submission signals, and by the host after that. Its
 * contents are unspecified. After an error, *buffer is NULL. */
rehal_error_t* rehal_queue_allocate(const rehal_submission_t* submission, uint64_t size_bytes,
                                    rehal_buffer_t** buffer);

/* Frees the memory of a buffer that a queue has allocated, in the order of its work: work that uses the
 * buffer later fails with REHAL_STATUS_FAILED_PRECONDITION. The handle is freed as any other; without this
 * function, the memory is freed with it. */
rehal_error_t* rehal_queue_deallocate(const rehal_submission_t* submission, const rehal_buffer_t* buffer);

/* Fills a range with a pattern of 1, 2 or 4 bytes. */
rehal_error_t* rehal_queue_fill(const rehal_submission_t* submission, rehal_range_t target,
                                rehal_bytes_t pattern);

/* Writes up to 64 KiB, which are copied now, to a range of this length. */
rehal_error_t* rehal_queue_update(const rehal_submission_t* submission, rehal_range_t target,
                                  rehal_bytes_t bytes);

/* Copies a range to another one of the same length. */
rehal_error_t* rehal_queue_copy(const rehal_submission_t* submission, rehal_range_t source,
                                rehal_range_t target);

/* Only waits and signals. */
rehal_error_t* rehal_queue_barrier(const rehal_submission_t* submission);

typedef struct rehal_launch_t {
  size_t size;
  const rehal_executable_t* executable;
  /* The ordinal of the function. */
  uint32_t function;
  uint32_t workgroup_count[3];
  /* Zeros let the driver choose. */
  uint32_t workgroup_size[3];
  uint32_t dynamic_local_memory;
  const uint32_t* constants;
  size_t constant_count;
  const rehal_range_t* bindings;
  size_t binding_count;
} rehal_launch_t;

/* Dispatches a function, which must have these numbers of constants and bindings. */
rehal_error_t* rehal_queue_dispatch(const rehal_submission_t* submission, const rehal_launch_t* launch);

/* ---- Command buffers --------------------------------------------------------------------------------- */

/* Commands that are recorded once, and executed by queues. They are recorded by one thread at a time. */
typedef struct rehal_command_buffer_t rehal_command_buffer_t;

/* A point between commands, which later commands wait for. */
typedef struct rehal_event_t rehal_event_t;

typedef struct rehal_command_buffer_options_t {
  size_t size;
  /* It is executed at most once. */
  bool is_one_shot;
  /* Its commands may use slots below this number in place of buffers. */
  uint32_t slot_count;
} rehal_command_buffer_options_t;

/* Creates a command buffer of the device with this index, and begins to record it. */
rehal_error_t* rehal_command_buffer_create(const rehal_devices_t* devices, size_t index,
                                           const rehal_command_buffer_options_t* options,
                                           rehal_command_buffer_t** command_buffer);

/* Ends the recording. Before, it cannot be executed; afterwards, it takes no commands. */
rehal_error_t* rehal_command_buffer_end(const rehal_command_buffer_t* command_buffer);

/* Work in flight keeps the commands until it is done. */
void rehal_command_buffer_free(rehal_command_buffer_t* command_buffer);

/* The functions below record a command. Commands may be performed in any order, and at the same time, unless
 * a barrier or an event is between them. A command buffer keeps the objects that its commands use. */

/* Fills a range with a pattern of 1, 2 or 4 bytes. */
rehal_error_t* rehal_command_fill(const rehal_command_buffer_t* command_buffer, rehal_range_t target,
                                  rehal_bytes_t pattern);

/* Writes up to 64 KiB, which are copied now, to a range of this length. */
rehal_error_t* rehal_command_update(const rehal_command_buffer_t* command_buffer, rehal_range_t target,
                                    rehal_bytes_t bytes);

/* Copies a range to another one of the same length. */
rehal_error_t* rehal_command_copy(const rehal_command_buffer_t* command_buffer, rehal_range_t source,
                                  rehal_range_t target);

/* Dispatches a function, which must have these numbers of constants and bindings. */
rehal_error_t* rehal_command_dispatch(const rehal_command_buffer_t* command_buffer,
                                      const rehal_launch_t* launch);

/* Later commands begin when all earlier ones are done, and see what these wrote. */
rehal_error_t* rehal_command_barrier(const rehal_command_buffer_t* command_buffer);

/* Signals an event when all earlier commands are done. */
rehal_error_t* rehal_command_signal_event(const rehal_command_buffer_t* command_buffer,
                                          const rehal_event_t* event);

/* Resets an event when all earlier commands are done, so that it can be signalled again. */
rehal_error_t* rehal_command_reset_event(const rehal_command_buffer_t* command_buffer,
                                         const rehal_event_t* event);

/* Later commands begin when these events are signalled, and see what was written before. The signal of an
 * event precedes the wait in the same command buffer. */
rehal_error_t* rehal_command_wait_events(const rehal_command_buffer_t* command_buffer,
                                         const rehal_event_t* const* events, size_t count);

/* Creates an event of the device with this index. */
rehal_error_t* rehal_event_create(const rehal_devices_t* devices, size_t index, rehal_event_t** event);

void rehal_event_free(rehal_event_t* event);

/* Executes a command buffer. `slots` are the ranges that its commands use by their slots: all below its
 * `slot_count`. */
rehal_error_t* rehal_queue_execute(const rehal_submission_t* submission,
                                   const rehal_command_buffer_t* command_buffer, const rehal_range_t* slots,
                                   size_t slot_count);

/* ---- Files ------------------------------------------------------------------------------------------- */

/* A file on disk, which queues read and write. */
typedef struct rehal_file_t rehal_file_t;

/* Opens a file, which must exist, for the device with this index. A recording stores it by its
 * `file_policy`. */
rehal_error_t* rehal_file_open(const rehal_devices_t* devices, size_t index, rehal_string_t path,
                               bool is_writable, rehal_file_t** file);

/* The number of bytes when it was opened; queues access no others. */
rehal_error_t* rehal_file_length(const rehal_file_t* file, uint64_t* length_bytes);

/* Closes it when no work in flight uses it. */
void rehal_file_free(rehal_file_t* file);

/* Reads bytes of a file to a range. */
rehal_error_t* rehal_queue_read(const rehal_submission_t* submission, const rehal_file_t* file,
                                uint64_t file_offset, rehal_range_t target);

/* Writes a range to a file. */
rehal_error_t* rehal_queue_write(const rehal_submission_t* submission, rehal_range_t source,
                                 const rehal_file_t* file, uint64_t file_offset);

/* ---- Profiles ---------------------------------------------------------------------------------------- */

/* Kinds of data of a profile: bits of REHAL_PROFILE_... A device may report some of them. */
typedef uint32_t rehal_profile_data_t;
/* Submissions to queues. */
#define REHAL_PROFILE_QUEUE_EVENTS 0x1
/* Times of queue operations and dispatches that the host executes. */
#define REHAL_PROFILE_HOST_EXECUTION 0x2
/* Times of queue operations, by the device. */
#define REHAL_PROFILE_DEVICE_QUEUE_EVENTS 0x4
/* Times of dispatches, by the device. */
#define REHAL_PROFILE_DISPATCH_EVENTS 0x8
/* Executables, their functions, and the commands of command buffers. */
#define REHAL_PROFILE_EXECUTABLE_METADATA 0x20
/* Allocations. */
#define REHAL_PROFILE_MEMORY_EVENTS 0x80
/* Times of what executes between two barriers of a command buffer. */
#define REHAL_PROFILE_COMMAND_REGIONS 0x200
/* CPU time of dispatches that the host executes, with their times. */
#define REHAL_PROFILE_PROCESSOR_TIME 0x800

typedef struct rehal_profiling_options_t {
  size_t size;
  /* The profile (.ireeprof), which is created or truncated. `iree-profile` and `rehal profile` read it. */
  rehal_string_t path;
  /* 0 for what statistics need, as far as each device reports it. */
  rehal_profile_data_t data;
} rehal_profiling_options_t;

/* Begins to profile what these devices do. Fails if one of them does not report the data; an existing file is
 * then unchanged. A thread writes to the file, which is readable if the program is killed. */
rehal_error_t* rehal_profiling_begin(const rehal_devices_t* devices, const rehal_profiling_options_t* options,
                                     rehal_profiling_t** profiling);

/* Ends the profile, and returns the first error of writing it. Afterwards, only freeing it is allowed. */
rehal_error_t* rehal_profiling_end(const rehal_profiling_t* profiling);

/* Frees it. A profile that has not ended ends, without an error. */
void rehal_profiling_free(rehal_profiling_t* profiling);

/* ---- Programs ---------------------------------------------------------------------------------------- */

/* A loaded program: compiled modules on devices. */
typedef struct rehal_program_t rehal_program_t;

/* A function of a program. */
typedef struct rehal_function_t rehal_function_t;

/* An input or a result of a function. */
typedef struct rehal_value_t rehal_value_t;

/* A call that has been started. */
typedef struct rehal_call_t rehal_call_t;

/* A parameter file (.irpa, .gguf or .safetensors), and the scope in which programs find its parameters. */
typedef struct rehal_parameters_t {
  rehal_string_t scope;
  rehal_string_t path;
} rehal_parameters_t;

typedef struct rehal_program_options_t {
  size_t size;
  /* Module files (.vmfb), each after those that it imports from. */
  const rehal_string_t* module_paths;
  size_t module_path_count;
  /* A module in memory, after these; copied. Functions are those of the last module. */
  rehal_bytes_t module_bytes;
  /* The devices; the default device if there are none. */
  const rehal_string_t* device_uris;
  size_t device_uri_count;
  const rehal_parameters_t* parameters;
  size_t parameter_count;
  /* Records the program to this file, if it is not empty. */
  rehal_string_t recording_path;
  const rehal_record_options_t* recording_options;
} rehal_program_options_t;

/* Loads a program, and runs the initializers of its modules. */
rehal_error_t* rehal_program_load(const rehal_program_options_t* options, rehal_program_t** program);

/* Ends a program: frees its globals, and closes its capture if it is recorded. While functions or calls of it
 * exist, this fails with REHAL_STATUS_FAILED_PRECONDITION, changes nothing, and may be tried again when they
 * are freed. After any other error, which is the first one of writing the capture, the program has ended all
 * the same, and its capture is not complete. Once it has ended, closing it again fails, and only freeing it is
 * allowed. */
rehal_error_t* rehal_program_close(const rehal_program_t* program);

/* Frees it. A program that is not closed ends with the last of its functions; its capture is not closed. */
void rehal_program_free(rehal_program_t* program);

rehal_error_t* rehal_program_function_count(const rehal_program_t* program, size_t* count);

/* The function with this index. */
rehal_error_t* rehal_program_function_at(const rehal_program_t* program, size_t index,
                                         rehal_function_t** function);

/* The function of this name. The error lists the names that exist. */
rehal_error_t* rehal_program_function(const rehal_program_t* program, rehal_string_t name,
                                      rehal_function_t** function);

typedef struct rehal_callable_info_t {
  size_t size;
  rehal_string_t name;
  /* Its declaration, such as "sync func @abs(%input0: tensor<f32>) -> (%output0: tensor<f32>)". */
  rehal_string_t signature;
  size_t input_count;
  size_t result_count;
  /* Whether its work may be in flight when it returns; calls wait for that. */
  bool is_async;
} rehal_callable_info_t;

rehal_error_t* rehal_function_info(const rehal_function_t* function, rehal_callable_info_t* info);

void rehal_function_free(rehal_function_t* function);

/* ---- Values ------------------------------------------------------------------------------------------ */

/* The type of elements, as IREE encodes it: these, and what `rehal_element_type_parse` gives. */
typedef uint32_t rehal_element_type_t;
#define REHAL_ELEMENT_BOOL8 0x13000008
#define REHAL_ELEMENT_I8 0x10000008
#define REHAL_ELEMENT_I16 0x10000010
#define REHAL_ELEMENT_I32 0x10000020
#define REHAL_ELEMENT_I64 0x10000040
#define REHAL_ELEMENT_F16 0x21000010
#define REHAL_ELEMENT_BF16 0x22000010
#define REHAL_ELEMENT_F32 0x21000020
#define REHAL_ELEMENT_F64 0x21000040

/* The element type of this name, such as "f8E4M3FN" or "si32". */
rehal_error_t* rehal_element_type_parse(rehal_string_t name, rehal_element_type_t* element_type);

rehal_error_t* rehal_value_create_i32(int32_t number, rehal_value_t** value);
rehal_error_t* rehal_value_create_i64(int64_t number, rehal_value_t** value);
rehal_error_t* rehal_value_create_f32(float number, rehal_value_t** value);
rehal_error_t* rehal_value_create_f64(double number, rehal_value_t** value);

/* A dense tensor in row-major order: `bytes` are its elements, which are copied to the program's device. A
 * scalar has rank 0. */
rehal_error_t* rehal_tensor_create(const rehal_program_t* program, rehal_element_type_t element_type,
                                   const uint64_t* shape, size_t rank, rehal_bytes_t bytes,
                                   rehal_value_t** value);

/* A dense tensor over memory of the caller, without a copy. The memory has as many bytes as the tensor. It
 * must stay valid, and must not be written by others, until `release` is called, which may be NULL: then for
 * as long as the program and its values exist. Kernels may write to it, if the program updates its inputs.
 *
 * Fails with REHAL_STATUS_OUT_OF_RANGE or REHAL_STATUS_UNIMPLEMENTED if the device cannot use the memory where
 * it is; CPU devices need an alignment of 64 bytes. `release` is not called if this fails. */
rehal_error_t* rehal_tensor_create_over(const rehal_program_t* program, rehal_element_type_t element_type,
                                        const uint64_t* shape, size_t rank, void* data,
                                        rehal_release_t release, void* user, rehal_value_t** value);

/* What a value is: REHAL_VALUE_... */
typedef uint32_t rehal_value_kind_t;
/* An object without bytes, or null. */
#define REHAL_VALUE_OBJECT 0
#define REHAL_VALUE_I32 1
#define REHAL_VALUE_I64 2
#define REHAL_VALUE_F32 3
#define REHAL_VALUE_F64 4
/* A tensor, or a buffer as a vector of bytes. */
#define REHAL_VALUE_TENSOR 5

typedef struct rehal_value_info_t {
  size_t size;
  rehal_value_kind_t kind;
  rehal_element_type_t element_type;
  size_t rank;
  /* Sizes of the dimensions, outermost first; NULL for rank 0. It belongs to the value. */
  const uint64_t* shape;
  uint64_t byte_count;
} rehal_value_info_t;

rehal_error_t* rehal_value_info(const rehal_value_t* value, rehal_value_info_t* info);

/* The bytes of a number, tensor or buffer: where they are, not a copy. They are valid until the value is
 * unmapped or freed, and unspecified while a call that changes the value is running. */
rehal_error_t* rehal_value_map(const rehal_value_t* value, rehal_bytes_t* bytes);

/* Ends the mapping. Does nothing if there is none. */
rehal_error_t* rehal_value_unmap(const rehal_value_t* value);

/* Frees the handle. The value lives as long as a program or a call uses it. */
void rehal_value_free(rehal_value_t* value);

/* ---- Calls ------------------------------------------------------------------------------------------- */

/* Calls a function and waits for it. Inputs stay the caller's. `results` has places for `result_capacity`
 * handles, and `result_count` is set to the number of results, also if there are too few places, which is
 * REHAL_STATUS_OUT_OF_RANGE before anything runs. If it fails, all places are NULL. Results are in memory that
 * the host can map: they are copied there if need be. */
rehal_error_t* rehal_function_call(const rehal_function_t* function, const rehal_value_t* const* inputs,
                                   size_t input_count, rehal_value_t** results, size_t result_capacity,
                                   size_t* result_count);

/* Starts a call. Devices such as "local-task" perform its work in the background; "local-sync" performs it
 * before this returns. */
rehal_error_t* rehal_function_start(const rehal_function_t* function, const rehal_value_t* const* inputs,
                                    size_t input_count, rehal_call_t** call);

/* Waits until a call is done or the timeout has passed, and says which. The program advances only within this
 * function and the next one: between two submissions it needs them to be called. A call that fails is over. */
rehal_error_t* rehal_call_wait(const rehal_call_t* call, uint64_t timeout_ns, bool* is_done);

/* Waits for a call, and gives its results once, as `rehal_function_call` does. With too few places, the call
 * stays as it is. */
rehal_error_t* rehal_call_results(const rehal_call_t* call, rehal_value_t** results, size_t result_capacity,
                                  size_t* result_count);

/* Frees a call. If it is not done, this cancels it: what the program has not executed is not executed. Work
 * that devices have been given is performed to its end, and keeps its memory until then. */
void rehal_call_free(rehal_call_t* call);

#ifdef __cplusplus
}
#endif

#endif /* REHAL_H_ */

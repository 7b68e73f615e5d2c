// Starts a program on a system that lacks Landlock, and, with the argument `all` before the program, filters of system
// calls: as an older kernel, or a container that forbids them.
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#define NUMBER BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr))
#define UNLESS(first, last, skip) \
  BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, first, 0, (skip) + 1), BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, last, skip, 0)
#define RETURN(value) BPF_STMT(BPF_RET | BPF_K, value)

int main(int count, char **arguments) {
  const int all = strcmp(arguments[1], "all") == 0;
  struct sock_filter filter[] = {
      NUMBER, UNLESS(444, 446, 1),   RETURN(SECCOMP_RET_ERRNO | ENOSYS),
      UNLESS(all ? 317 : 9999, 317, 1), RETURN(SECCOMP_RET_ERRNO | EPERM),
      RETURN(SECCOMP_RET_ALLOW),
  };
  struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) return 99;
  execv(arguments[1 + all], arguments + 1 + all);
  return 98;
}

// Starts a process in its own namespaces without a copy of this process's page tables.
// Go's fork copies them if the new process gets a user namespace. On a server that uses
// 1 GiB, that takes tens of milliseconds for each worker, and then a page fault for each
// page that the server writes.
//
// The child shares this process's memory until it executes the program, and this thread
// waits for that (CLONE_VM and CLONE_VFORK). Therefore the child runs on its own stack,
// calls no function that locks or allocates, and blocks all signals: a signal handler of
// Go must not run in it.
#define _GNU_SOURCE
#include "spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

// The types of the system calls. The C library's functions omit the signals that it uses.
typedef uint64_t sigbits;
struct sigaction_of_kernel {
  uintptr_t handler;
  unsigned long flags;
  uintptr_t restorer;
  sigbits mask;
};

struct child {
  const struct daybook_spawn *start;
  sigbits mask; // of the calling thread
  int error;    // errno of the step that failed, or 0
};

static int write_file(const char *path, const char *text) {
  int fd = open(path, O_WRONLY | O_CLOEXEC);
  if (fd < 0) return -1;
  size_t size = strlen(text);
  ssize_t n = write(fd, text, size);
  int error = errno;
  close(fd);
  errno = error;
  if (n >= 0 && (size_t)n != size) errno = EIO;
  return (size_t)n == size ? 0 : -1;
}

// execve resets signal handlers, but the handlers must not run before it either. Ignored
// signals stay ignored, as after any fork.
static int reset_handlers(void) {
  for (int sig = 1; sig <= 64; sig++) {
    struct sigaction_of_kernel a;
    if (syscall(SYS_rt_sigaction, sig, NULL, &a, sizeof(sigbits)) != 0) return -1;
    if (a.handler == (uintptr_t)SIG_DFL || a.handler == (uintptr_t)SIG_IGN) continue;
    memset(&a, 0, sizeof a);
    if (syscall(SYS_rt_sigaction, sig, &a, NULL, sizeof(sigbits)) != 0) return -1;
  }
  return 0;
}

// All files are duplicated before the first dup2, because the number of one file may be the
// target of another.
static int move_files(const int *files) {
  int from[3];
  for (int i = 0; i < 3; i++) {
    from[i] = fcntl(files[i], F_DUPFD_CLOEXEC, 3);
    if (from[i] < 0) return -1;
  }
  for (int i = 0; i < 3; i++) {
    if (dup2(from[i], i) < 0) return -1;
  }
  return 0;
}

static int run_child(void *arg) {
  struct child *c = arg;
  const struct daybook_spawn *s = c->start;
  static char *const no_environment[] = {NULL};
  if (reset_handlers() == 0 && setpgid(0, 0) == 0 &&
      // The owner of a user namespace may map only its own user. It may map its group only
      // after it has given up changing groups.
      write_file("/proc/self/uid_map", s->uid_map) == 0 && write_file("/proc/self/setgroups", "deny") == 0 &&
      write_file("/proc/self/gid_map", s->gid_map) == 0 && chdir(s->dir) == 0 && move_files(s->files) == 0 &&
      syscall(SYS_rt_sigprocmask, SIG_SETMASK, &c->mask, NULL, sizeof(sigbits)) == 0) {
    execve(s->path, s->argv, no_environment);
  }
  c->error = errno;
  _exit(127);
}

int daybook_spawn(const struct daybook_spawn *s, int namespaces) {
  struct child c = {s, 0, 0};
  sigbits all = ~(sigbits)0;
  char stack[32 << 10] __attribute__((aligned(16)));
  if (syscall(SYS_rt_sigprocmask, SIG_SETMASK, &all, &c.mask, sizeof(sigbits)) != 0) return -errno;
  int pid = clone(run_child, stack + sizeof stack, namespaces | CLONE_VM | CLONE_VFORK | SIGCHLD, &c);
  int error = pid < 0 ? errno : c.error;
  syscall(SYS_rt_sigprocmask, SIG_SETMASK, &c.mask, NULL, sizeof(sigbits));
  if (pid > 0 && error != 0) {
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR) {
    }
  }
  return error != 0 ? -error : pid;
}

// Restricts a worker process before it has a second thread, so that all later threads of Go
// and V8 inherit the restrictions. Landlock, for example, restricts only the calling thread
// and its children. The constructor has priority 101 in order to run before the C++ static
// initializers, one of which starts a thread of V8.
//
// It does nothing unless the process was started as a worker:
//   argv = { "daybook-worker", "daybook-worker/1", "<parent pid>", "<data limit>", NULL }
#include "lockdown.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/prctl.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

static int layers;

int daybook_lockdown_layers(void) { return layers; }

#ifndef SYS_close_range
#define SYS_close_range 436
#endif
#define LANDLOCK_CREATE_RULESET 444
#define LANDLOCK_RESTRICT_SELF 446

// Closes all descriptors except the three pipes, and reports whether no other is open. Only
// this early can that be checked: later, Go and V8 have descriptors of their own.
static int close_files(void) {
  if (syscall(SYS_close_range, 3, ~0u, 0) != 0) return 0;
  for (int fd = 3; fd < 256; fd++) {
    if (fcntl(fd, F_GETFD) != -1 || errno != EBADF) return 0;
  }
  return 1;
}

// A worker of a server that runs as root keeps the user id, but loses the capabilities.
static int drop_capabilities(void) {
  struct __user_cap_header_struct head = {_LINUX_CAPABILITY_VERSION_3, 0};
  struct __user_cap_data_struct none[2] = {{0, 0, 0}, {0, 0, 0}};
  return syscall(SYS_capset, &head, none) == 0;
}

static int set_limit(int resource, rlim_t value) {
  struct rlimit l = {value, value};
  return setrlimit(resource, &l) == 0;
}

// Denies every access that Landlock can restrict, because its ruleset has no rule: to files
// and directories, TCP ports, abstract sockets, and signals to other processes.
static int landlock(void) {
  long abi = syscall(LANDLOCK_CREATE_RULESET, NULL, 0, 1);
  if (abi < 1) return 0;
  struct {
    uint64_t files, network, scopes;
  } handled = {(1u << 13) - 1, 0, 0};
  size_t size = 8;
  if (abi >= 2) handled.files |= 1u << 13;  // REFER
  if (abi >= 3) handled.files |= 1u << 14;  // TRUNCATE
  if (abi >= 5) handled.files |= 1u << 15;  // IOCTL_DEV
  if (abi >= 4) handled.network = 3, size = 16;
  if (abi >= 6) handled.scopes = 3, size = 24;
  int fd = (int)syscall(LANDLOCK_CREATE_RULESET, &handled, size, 0);
  if (fd < 0) return 0;
  int ok = syscall(LANDLOCK_RESTRICT_SELF, fd, 0) == 0;
  close(fd);
  return ok;
}

__attribute__((constructor(101))) static void lock_down(int argc, char **argv, char **envp) {
  (void)envp;
  if (argc != 4 || strcmp(argv[0], "daybook-worker") != 0 || strcmp(argv[1], "daybook-worker/1") != 0) return;

  if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) == 0) layers |= DAYBOOK_LAYER_PDEATHSIG;
  // The parent may have ended before the line above took effect. In a process namespace
  // of its own the worker gets 0 for the parent. If that parent has ended, the worker
  // notices it by the end of its standard input.
  pid_t parent = getppid();
  if (parent != 0 && parent != (pid_t)strtol(argv[2], NULL, 10)) _exit(88);
  if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) == 0) layers |= DAYBOOK_LAYER_UNDUMPABLE;
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0) layers |= DAYBOOK_LAYER_NO_NEW_PRIVS;
  if (close_files()) layers |= DAYBOOK_LAYER_CLOSED_FILES;

  rlim_t data = (rlim_t)strtoull(argv[3], NULL, 10);
  if (set_limit(RLIMIT_CORE, 0) & set_limit(RLIMIT_FSIZE, 0) & set_limit(RLIMIT_NOFILE, DAYBOOK_OPEN_FILES) &
      set_limit(RLIMIT_MEMLOCK, 0) & set_limit(RLIMIT_MSGQUEUE, 0)) {
    layers |= DAYBOOK_LAYER_RLIMITS;
  }
  if (data != 0 && set_limit(RLIMIT_DATA, data)) layers |= DAYBOOK_LAYER_RLIMIT_DATA;
  if (landlock()) layers |= DAYBOOK_LAYER_LANDLOCK;
  // This is last: setting the limits may need capabilities. Without capabilities the
  // worker cannot raise the limits again.
  if (drop_capabilities()) layers |= DAYBOOK_LAYER_NO_CAPABILITIES;
}

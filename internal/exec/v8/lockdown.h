// The layers of the sandbox that the worker's constructor set up, as bits.
#pragma once

#include <stdint.h>

enum {
  DAYBOOK_LAYER_PDEATHSIG = 1 << 0,
  DAYBOOK_LAYER_UNDUMPABLE = 1 << 1,
  DAYBOOK_LAYER_NO_NEW_PRIVS = 1 << 2,
  DAYBOOK_LAYER_CLOSED_FILES = 1 << 3,
  DAYBOOK_LAYER_RLIMITS = 1 << 4,
  DAYBOOK_LAYER_RLIMIT_DATA = 1 << 5,
  DAYBOOK_LAYER_LANDLOCK = 1 << 6,
  DAYBOOK_LAYER_NO_CAPABILITIES = 1 << 7,
};

// The maximum number of file descriptors of a worker: three pipes and those of Go's poller.
enum { DAYBOOK_OPEN_FILES = 16 };

// The address in the system calls with which a worker checks its filter: no process can map
// it. For such a call the handler of SIGSYS returns EPERM.
#define DAYBOOK_PROBE_ADDRESS 0xffff800000000000u
#define DAYBOOK_ARCH_AMD64 0xc000003eu  // AUDIT_ARCH_X86_64

int daybook_lockdown_layers(void);

// Support for the system call filter; see violation.c.
int daybook_report_violations(void);
void daybook_image(uintptr_t *start, uintptr_t *end);

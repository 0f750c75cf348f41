// What the worker's constructor achieved, as bits.
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

// The most descriptors a worker may have: three pipes, and what Go waits with.
enum { DAYBOOK_OPEN_FILES = 16 };

// Where the calls lie that prove that no memory becomes executable: beyond what any
// process can map. The handler of SIGSYS answers them with EPERM.
#define DAYBOOK_PROBE_ADDRESS 0xffff800000000000u
#define DAYBOOK_ARCH_AMD64 0xc000003eu  // AUDIT_ARCH_X86_64

int daybook_lockdown_layers(void);

// What the filter of system calls needs of the C side; see violation.c.
int daybook_report_violations(void);
void daybook_image(uintptr_t *start, uintptr_t *end);

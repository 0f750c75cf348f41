// Reports a system call that the filter refused, before the process ends because of it.
//
// The filter sends SIGSYS for a call that no worker makes. If the kernel killed the process
// at once, its parent would see only the signal and not the number of the call. Therefore
// the handler writes the number to standard error, and then makes the one call for which
// the filter kills the process. The parent decides by the signal alone; the number is only
// shown, because the process could have written that line itself.
#define _GNU_SOURCE  // REG_RDI and the like
#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include "lockdown.h"

// System calls do not use the C library here: hostile code may have changed its data.
static long call4(long number, long a, long b, long c, long d) {
  register long r10 __asm__("r10") = d;
  long result;
  __asm__ volatile("syscall"
                   : "=a"(result)
                   : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10)
                   : "rcx", "r11", "memory");
  return result;
}

enum { kSeccomp = 1 };  // SYS_SECCOMP

static char *decimal(char *to, uint32_t n) {
  char digits[10];
  int count = 0;
  do {
    digits[count++] = (char)('0' + n % 10);
    n /= 10;
  } while (n != 0);
  while (count > 0) *to++ = digits[--count];
  return to;
}

// Reports whether the call is one with which package sandbox checks the filter right after
// it installs it. These calls request executable memory at an address that no process can
// map. They have no effect, whether package sandbox or other code makes them.
static int is_probe(const siginfo_t *info, const greg_t *registers) {
  if (info->si_code != kSeccomp || info->si_arch != DAYBOOK_ARCH_AMD64) return 0;
  if ((uint64_t)registers[REG_RDI] != DAYBOOK_PROBE_ADDRESS) return 0;
  switch (info->si_syscall) {
    case SYS_mprotect:
    case SYS_pkey_mprotect:
      return 1;
    case SYS_mmap:
      return registers[REG_RSI] == 0;
    default:
      return 0;
  }
}

static void on_violation(int signal, siginfo_t *info, void *context) {
  (void)signal;
  greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
  if (is_probe(info, registers)) {
    registers[REG_RAX] = -EPERM;
    return;
  }
  static const char head[] = "daybook-sandbox: refused ";
  char line[64], *p = line;
  for (size_t i = 0; i + 1 < sizeof head; i++) *p++ = head[i];
  p = decimal(p, (uint32_t)info->si_syscall);
  *p++ = ' ';
  p = decimal(p, info->si_arch);
  *p++ = '\n';
  // A SIGSYS that does not come from the filter also ends the process, but names no call.
  if (info->si_code == kSeccomp) call4(SYS_write, 2, (long)line, p - line, 0);
  // The filter kills the process for a change of this handler.
  for (;;) call4(SYS_rt_sigaction, SIGSYS, 0, 0, 8);
}

int daybook_report_violations(void) {
  struct sigaction action = {0};
  action.sa_sigaction = on_violation;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigfillset(&action.sa_mask);
  return sigaction(SIGSYS, &action, NULL);
}

extern char __executable_start[], end[];

void daybook_image(uintptr_t *start, uintptr_t *stop) {
  *start = (uintptr_t)__executable_start;
  *stop = (uintptr_t)end;
}

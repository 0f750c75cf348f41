//go:build !linux

// There is nothing to lock down with, and nothing is claimed.
#include "lockdown.h"

int daybook_lockdown_layers(void) { return 0; }
int daybook_report_violations(void) { return -1; }
void daybook_image(uintptr_t *start, uintptr_t *stop) { *start = *stop = 0; }

// Package cmemory gives back memory of the C library, which SQLite allocates from.
package cmemory

/*
#include <stdlib.h>
#ifdef __GLIBC__
#include <malloc.h>
static void give_back(void) { malloc_trim(0); }
#else
static void give_back(void) {}
#endif
*/
import "C"

// GiveBack returns the memory that is free to the operating system. The GNU C library
// keeps what was freed for its next allocation; with another C library GiveBack does
// nothing.
func GiveBack() { C.give_back() }

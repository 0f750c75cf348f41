// Package cmemory returns free memory of the C library, which SQLite uses, to the
// operating system. cmemory.go is its only file.
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

// GiveBack returns the free memory of the C library to the operating system. The GNU C
// library keeps freed memory for later allocations. With another C library GiveBack
// does nothing. It is safe for concurrent use.
func GiveBack() { C.give_back() }

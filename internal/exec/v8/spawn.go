package v8

/*
#include <stdlib.h>
#include "spawn.h"
*/
import "C"

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"syscall"
	"unsafe"
)

// Isolated describes a program to start in namespaces of its own. The process leads a process
// group and has no environment.
type Isolated struct {
	Path       string
	Args       []string // the first one is the name of the program
	Dir        string
	Files      [3]*os.File // standard input, output and error
	Namespaces uintptr     // CLONE_NEW flags of clone; CLONE_NEWUSER is required
	// UserID and GroupID are the ids that the user and the group of this process have in
	// the new process.
	UserID, GroupID int
}

// Start starts the program and returns its process. The caller MUST wait for the process. Start
// works like os.StartProcess for a process with a user namespace, but does not copy the page
// tables of this process. If the new process asks for a signal at the death of its parent, Start
// must be called from a thread that exists for as long as the new process may run.
//
// The new process itself maps its user and its group. Some systems permit only the parent to map
// them, so os.StartProcess may succeed after an error of Start.
func (i Isolated) Start() (*os.Process, error) {
	for _, s := range append([]string{i.Path, i.Dir}, i.Args...) {
		if strings.IndexByte(s, 0) >= 0 {
			return nil, fmt.Errorf("start %.100q in namespaces: an argument contains a NUL byte", i.Path)
		}
	}
	var owned []unsafe.Pointer
	defer func() {
		for _, p := range owned {
			C.free(p)
		}
	}()
	text := func(s string) *C.char {
		p := C.CString(s)
		owned = append(owned, unsafe.Pointer(p))
		return p
	}
	list := C.calloc(C.size_t(len(i.Args)+1), C.size_t(unsafe.Sizeof(uintptr(0))))
	owned = append(owned, list)
	for n, a := range i.Args {
		unsafe.Slice((**C.char)(list), len(i.Args))[n] = text(a)
	}
	s := (*C.struct_daybook_spawn)(C.calloc(1, C.sizeof_struct_daybook_spawn))
	owned = append(owned, unsafe.Pointer(s))
	s.path, s.dir, s.argv = text(i.Path), text(i.Dir), (**C.char)(list)
	s.uid_map = text(fmt.Sprintf("%d %d 1\n", i.UserID, os.Geteuid()))
	s.gid_map = text(fmt.Sprintf("%d %d 1\n", i.GroupID, os.Getegid()))
	for n, f := range i.Files {
		s.files[n] = C.int(f.Fd())
	}
	pid := C.daybook_spawn(s, C.int(i.Namespaces))
	runtime.KeepAlive(i.Files) // the files must not be closed while their numbers are in use
	if pid < 0 {
		return nil, fmt.Errorf("start %s in namespaces: %w", i.Path, syscall.Errno(-pid))
	}
	return os.FindProcess(int(pid))
}

package sandbox

// Filter is what the filter of system calls depends on.
type Filter struct {
	// ProcessID is the number the process has for itself.
	ProcessID int
	// ImageStart and ImageEnd enclose the program's code and data, which may not
	// be remapped: the handler that reports violations is in there.
	ImageStart, ImageEnd uintptr
	// ExecutableMemory permits making memory executable. WebAssembly needs it;
	// the rest of V8 has all it needs once it is warm.
	ExecutableMemory bool
	// ProbeAddress is where Prove asks for executable memory: no process can map it,
	// and the handler of SIGSYS answers EPERM for calls there. 0 leaves
	// NoExecutableMemory unproven.
	ProbeAddress uintptr
}

// Claims are what a worker was set up with.
type Claims struct {
	// Layers were set, as far as the one who set them knows.
	Layers []string
	// DataLimit is RLIMIT_DATA, in bytes; OpenFiles is RLIMIT_NOFILE.
	DataLimit, OpenFiles uint64
}

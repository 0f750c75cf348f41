package gomemory

import "runtime/metrics"

// AllocatedBytes returns the total bytes allocated since the start.
func AllocatedBytes() uint64 { return counter("/gc/heap/allocs:bytes") }

// LiveBytes returns the memory that the last collection found in use.
func LiveBytes() int64 { return int64(counter("/gc/heap/live:bytes")) }

// ScannedBytes returns the memory of the Go runtime that the collector has to read: all
// but objects without pointers.
func ScannedBytes() int64 { return int64(counter("/gc/scan/heap:bytes")) }

// UnusedBytes returns the memory of the process beyond LiveBytes.
func UnusedBytes() int64 { return mappedBytes() - LiveBytes() }

// OverheadBytes returns the memory of the Go runtime besides objects and free pages:
// stacks, its own data, and free memory between objects.
func OverheadBytes() int64 {
	return mappedBytes() - int64(counter("/memory/classes/heap/objects:bytes")+counter("/memory/classes/heap/free:bytes"))
}

// mappedBytes returns the memory that counts against the limit.
func mappedBytes() int64 {
	return int64(counter("/memory/classes/total:bytes") - counter("/memory/classes/heap/released:bytes"))
}

// Collections returns the number of completed collections.
func Collections() uint64 { return counter("/gc/cycles/total:gc-cycles") }

func counter(name string) uint64 {
	sample := []metrics.Sample{{Name: name}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}

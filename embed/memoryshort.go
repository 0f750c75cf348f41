package embed

import (
	"bytes"
	"math"
	"os"
	"path"
	"strconv"
)

// leastAvailable is the memory that the machine must have left for heaps to be restored ahead of
// their runs, in bytes.
const leastAvailable = 256 << 20

// isMemoryShort reports whether runs wait for memory, or little is left on the machine or in the
// control group of the server.
func (d *Daybook) isMemoryShort() bool {
	return d.budget.Stats().RunsWaiting > 0 || availableMemory(os.ReadFile) < leastAvailable
}

// availableMemory returns how much memory the processes of the server can still take, in bytes. It
// is as large as possible if the system does not say.
func availableMemory(readFile func(string) ([]byte, error)) int64 {
	available := int64(math.MaxInt64)
	if text, err := readFile("/proc/meminfo"); err == nil {
		for line := range bytes.Lines(text) {
			if rest, ok := bytes.CutPrefix(line, []byte("MemAvailable:")); ok {
				if kib, ok := number(bytes.TrimSuffix(bytes.TrimSpace(rest), []byte(" kB"))); ok {
					available = kib << 10
				}
			}
		}
	}
	for _, group := range controlGroups(readFile) {
		available = min(available, availableInGroup(readFile, group))
	}
	return available
}

// controlGroups returns the directories of the control group of this process and of the groups
// around it, of version 2. Each of them may have a limit.
func controlGroups(readFile func(string) ([]byte, error)) []string {
	const mount = "/sys/fs/cgroup"
	groups := []string{mount} // in a container, the group itself
	text, err := readFile("/proc/self/cgroup")
	if err != nil {
		return groups
	}
	for line := range bytes.Lines(text) {
		name, ok := bytes.CutPrefix(bytes.TrimSuffix(line, []byte("\n")), []byte("0::/"))
		if !ok {
			continue
		}
		for group := path.Join("/", string(name)); group != "/"; group = path.Dir(group) {
			groups = append(groups, mount+group)
		}
	}
	return groups
}

// availableInGroup returns how much memory a control group can still take, in bytes.
func availableInGroup(readFile func(string) ([]byte, error), group string) int64 {
	limit, err := readFile(group + "/memory.max")
	if err != nil {
		return math.MaxInt64
	}
	used, err := readFile(group + "/memory.current")
	if err != nil {
		return math.MaxInt64
	}
	most, limited := number(limit) // "max" is no number
	now, ok := number(used)
	if !limited || !ok {
		return math.MaxInt64
	}
	// Unused pages of files count as used, and the kernel takes them back first.
	if text, err := readFile(group + "/memory.stat"); err == nil {
		for line := range bytes.Lines(text) {
			if rest, ok := bytes.CutPrefix(line, []byte("inactive_file ")); ok {
				if n, ok := number(rest); ok {
					now -= n
				}
			}
		}
	}
	return most - now
}

func number(text []byte) (int64, bool) {
	n, err := strconv.ParseInt(string(bytes.TrimSpace(text)), 10, 64)
	return n, err == nil
}

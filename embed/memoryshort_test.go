package embed

import (
	"math"
	"os"
	"testing"
)

func TestAvailableMemory(t *testing.T) {
	t.Parallel()
	const machine = "MemTotal:       24000000 kB\nMemFree:         1000000 kB\nMemAvailable:    2000000 kB\n"
	for _, test := range []struct {
		name  string
		files map[string]string
		want  int64
	}{
		{"nothing is known", nil, math.MaxInt64},
		{"a machine", map[string]string{"/proc/meminfo": machine}, 2000000 << 10},
		{"a group without a limit", map[string]string{"/proc/meminfo": machine, "/sys/fs/cgroup/memory.max": "max\n", "/sys/fs/cgroup/memory.current": "5\n"}, 2000000 << 10},
		{"a group", map[string]string{"/proc/meminfo": machine, "/sys/fs/cgroup/memory.max": "1000\n", "/sys/fs/cgroup/memory.current": "900\n"}, 100},
		{"a group with pages of files", map[string]string{"/sys/fs/cgroup/memory.max": "1000\n", "/sys/fs/cgroup/memory.current": "900\n", "/sys/fs/cgroup/memory.stat": "anon 1\ninactive_file 300\n"}, 400},
		{"a large group", map[string]string{"/proc/meminfo": machine, "/sys/fs/cgroup/memory.max": "99999999999\n", "/sys/fs/cgroup/memory.current": "900\n"}, 2000000 << 10},
		{"a service of systemd", map[string]string{"/proc/meminfo": machine, "/proc/self/cgroup": "0::/system.slice/daybook.service\n", "/sys/fs/cgroup/system.slice/daybook.service/memory.max": "1000\n", "/sys/fs/cgroup/system.slice/daybook.service/memory.current": "900\n", "/sys/fs/cgroup/system.slice/daybook.service/memory.stat": "inactive_file 50\n"}, 150},
		{"a group in a limited one", map[string]string{"/proc/self/cgroup": "1:cpu:/x\n0::/a/b\n", "/sys/fs/cgroup/a/b/memory.max": "max\n", "/sys/fs/cgroup/a/b/memory.current": "1\n", "/sys/fs/cgroup/a/memory.max": "70\n", "/sys/fs/cgroup/a/memory.current": "40\n"}, 30},
		{"a group outside of the container", map[string]string{"/proc/self/cgroup": "0::/../b\n", "/sys/fs/cgroup/memory.max": "9\n", "/sys/fs/cgroup/memory.current": "4\n"}, 5},
		{"a malformed size", map[string]string{"/proc/meminfo": "MemAvailable: many kB\n"}, math.MaxInt64},
	} {
		got := availableMemory(func(name string) ([]byte, error) {
			if text, ok := test.files[name]; ok {
				return []byte(text), nil
			}
			return nil, os.ErrNotExist
		})
		if got != test.want {
			t.Errorf("%s: %d bytes, want %d", test.name, got, test.want)
		}
	}
}

package worker

import "testing"

func TestBuildOf(t *testing.T) {
	t.Parallel()
	if id := buildOf(executable()); len(id) != 16 {
		t.Errorf("the build of this program is %q", id)
	}
	for _, program := range []string{"/bin/sh", "build.go", "missing"} {
		if id := buildOf(program); id != "" {
			t.Errorf("the build of %s is %q", program, id)
		}
	}
}

package gobench

import "testing"

func TestParseBench(t *testing.T) {
	t.Parallel()
	all := parseBench("goos: linux\nBenchmarkTypeScript/erased-2 \t 20\t 0 ns/op\t 11.5 javascript-ms\t 1.1 of-floor\nBenchmarkPlain \t 1\t 7 ns/op\nPASS\n")
	f, err := Figures(all, "TypeScript/erased", "of-floor", "javascript-ms")
	if err != nil || f[0] != 1.1 || f[1] != 11.5 || all["Plain"]["ns/op"] != 7 {
		t.Errorf("%v, %v in %v", f, err, all)
	}
	if _, err := Figures(all, "Plain", "of-floor"); err == nil {
		t.Error("a missing figure gives no error")
	}
}

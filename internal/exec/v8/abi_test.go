package v8_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// TestABI compares v8abi.h with the headers of the linked library. Run it after each change of V8's
// version: a wrong layout corrupts memory without an error.
func TestABI(t *testing.T) {
	compiler, err := exec.LookPath("g++")
	if err != nil {
		t.Skip("g++ is missing, and with it the only way to read V8's headers")
	}
	const module = "github.com/tommie/v8go"
	if out, err := exec.Command("go", "mod", "download", module).CombinedOutput(); err != nil {
		t.Fatalf("go mod download %s: %v\n%s", module, err, out)
	}
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", module).CombinedOutput()
	if err != nil {
		t.Fatalf("find the headers of %s: %v\n%s", module, err, out)
	}
	include := strings.TrimSpace(string(out)) + "/deps/include"
	if _, err := os.Stat(include + "/v8.h"); err != nil {
		t.Fatalf("the headers are not where they should be: %v", err)
	}
	check := exec.Command(compiler, "-std=c++20", "-fno-rtti", "-fsyntax-only", "-w",
		"-DV8_COMPRESS_POINTERS", "-DV8_31BIT_SMIS_ON_64BIT_ARCH", "-DV8_ENABLE_SANDBOX",
		"-I"+include, "testdata/abi_check.cc")
	if out, err := check.CombinedOutput(); err != nil {
		t.Fatalf("v8abi.h does not match V8: %v\n%s", err, out)
	}
}

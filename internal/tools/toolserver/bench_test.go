package toolserver_test

import (
	"context"
	"os"
	"os/exec"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"daybook/internal/tools/toolserver"
)

// BenchmarkCall compares a call of a stdio server by a Set with a call by the MCP
// library alone.
func BenchmarkCall(b *testing.B) {
	exe, err := os.Executable()
	if err != nil {
		b.Fatal(err)
	}
	b.Run("raw", func(b *testing.B) {
		cmd := exec.Command(exe)
		cmd.Env = append(os.Environ(), serverMode+"=normal")
		session, err := sdk.NewClient(&sdk.Implementation{Name: "bench", Version: "1"}, nil).Connect(context.Background(), &sdk.CommandTransport{Command: cmd}, nil)
		if err != nil {
			b.Fatal(err)
		}
		defer session.Close()
		for b.Loop() {
			if _, err := session.CallTool(b.Context(), &sdk.CallToolParams{Name: "echo", Arguments: map[string]any{"text": "x"}}); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("set", func(b *testing.B) {
		set, err := toolserver.New([]toolserver.Config{{Name: "bench", Command: exe, Env: map[string]string{serverMode: "normal"}}}, toolserver.Options{})
		if err != nil {
			b.Fatal(err)
		}
		defer set.Close()
		for b.Loop() {
			if r := set.Call(b.Context(), "default", "bench", "echo", []byte(`{"text":"x"}`)); r.Outcome != toolserver.OK {
				b.Fatalf("%s %s", r.Outcome, r.Text)
			}
		}
	})
}

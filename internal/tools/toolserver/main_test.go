package toolserver_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/goleak"

	"daybook/internal/tools/toolserver"
)

// serverMode is the environment variable that turns this test binary into an MCP server
// over stdio.
const serverMode = "TOOLSERVER_TEST_MODE"

func TestMain(m *testing.M) {
	if mode := os.Getenv(serverMode); mode != "" {
		serveStdio(mode)
		return
	}
	goleak.VerifyTestMain(m)
}

func serveStdio(mode string) {
	switch mode {
	case "silent":
		_, _ = io.Copy(io.Discard, os.Stdin)
	case "stubborn": // does not exit when its input is closed
		select {}
	case "garbage":
		fmt.Print(strings.Repeat("\x00not json "+os.Getenv("API_KEY")+"\n", 65))
		_, _ = io.Copy(io.Discard, os.Stdin)
	case "endless line":
		for {
			if _, err := os.Stdout.WriteString(strings.Repeat("[", 1<<20)); err != nil {
				return
			}
		}
	case "banner":
		fmt.Printf("Server 1.0 for %s\n[INFO] listening\n[1] ready {\n\"text\"\n{\"level\":30,\"msg\":\"log of it\"}\n\n", os.Getenv("API_KEY"))
		for _, line := range []string{
			`{"jsonrpc":"2.0"}`, `[]`, ` [ ] `, `{"jsonrpc":"2.0","id":"zz","error":5}`, `{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"a parse error"}}`, `{"id":"log line"}`,
		} {
			fmt.Println(line)
		}
		serveOdd(os.Stdin, os.Stdout)
	case "ignores discover":
		serveOdd(withoutDiscover(os.Stdin, os.Stdout), os.Stdout)
	case "starts slowly":
		time.Sleep(slowStart)
		_ = newTestServer().Run(context.Background(), &sdk.IOTransport{Reader: withoutInitialize(os.Stdin, os.Stdout), Writer: os.Stdout})
	case "odd":
		serveOdd(os.Stdin, os.Stdout)
	case "dies at once":
		fmt.Fprintln(os.Stderr, "cannot start with", os.Getenv("API_KEY"))
		os.Exit(3)
	default:
		for range 5 {
			fmt.Fprintln(os.Stderr, "started with", os.Getenv("API_KEY"))
		}
		_ = newTestServer().Run(context.Background(), &sdk.StdioTransport{})
	}
}

type echoInput struct {
	Text string `json:"text,omitempty" jsonschema:"what to say"`
}

type sum struct {
	Total float64 `json:"total"`
}

// newTestServer returns a server with a tool for each behavior of tools.
func newTestServer() *sdk.Server {
	s := sdk.NewServer(&sdk.Implementation{Name: "test", Version: "1"}, nil)
	sdk.AddTool(s, &sdk.Tool{Name: "echo", Description: "Says it again. */ alert(1)"}, func(_ context.Context, _ *sdk.CallToolRequest, in echoInput) (*sdk.CallToolResult, any, error) {
		return text(in.Text), nil, nil
	})
	sdk.AddTool(s, &sdk.Tool{Name: "add", Description: "Adds numbers."}, func(_ context.Context, _ *sdk.CallToolRequest, in struct {
		Numbers []float64 `json:"numbers"`
	}) (*sdk.CallToolResult, sum, error) {
		var out sum
		for _, n := range in.Numbers {
			out.Total += n
		}
		return nil, out, nil
	})
	raw := func(name string, call sdk.ToolHandler) {
		s.AddTool(&sdk.Tool{Name: name, InputSchema: json.RawMessage(`{"type":"object"}`)}, call)
	}
	raw("fail", func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		r := text("it failed with " + os.Getenv("API_KEY"))
		r.IsError = true
		return r, nil
	})
	raw("break", func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		return nil, fmt.Errorf("broken with %s", os.Getenv("API_KEY"))
	})
	raw("image", func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.ImageContent{MIMEType: "image/png", Data: []byte("png")}}}, nil
	})
	raw("nothing", func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		return &sdk.CallToolResult{}, nil
	})
	raw("huge", func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		return text(strings.Repeat("x", 6<<20)), nil
	})
	raw("enormous", func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		return text(strings.Repeat("x", 17<<20)), nil
	})
	raw("lists", func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		return &sdk.CallToolResult{StructuredContent: json.RawMessage(`{"z":[[]` + strings.Repeat(",[]", 300<<10) + `],"a":1.0}`)}, nil
	})
	raw("longkey", func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		return &sdk.CallToolResult{StructuredContent: map[string]any{strings.Repeat("k", 70<<10): 1}}, nil
	})
	raw("wait", func(ctx context.Context, _ *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	})
	raw("environment", func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		return text(strings.Join(os.Environ(), "\n")), nil
	})
	raw("die", func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		os.Exit(4)
		return nil, nil
	})
	for _, name := range []string{"odd name", "__proto__", "constructor", "then", "bell\a", strings.Repeat("long", 40)} {
		// The library refuses some names; other tests cover those.
		func() {
			defer func() { _ = recover() }()
			raw(name, func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) { return text(name), nil })
		}()
	}
	return s
}

func text(s string) *sdk.CallToolResult {
	return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: s}}}
}

// child is the configuration of this binary as a stdio server.
func child(t *testing.T, name, mode string) toolserver.Config {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return toolserver.Config{Name: name, Command: exe, Env: map[string]string{serverMode: mode, "API_KEY": secret}}
}

const secret = "s3cr3t-value-17"

// remote is a test server over HTTP that requires a header.
func remote(t *testing.T, name string, transport toolserver.Transport) toolserver.Config {
	t.Helper()
	one := func(*http.Request) *sdk.Server { return newTestServer() }
	var handler http.Handler = sdk.NewStreamableHTTPHandler(one, nil)
	if transport == toolserver.SSE {
		handler = sdk.NewSSEHandler(one, nil)
	}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Api-Key") != secret {
			http.Error(w, "the key is wrong: "+r.Header.Get("X-Api-Key"), http.StatusUnauthorized)
			return
		}
		handler.ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		srv.CloseClientConnections()
		srv.Close()
	})
	return toolserver.Config{Name: name, Transport: transport, URL: srv.URL + "/mcp", Headers: map[string]string{"X-Api-Key": secret}}
}

// newSet returns a set that is closed at the end of the test, before the servers.
func newSet(t *testing.T, opts toolserver.Options, configs ...toolserver.Config) *toolserver.Set {
	t.Helper()
	if opts.ListWait == 0 {
		opts.ListWait = time.Minute
	}
	s, err := toolserver.New(configs, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

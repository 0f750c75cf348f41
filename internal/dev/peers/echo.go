package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"daybook/internal/dev/process"
)

// startEverything starts the reference server of MCP.
func startEverything(ctx context.Context, modules, dir string) (*process.Server, error) {
	addr, err := process.FreeAddr()
	if err != nil {
		return nil, err
	}
	_, port, _ := strings.Cut(addr, ":")
	return process.Start(ctx, process.Config{Name: "everything", Dir: dir, URL: "http://" + addr, Ready: "/mcp", Env: []string{"PORT=" + port},
		Command: []string{nodeIn(modules), filepath.Join(modules, "@modelcontextprotocol/server-everything/dist/index.js"), "streamableHttp"}})
}

// echo is the call of the tool echo, and what its answer contains.
func echo(n int) (*sdk.CallToolParams, string) {
	text := fmt.Sprintf("answer %d", n)
	return &sdk.CallToolParams{Name: "echo", Arguments: map[string]any{"message": text}}, text
}

// toolClients are clients of an MCP server, each with a session of its own.
type toolClients struct {
	sessions []*sdk.ClientSession
	tool     func(n int) (*sdk.CallToolParams, string)
}

// newToolClients connects a number of clients. The caller MUST call close.
func newToolClients(ctx context.Context, url string, clients int, tool func(int) (*sdk.CallToolParams, string)) (*toolClients, error) {
	t := &toolClients{tool: tool}
	for range clients {
		client := sdk.NewClient(&sdk.Implementation{Name: "daybook-peers", Version: "1"}, nil)
		session, err := client.Connect(ctx, &sdk.StreamableClientTransport{Endpoint: url, HTTPClient: newHTTPClient()}, nil)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("connect to %s: %w", url, err), t.close())
		}
		t.sessions = append(t.sessions, session)
	}
	return t, nil
}

func (t *toolClients) call(ctx context.Context, client, n int) error {
	params, want := t.tool(n)
	result, err := t.sessions[client].CallTool(ctx, params)
	if err != nil {
		return err
	}
	raw, err := json.Marshal(result.Content)
	if err != nil {
		return err
	}
	if result.IsError || !strings.Contains(string(raw), want) {
		return fmt.Errorf("%s answers without %q: %.300s", params.Name, want, raw)
	}
	return nil
}

func (t *toolClients) close() (err error) {
	for _, s := range t.sessions {
		err = errors.Join(err, s.Close())
	}
	return err
}

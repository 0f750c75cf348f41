package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"daybook/internal/dev/process"
)

// daybook is a server for stateless runs.
type daybook struct {
	*process.Server
	client *http.Client
}

func startDaybook(ctx context.Context, bin, dir string) (*daybook, error) {
	addr, err := process.FreeAddr()
	if err != nil {
		return nil, err
	}
	data, err := os.MkdirTemp(dir, "data-")
	if err != nil {
		return nil, err
	}
	s, err := process.Start(ctx, process.Config{Name: "daybook", Dir: dir, URL: "http://" + addr, Ready: "/readyz",
		Command: []string{bin, "serve", "--stateless", "--data-dir", data, "--http-addr", addr, "--nats-addr", "off"}})
	if err != nil {
		return nil, err
	}
	return &daybook{Server: s, client: newHTTPClient()}, nil
}

// newHTTPClient returns a client that keeps a connection for each of its users.
func newHTTPClient() *http.Client {
	return &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}
}

// exec submits a run and waits for its end.
func (d *daybook) exec(ctx context.Context, _, n int) error {
	answer, err := post(ctx, d.client, d.URL+"/api/exec?wait=30", fmt.Sprintf(`{"code":"%d; 1+1"}`, n))
	if err != nil {
		return err
	}
	var e struct{ Status, Result string }
	if err := json.Unmarshal(answer, &e); err != nil || e.Status != "completed" || e.Result != "2" {
		return fmt.Errorf("the run ended differently: %.300s", answer)
	}
	return nil
}

// post sends a JSON body and returns the body of the answer, whose status must be 200.
func post(ctx context.Context, client *http.Client, url, body string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader([]byte(body)))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %.300s", resp.Status, answer)
	}
	return answer, err
}

// runJS is the call of run_js, and what its answer contains.
func runJS(n int) (*sdk.CallToolParams, string) {
	return &sdk.CallToolParams{Name: "run_js", Arguments: map[string]any{"code": fmt.Sprintf("'answer ' + %d", n)}}, fmt.Sprintf("answer %d", n)
}

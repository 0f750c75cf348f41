package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"time"

	"daybook/internal/dev/process"
)

// restate is a Restate server and the process with its handler.
type restate struct {
	server  *process.Server
	handler *process.Server
	client  *http.Client
}

// startRestate starts a server with its default durability, and the handler.
func startRestate(ctx context.Context, modules, dir string) (_ *restate, err error) {
	var addrs [4]string // of the handler, of calls, of the administration, of other nodes
	for i := range addrs {
		if addrs[i], err = process.FreeAddr(); err != nil {
			return nil, err
		}
	}
	r := &restate{client: newHTTPClient()}
	_, port, _ := strings.Cut(addrs[0], ":")
	r.handler, err = process.Start(ctx, process.Config{Name: "handler", Dir: dir, Env: []string{"PORT=" + port},
		Command: []string{nodeIn(modules), filepath.Join(modules, "../durable.mjs")}})
	if err != nil {
		return nil, err
	}
	admin := "http://" + addrs[2]
	r.server, err = process.Start(ctx, process.Config{Name: "restate", Dir: dir, URL: "http://" + addrs[1], Ready: "/restate/health",
		Env: []string{
			"RESTATE_DISABLE_TELEMETRY=true",
			"RESTATE_INGRESS__BIND_ADDRESS=" + addrs[1],
			"RESTATE_ADMIN__BIND_ADDRESS=" + addrs[2],
			"RESTATE_BIND_ADDRESS=" + addrs[3],
		},
		Command: []string{filepath.Join(modules, "@restatedev/restate-server-linux-x64/bin/restate-server"),
			"--base-dir", filepath.Join(dir, "restate-data"), "--no-logo", "--listen-mode", "tcp"}})
	if err != nil {
		return nil, errors.Join(err, r.handler.Stop())
	}
	if err := r.register(ctx, admin, "http://"+addrs[0]); err != nil {
		return nil, errors.Join(fmt.Errorf("register the handler: %w", err), r.stop())
	}
	return r, nil
}

// register registers the handler. It tries until the administration and the handler listen.
func (r *restate) register(ctx context.Context, admin, handler string) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		err := r.registerOnce(ctx, admin, handler)
		if err == nil || ctx.Err() != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func (r *restate) registerOnce(ctx context.Context, admin, handler string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, admin+"/deployments", strings.NewReader(fmt.Sprintf(`{"uri":%q}`, handler)))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := r.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode >= 300 {
		return errors.New(resp.Status)
	}
	return nil
}

// call calls the durable handler.
func (r *restate) call(ctx context.Context, _, n int) error {
	answer, err := post(ctx, r.client, r.server.URL+"/bench/noop", fmt.Sprintf(`{"i":%d}`, n))
	if err == nil && !strings.Contains(string(answer), `"v":2`) {
		err = fmt.Errorf("the handler answers %.300s", answer)
	}
	return err
}

func (r *restate) stop() error { return errors.Join(r.server.Stop(), r.handler.Stop()) }

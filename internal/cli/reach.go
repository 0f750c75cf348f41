package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"daybook/embed"
)

// defaultServer is the address of a server with default flags.
const defaultServer = "http://" + defaultHTTPAddr

// lookWait bounds how long the program at the default address may take to show
// that it is a Daybook server.
const lookWait = 5 * time.Second

// do sends a request to the server that is named, or else to the owner of the data
// directory that is named, or else to the default server, and without one to the
// owner of the default data directory. Another program at the default address
// receives neither the request nor the token.
func (f clientFlags) do(req *http.Request) (*http.Response, error) {
	if f.Server != "" {
		return f.doNamed(req)
	}
	absent := "no server answers at " + address(req)
	if f.DataDir == "" {
		stranger, err := look(req.Context(), address(req))
		switch {
		case err == nil && stranger == "":
			resp, err := client.Do(req)
			if !isRefusedConnection(err) {
				return resp, asked(err)
			}
		case err == nil:
			absent = fmt.Sprintf("another program answers at %s (%s)", address(req), stranger)
		}
		if req.GetBody != nil { // the first attempt has used it up
			if req.Body, err = req.GetBody(); err != nil {
				return nil, asked(err)
			}
		}
	}
	dir := cmp.Or(f.DataDir, defaultDataDir())
	owner := &http.Client{CheckRedirect: client.CheckRedirect, Transport: &http.Transport{
		DisableKeepAlives: true, // nothing is left open
		DialContext:       func(ctx context.Context, _, _ string) (net.Conn, error) { return embed.DialOwner(ctx, dir) },
	}}
	resp, err := owner.Do(req)
	var outer *url.Error
	if errors.As(err, &outer) {
		err = outer.Err // its URL is no address of the owner
	}
	switch {
	case err == nil:
		return resp, nil
	case !errors.Is(err, embed.ErrNotServing):
		return nil, fmt.Errorf("ask the process that owns %s: %w", dir, err)
	case f.DataDir != "":
		return nil, fmt.Errorf("no process serves %s: start one with \"daybook serve --data-dir %s\"", dir, dir)
	default:
		return nil, fmt.Errorf("%s, and no process serves %s: start one with \"daybook serve\", or name another with --server or --data-dir", absent, dir)
	}
}

// doNamed sends a request to the server that the user named.
func (f clientFlags) doNamed(req *http.Request) (*http.Response, error) {
	client, err := f.httpClient()
	if err != nil {
		return nil, err
	}
	resp, err := client.Do(req)
	switch {
	case isRefusedConnection(err):
		return nil, fmt.Errorf("no server answers at %s: start one with \"daybook serve\", or name another with --server", address(req))
	case err != nil || isDaybook(resp) || isRedirect(resp):
		return resp, asked(err)
	}
	defer resp.Body.Close()
	return nil, fmt.Errorf("%s is no Daybook server: %s; name another with --server", address(req), strangerText(resp))
}

// look asks what program answers at an address: empty for a Daybook server. The
// error is that of an address where nothing listens.
func look(ctx context.Context, address string) (stranger string, err error) {
	ctx, stop := context.WithTimeout(ctx, lookWait)
	defer stop()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address+"/healthz", nil)
	if err != nil {
		return "", err
	}
	resp, err := client.Do(req)
	switch {
	case isRefusedConnection(err):
		return "", err
	case err != nil:
		return "it does not answer as an HTTP server", nil
	}
	defer resp.Body.Close()
	if isDaybook(resp) {
		_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, 64<<10)) // lets the connection be used again
		return "", nil
	}
	return strangerText(resp), nil
}

// isRefusedConnection reports whether a request failed because nothing listens.
func isRefusedConnection(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}

// asked says what an error came from.
func asked(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("ask the server: %w", certificateHint(err))
}

// address is the URL of the server that a request is for.
func address(req *http.Request) string { return req.URL.Scheme + "://" + req.URL.Host }

// isDaybook reports whether an answer comes from a Daybook server.
func isDaybook(resp *http.Response) bool { return resp.Header.Get(embed.APIHeader) != "" }

func isRedirect(resp *http.Response) bool {
	return resp.StatusCode >= 300 && resp.StatusCode < 400
}

// strangerText describes an answer of another program in a few words.
func strangerText(resp *http.Response) string {
	beginning, _ := io.ReadAll(io.LimitReader(resp.Body, 256)) // what cannot be read says nothing
	if resp.StatusCode == http.StatusBadRequest && strings.Contains(string(beginning), "HTTP request to an HTTPS server") {
		return "it speaks TLS, as in https://"
	}
	text := "it answers " + resp.Status
	if program := resp.Header.Get("Server"); program != "" {
		text += " as " + oneLine(visible(program, ""), 60)
	}
	return text
}

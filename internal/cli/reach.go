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
	"syscall"
	"time"

	"daybook/embed"
	"daybook/internal/cli/terminal"
)

// defaultServer is the address of a server that was started with default flags.
const defaultServer = "http://" + defaultHTTPAddr

// probeTimeout is the maximum time in which the program at the default address must prove
// to be a Daybook server.
const probeTimeout = 5 * time.Second

// direct follows no redirects, because a token must reach only the server that the user
// named.
var direct = &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}

// reach sends the requests of a client.
type reach struct {
	clientFlags
	// mistake is the error of the flags for the token, or nil.
	mistake error
}

// Do sends a request to the server that the flags select. It sends a token over plain
// HTTP only to this machine, unless --insecure is set.
func (r reach) Do(req *http.Request) (*http.Response, error) {
	if r.mistake != nil {
		return nil, r.mistake
	}
	if req.Header.Get("Authorization") != "" && req.URL.Scheme == "http" && !isLoopback(req.URL.Hostname()) && !r.Insecure {
		return nil, usageError{fmt.Errorf("--server %s: refusing to send a token over plain HTTP; use https, or --insecure on a trusted network", r.Server)}
	}
	resp, err := r.do(req)
	if err == nil && isRedirect(resp) {
		resp.Body.Close()
		return nil, r.redirectError(req, resp.Header.Get("Location"))
	}
	return resp, err
}

// redirectError returns the error of a redirect. If the redirect changes only the part of
// the URL before the path of the request, the error names the new part as a value for
// --server.
func (f clientFlags) redirectError(req *http.Request, location string) error {
	given := cmp.Or(strings.TrimSuffix(f.Server, "/"), address(req))
	path := strings.TrimPrefix(req.URL.EscapedPath(), strings.TrimPrefix(given, address(req)))
	to, err := req.URL.Parse(location)
	if err == nil && to.Host != "" && (to.Scheme == "http" || to.Scheme == "https") {
		base, found := strings.CutSuffix(to.EscapedPath(), path)
		if other := to.Scheme + "://" + to.Host + base; found && other != given {
			return fmt.Errorf("%s redirects to another address; give --server %s", given, terminal.Visible(other, ""))
		}
	}
	return fmt.Errorf("%s redirects to a page that is not of a Daybook server; name another with --server", given)
}

// do sends a request to the named server, else to the owner of the named data
// directory, else to the default server, and if that does not answer, to the owner of
// the default data directory. Another program at the default address receives neither
// the request nor the token.
func (f clientFlags) do(req *http.Request) (*http.Response, error) {
	if f.Server != "" {
		return f.doNamed(req)
	}
	absent := "no server answers at " + address(req)
	if f.DataDir == "" {
		stranger, err := probeServer(req.Context(), address(req))
		switch {
		case err == nil && stranger == "":
			resp, err := direct.Do(req)
			if !isRefusedConnection(err) {
				return resp, wrapRequestError(err)
			}
		case err == nil:
			absent = fmt.Sprintf("another program answers at %s (%s)", address(req), stranger)
		}
		if req.GetBody != nil { // the first attempt consumed the body
			if req.Body, err = req.GetBody(); err != nil {
				return nil, wrapRequestError(err)
			}
		}
	}
	dir := cmp.Or(f.DataDir, defaultDataDir())
	owner := &http.Client{CheckRedirect: direct.CheckRedirect, Transport: &http.Transport{
		DisableKeepAlives: true, // no connection stays open
		DialContext:       func(ctx context.Context, _, _ string) (net.Conn, error) { return embed.DialOwner(ctx, dir) },
	}}
	resp, err := owner.Do(req)
	var outer *url.Error
	if errors.As(err, &outer) {
		err = outer.Err // the URL in the error is not the address of the owner
	}
	switch {
	case err == nil:
		return resp, nil
	case isClosedConnection(err):
		return nil, &closedError{"the process that owns " + dir, err}
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
	named, err := f.httpClient()
	if err != nil {
		return nil, err
	}
	resp, err := named.Do(req)
	switch {
	case isRefusedConnection(err):
		return nil, fmt.Errorf("no server answers at %s: start one with \"daybook serve\", or name another with --server", address(req))
	case err != nil || isDaybook(resp) || isRedirect(resp):
		return resp, wrapRequestError(err)
	}
	defer resp.Body.Close()
	return nil, fmt.Errorf("%s is not a Daybook server: %s; name another with --server", address(req), strangerText(resp))
}

// probeServer describes the program that answers at an address, and returns an empty
// text for a Daybook server. It returns an error if no program listens at the address.
func probeServer(ctx context.Context, address string) (stranger string, err error) {
	ctx, stop := context.WithTimeout(ctx, probeTimeout)
	defer stop()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address+"/healthz", nil)
	if err != nil {
		return "", err
	}
	resp, err := direct.Do(req)
	switch {
	case isRefusedConnection(err):
		return "", err
	case err != nil:
		return "it does not answer as an HTTP server", nil
	}
	defer resp.Body.Close()
	if isDaybook(resp) {
		_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, 64<<10)) // the connection can be used again
		return "", nil
	}
	return strangerText(resp), nil
}

// isRefusedConnection reports whether a request failed because no program listens at
// the address.
func isRefusedConnection(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}

// isClosedConnection reports whether a request failed because the other side closed the
// connection.
func isClosedConnection(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

// closedError is a connection that was closed before the answer.
type closedError struct {
	server string
	cause  error
}

func (e *closedError) Error() string {
	return e.server + " closed the connection before it answered"
}

func (e *closedError) Unwrap() error { return e.cause }

func wrapRequestError(err error) error {
	switch {
	case err == nil:
		return nil
	case isClosedConnection(err):
		return &closedError{"the server", err}
	}
	return fmt.Errorf("ask the server: %w", certificateHint(err))
}

// address returns the URL of the server of a request.
func address(req *http.Request) string { return req.URL.Scheme + "://" + req.URL.Host }

// isDaybook reports whether an answer comes from a Daybook server.
func isDaybook(resp *http.Response) bool { return resp.Header.Get(embed.APIHeader) != "" }

func isRedirect(resp *http.Response) bool {
	return resp.StatusCode >= 300 && resp.StatusCode < 400
}

// strangerText describes the answer of another program in a few words.
func strangerText(resp *http.Response) string {
	beginning, _ := io.ReadAll(io.LimitReader(resp.Body, 256)) // an unreadable answer counts as empty
	if resp.StatusCode == http.StatusBadRequest && strings.Contains(string(beginning), "HTTP request to an HTTPS server") {
		return "it speaks TLS, as in https://"
	}
	text := "it answers " + resp.Status
	if program := resp.Header.Get("Server"); program != "" {
		text += " as " + terminal.OneLine(terminal.Visible(program, ""), 60)
	}
	return text
}

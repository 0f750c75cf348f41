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

	"daybook/embed"
)

// defaultServer is the address of a server with default flags.
const defaultServer = "http://" + defaultHTTPAddr

// do sends a request to the server that is named, or else to the owner of the data
// directory that is named, or else to the default server, and without one to the
// owner of the default data directory. Another program at the default address is
// no server.
func (f clientFlags) do(req *http.Request) (*http.Response, error) {
	absent := "no server answers at " + address(req)
	if f.Server != "" || f.DataDir == "" {
		resp, err := client.Do(req)
		var op *net.OpError
		switch {
		case err == nil && (isDaybook(resp) || f.Server != "" && isRedirect(resp)):
			return resp, nil
		case err == nil:
			stranger := strangerText(resp)
			resp.Body.Close()
			if f.Server != "" {
				return nil, fmt.Errorf("%s is no Daybook server: %s; name another with --server", address(req), stranger)
			}
			absent = fmt.Sprintf("another program answers at %s (%s)", address(req), stranger)
		case !errors.As(err, &op) || op.Op != "dial":
			return nil, fmt.Errorf("ask the server: %w", err)
		case f.Server != "":
			return nil, fmt.Errorf("%s: start one with \"daybook serve\", or name another with --server", absent)
		}
		if req.GetBody != nil { // the first attempt has used it up
			if req.Body, err = req.GetBody(); err != nil {
				return nil, fmt.Errorf("ask the server: %w", err)
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

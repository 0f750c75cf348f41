package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"

	"daybook/internal/web/client"
)

// clientFlags are the flags of the commands that send requests to a server.
type clientFlags struct {
	Server    string `help:"Server URL. Default: http://127.0.0.1:8080, or the process that owns the data directory." placeholder:"URL"`
	DataDir   string `help:"Data directory whose owner to contact if --server is not given." placeholder:"DIR"`
	Token     string `help:"Bearer token, if the server requires one. Flags are visible to other users; prefer $DAYBOOK_TOKEN or --token-file." placeholder:"TOKEN"`
	TokenFile string `help:"File that holds the bearer token." placeholder:"FILE"`
	CA        string `name:"ca" help:"File of PEM certificates to trust for https, besides those of the system." placeholder:"FILE"`
	Insecure  bool   `help:"Send the token to another machine over plain HTTP, unencrypted."`
	JSON      bool   `help:"Print JSON."`
}

// Validate checks the address before any request is sent.
func (f clientFlags) Validate() error {
	if f.Server == "" {
		return nil
	}
	u, err := url.Parse(f.Server)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return fmt.Errorf("--server %q: give a URL such as http://127.0.0.1:8080", f.Server)
	}
	return nil
}

// api returns a client of the server that the flags name. It sends no request; a mistake
// in the flags is the error of the first one.
func (f clientFlags) api() *client.Client {
	token, err := f.token()
	return client.New(cmp.Or(f.Server, defaultServer), client.Options{Token: token, HTTP: reach{f, err}, UserAgent: "daybook-cli/" + version()})
}

// token returns the token, or an empty string. A flag takes precedence over an
// environment variable, for --token and --token-file alike.
func (f clientFlags) token() (string, error) {
	text := f.Token != "" && f.Token != os.Getenv("DAYBOOK_TOKEN")
	switch {
	case text && f.TokenFile != "":
		return "", usageError{errors.New("give --token or --token-file, not both")}
	case f.TokenFile == "":
		return f.Token, nil
	}
	raw, err := os.ReadFile(f.TokenFile)
	if err != nil {
		return "", usageError{fmt.Errorf("--token-file: %w", err)}
	}
	token := strings.TrimSpace(string(raw))
	if token == "" || strings.ContainsAny(token, " \r\n\t") {
		return "", usageError{fmt.Errorf("--token-file %s: the file must hold one token and nothing else", f.TokenFile)}
	}
	return token, nil
}

// isLoopback reports whether host is this machine.
func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return strings.EqualFold(host, "localhost") || ip != nil && ip.IsLoopback()
}

// call sends a request, with header names and values in pairs, and decodes the JSON
// answer into out unless out is nil.
func (f clientFlags) call(ctx context.Context, method, path string, body, out any, header ...string) error {
	resp, err := f.send(ctx, method, path, body, append(header, "Accept", "application/json")...)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if out == nil {
		return nil
	}
	if raw, ok := out.(*json.RawMessage); ok {
		if *raw, err = io.ReadAll(resp.Body); err != nil {
			return asUnavailable(ctx, fmt.Errorf("read the server's answer: %w", err))
		}
		return nil
	}
	if err := json.NewDecoder(resp.Body).Decode(out); err != nil {
		return asUnavailable(ctx, fmt.Errorf("read the server's answer: %w", err))
	}
	return nil
}

// send sends a request, with header names and values in pairs. It returns an answer
// with an error status as *client.Error. The caller MUST close the body of the answer.
func (f clientFlags) send(ctx context.Context, method, path string, body any, header ...string) (*http.Response, error) {
	return f.api().Send(ctx, method, path, body, header...)
}

// asUnavailable returns err as client.ErrNoServer, or unchanged if ctx is done: an
// interrupt is no fault of the server.
func asUnavailable(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return err
	}
	return fmt.Errorf("%w%.0w", err, client.ErrNoServer)
}

// query returns the non-empty parameters as the query of a URL.
func query(pairs ...string) string {
	q := url.Values{}
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			q.Add(pairs[i], pairs[i+1])
		}
	}
	if len(q) == 0 {
		return ""
	}
	return "?" + q.Encode()
}

package cli

import (
	"bytes"
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
// with an error status as *serverError. The caller MUST close the body of the answer.
func (f clientFlags) send(ctx context.Context, method, path string, body any, header ...string) (*http.Response, error) {
	var payload io.Reader
	if body != nil {
		raw, err := json.Marshal(body)
		if err != nil {
			return nil, fmt.Errorf("encode request: %w", err)
		}
		payload = bytes.NewReader(raw)
	}
	req, err := http.NewRequestWithContext(ctx, method, strings.TrimSuffix(cmp.Or(f.Server, defaultServer), "/")+path, payload)
	if err != nil {
		return nil, fmt.Errorf("--server %q: %w", f.Server, err)
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	req.Header.Set("User-Agent", "daybook-cli/"+version())
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	token, err := f.token()
	if err != nil {
		return nil, err
	}
	if token != "" {
		if req.URL.Scheme == "http" && !isLoopback(req.URL.Hostname()) && !f.Insecure {
			return nil, usageError{fmt.Errorf("--server %s: refusing to send a token over plain HTTP; use https, or --insecure on a trusted network", f.Server)}
		}
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := f.do(req)
	if _, ok := errors.AsType[usageError](err); ok {
		return nil, err
	}
	if err != nil {
		return nil, asUnavailable(ctx, err)
	}
	if isRedirect(resp) {
		resp.Body.Close()
		return nil, usageError{fmt.Errorf("--server %s redirects to %s; name that URL", f.Server, resp.Header.Get("Location"))}
	}
	if resp.StatusCode >= 400 {
		defer resp.Body.Close()
		return nil, answerError(resp)
	}
	return resp, nil
}

// unavailableError is returned if a server gives no answer, or none that can be
// decoded.
type unavailableError struct{ error }

// asUnavailable returns err as *unavailableError, or unchanged if ctx is done: an
// interrupt is no fault of the server.
func asUnavailable(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return err
	}
	return &unavailableError{err}
}

// client follows no redirects, because a token must reach only the server that the user
// named.
var client = &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}

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

// serverError is an error answer of the server.
type serverError struct {
	status  int
	message string
	// code is the class of the error, may be empty.
	code string
	// field is the rejected part of the request, may be empty.
	field string
	// permanent is true for a limit that waiting does not lift.
	permanent bool
}

func (e *serverError) Error() string { return e.message }

// Status returns the HTTP status of the answer.
func (e *serverError) Status() int { return e.status }

// Code returns the class of the error, as in the answer.
func (e *serverError) Code() string { return e.code }

// temporary reports whether the same request may succeed later.
func (e *serverError) temporary() bool {
	return !e.permanent && (e.status >= http.StatusInternalServerError || e.status == http.StatusTooManyRequests)
}

func answerError(resp *http.Response) error {
	raw, _ := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	var problem struct {
		Error  string `json:"error"`
		Detail string `json:"detail"`
		Field  string `json:"field"`
		Code   string `json:"code"`

		Permanent bool `json:"permanent"`
	}
	message := strings.TrimSpace(string(raw))
	if json.Unmarshal(raw, &problem) == nil && problem.Error+problem.Detail != "" {
		message = problem.Error
		if message == "" {
			message = problem.Detail
		}
	}
	if message == "" {
		message = "the server answered " + resp.Status
	}
	return &serverError{status: resp.StatusCode, message: message, code: problem.Code, field: problem.Field, permanent: problem.Permanent}
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

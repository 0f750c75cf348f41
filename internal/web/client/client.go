package client

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"reflect"
	"strconv"
	"strings"
	"time"
)

// maxAnswer is the maximum size of a decoded answer, and of one message of a stream, in
// bytes. It is far above every answer of a server.
const maxAnswer = 1 << 30

// Doer sends requests. *http.Client implements it.
type Doer interface {
	// Do returns the answer to a request. The caller MUST close its body.
	Do(req *http.Request) (*http.Response, error)
}

// Options configure a Client.
type Options struct {
	// Token is sent with each request as a bearer token; empty sends none.
	Token string
	// HTTP sends the requests; nil uses http.DefaultTransport. The client uses a copy of
	// an *http.Client that follows no redirects, so that the token reaches only the
	// server that the caller named. Any other Doer MUST follow none.
	HTTP Doer
	// UserAgent is sent as User-Agent; empty sends that of net/http.
	UserAgent string
	// Name is the server in error messages; empty means its URL.
	Name string
}

// Client sends requests to one server. Its methods block until the answer is read or the
// context is done, and are safe for concurrent use. They return *Error if the server
// answers with an error, and ErrNoServer if it gives no answer of a Daybook server.
type Client struct {
	base string
	opts Options
}

// New returns a client of the server at base, a URL such as http://127.0.0.1:8080. It
// sends no request.
func New(base string, o Options) *Client {
	if o.HTTP == nil {
		o.HTTP = &http.Client{}
	}
	if h, ok := o.HTTP.(*http.Client); ok {
		stay := *h
		stay.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
		o.HTTP = &stay
	}
	base = strings.TrimSuffix(base, "/")
	o.Name = cmp.Or(o.Name, base)
	return &Client{base: base, opts: o}
}

// Answer is a decoded answer.
type Answer[T any] struct {
	Body T
	// JSON is the text that Body was decoded from. It also has the members that this
	// version does not know.
	JSON json.RawMessage
	// Sequence is the position of a write in the ledger; 0 for reads.
	Sequence uint64
}

// OK is the answer to writes that have nothing to report.
type OK struct {
	OK bool `json:"ok"`
}

// call sends a request, with header names and values in pairs, and decodes the answer.
func call[T any](ctx context.Context, c *Client, method, path string, body any, header ...string) (Answer[T], error) {
	var a Answer[T]
	resp, err := c.Send(ctx, method, path, body, append(header, "Accept", "application/json")...)
	if err != nil {
		return a, err
	}
	defer resp.Body.Close()
	if a.JSON, err = io.ReadAll(limit(resp.Body)); err == nil {
		err = decode(a.JSON, &a.Body, requiredMembers[reflect.TypeFor[T]()])
	}
	if err != nil {
		return a, c.unusable(ctx, method, path, err)
	}
	a.Sequence, _ = strconv.ParseUint(resp.Header.Get("Daybook-Sequence"), 10, 64) // reads have none
	return a, nil
}

// Send sends a request for which there is no other method. header has names and values in
// pairs. body is sent as JSON unless it is nil. The caller MUST close the body of the
// answer. If reading that body fails, the error is ErrNoServer, or that of ctx. A read or
// a replay of an execution that exceeds the server's limit of requests per second is sent again when the server permits it,
// for at most 30 s in total.
func (c *Client) Send(ctx context.Context, method, path string, body any, header ...string) (*http.Response, error) {
	var payload io.Reader
	if body != nil {
		raw, err := json.Marshal(body)
		if err != nil {
			return nil, fmt.Errorf("encode request: %w", err)
		}
		payload = bytes.NewReader(raw)
	}
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, payload)
	if err != nil {
		return nil, fmt.Errorf("make a request to %s: %w", c.base, err)
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	if c.opts.UserAgent != "" {
		req.Header.Set("User-Agent", c.opts.UserAgent)
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if c.opts.Token != "" {
		req.Header.Set("Authorization", "Bearer "+c.opts.Token)
	}
	waited := time.Duration(0)
	for try := 0; ; try++ {
		if try > 0 && req.GetBody != nil {
			if req.Body, err = req.GetBody(); err != nil {
				return nil, fmt.Errorf("make a request to %s: %w", c.base, err)
			}
		}
		resp, err := c.opts.HTTP.Do(req)
		if err != nil {
			return nil, noServer(ctx, err)
		}
		if resp.StatusCode < 300 {
			resp.Body = &answerBody{ctx, resp.Body}
			return resp, nil
		}
		refused := answerError(resp)
		resp.Body.Close()
		pause, ok := retryAfter(req, resp, refused)
		pause = max(pause, leastRetryPause(try))
		if waited += pause; !ok || waited > maxRetryWait {
			return nil, refused
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// maxRetryWait is the maximum time that a request waits, in total, because the server has a
// limit of requests per second.
const maxRetryWait = 30 * time.Second

// leastRetryPause returns the minimum time before a request is sent again, also if Retry-After
// is 0. tries is the number of times that it was sent again before.
func leastRetryPause(tries int) time.Duration {
	return min(10*time.Millisecond<<min(tries, 10), time.Second)
}

// retryAfter returns the time after which a refused request is sent again. ok is false if it
// is not: only reads and replays of executions, which were not made, are sent again, and only
// if the server sends Retry-After in seconds. A stream is not, because open streams are limited
// by their number and not by a rate; the replay of a session is one.
func retryAfter(req *http.Request, resp *http.Response, refused *Error) (pause time.Duration, ok bool) {
	isReplay := req.Method == http.MethodPost && strings.HasPrefix(req.URL.Path, "/api/executions/") && strings.HasSuffix(req.URL.Path, "/replay")
	isStream := req.Header.Get("Accept") == "text/event-stream" || strings.HasSuffix(req.URL.Path, "/replay")
	if !isReplay && (req.Method != http.MethodGet || isStream) || refused.Status != http.StatusTooManyRequests || refused.Permanent {
		return 0, false
	}
	seconds, err := strconv.ParseUint(resp.Header.Get("Retry-After"), 10, 16)
	return time.Duration(seconds) * time.Second, err == nil
}

// answerBody is the body of an answer. It returns the error of a failed read as ErrNoServer
// unless ctx is done.
type answerBody struct {
	ctx context.Context
	io.ReadCloser
}

func (b *answerBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = noServer(b.ctx, fmt.Errorf("read the server's answer: %w", err))
	}
	return n, err
}

// Cosigned is the newest checkpoint of a server that enough witnesses cosigned. Time is nil if there
// is none yet.
type Cosigned struct {
	Size uint64     `json:"size"`
	Time *time.Time `json:"time,omitempty"`
	// Claims are the sizes of the checkpoints that witnesses claim to have cosigned, and that the ledger
	// does not continue, by the name of the witness.
	Claims map[string]uint64 `json:"claims,omitempty"`
	// Refusals are why witnesses refuse the checkpoints of the server, by the name of the witness.
	Refusals map[string]string `json:"refusals,omitempty"`
	// Failures are why witnesses do not cosign for another reason, by the name of the witness.
	Failures map[string]string `json:"failures,omitempty"`
}

// Signing is what a ready server reports about its signatures.
type Signing struct {
	// Unsigned is why the server signs no checkpoints, or empty.
	Unsigned string `json:"unsigned"`
	// Cosigned is nil if the server has no witnesses, and for servers of earlier versions.
	Cosigned *Cosigned `json:"cosigned"`
}

// Signing returns what a ready server reports about its signatures.
func (c *Client) Signing(ctx context.Context) (Signing, error) {
	a, err := call[Signing](ctx, c, http.MethodGet, "/readyz", nil)
	return a.Body, err
}

// Ready returns nil if the server is ready, and an *Error with the status 503 and the
// reason if it is not.
func (c *Client) Ready(ctx context.Context) error {
	resp, err := c.Send(ctx, http.MethodGet, "/readyz", nil, "Accept", "application/json")
	if err != nil {
		return err
	}
	return resp.Body.Close()
}

type resolved struct {
	ID string `json:"id"`
}

// Resolve returns the id of an object of a kind, which is execution or heap. text is a
// unique prefix of the id, or @last for the newest object. With @last, session selects a
// session: then the result is its newest run, or the heap that it continues from.
func (c *Client) Resolve(ctx context.Context, kind, text, session string) (string, error) {
	a, err := call[resolved](ctx, c, http.MethodGet, "/api/resolve"+query("kind", kind, "id", text, "session", session), nil)
	return a.Body.ID, err
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

// number returns a number as a parameter; 0 is left out.
func number(n int) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(n)
}

// keyHeader returns the header for an idempotency key; an empty key has none.
func keyHeader(key string) []string {
	if key == "" {
		return nil
	}
	return []string{"Idempotency-Key", key}
}

var errTooLarge = errors.New("the answer is larger than 1 GiB")

// limited reads at most left bytes, and then returns errTooLarge.
type limited struct {
	r    io.Reader
	left int64
}

func limit(r io.Reader) *limited { return &limited{r, maxAnswer} }

func (l *limited) Read(p []byte) (int, error) {
	if l.left <= 0 {
		return 0, errTooLarge
	}
	n, err := l.r.Read(p[:min(int64(len(p)), l.left)])
	l.left -= int64(n)
	return n, err
}

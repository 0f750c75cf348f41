package fetcher

import (
	"cmp"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"daybook/internal/policy"
)

// DefaultRule is the rule that decides about fetches. Its input is that of mcp-v8.
const DefaultRule = "data.mcp.fetch.allow"

// maxRedirects is the maximum number of redirects that one fetch follows.
const maxRedirects = 20

// MaxResponseBytes is the largest value of Options.MaxResponseBytes: an answer in Base64
// must fit into the 16 MiB that a script can receive at once.
const MaxResponseBytes = 11 << 20

// MaxRequestBytes is the largest value of Options.MaxRequestBytes: the arguments of a host
// call have at most 1 MiB, in Base64 and with the headers.
const MaxRequestBytes = 640 << 10

// Policy decides about requests. *policy.Chain is one.
type Policy interface {
	Evaluate(ctx context.Context, input map[string]any) policy.Decision
}

// Memory limits the memory of responses in this process.
type Memory interface {
	// Take waits until n bytes are available for a tenant and takes them. The error says
	// what to do.
	Take(ctx context.Context, tenant string, n int64) (Held, error)
}

// Held is memory that was taken. It is safe for concurrent use.
type Held interface {
	// Shrink returns all but n bytes.
	Shrink(n int64)
	// Release returns all bytes. It may be called more than once.
	Release()
}

// Options configure a Fetcher. Only Policy is required.
type Options struct {
	Policy Policy
	// Headers are the headers that are added to requests after the policy has decided.
	Headers []HeaderRule
	// AllowNetworks lists networks that may be reached although they are not public.
	AllowNetworks []netip.Prefix
	// MaxRequestBytes and MaxResponseBytes limit bodies, the latter after decompression.
	// Defaults: 512 KiB and 4 MiB.
	MaxRequestBytes  int
	MaxResponseBytes int
	// MaxHeaderBytes limits the headers of a request, and those of a response. Default: 64
	// KiB.
	MaxHeaderBytes int
	// Timeout limits one fetch with its redirects. Default: 30 s.
	Timeout time.Duration
	// UserAgent is the User-Agent header of requests that have none. Default: Daybook.
	UserAgent string
	// Memory limits the memory of responses; nil means no limit.
	Memory Memory
	// Logger receives errors whose text scripts must not see. Default: no logging.
	Logger *slog.Logger
	// Roots are the certificate authorities of servers; nil means those of the system.
	Roots *x509.CertPool
	// Resolver resolves names; nil means that of the system.
	Resolver *net.Resolver
}

func (o Options) withDefaults() Options {
	o.MaxRequestBytes = cmp.Or(o.MaxRequestBytes, 512<<10)
	o.MaxResponseBytes = cmp.Or(o.MaxResponseBytes, 4<<20)
	o.MaxHeaderBytes = cmp.Or(o.MaxHeaderBytes, 64<<10)
	o.Timeout = cmp.Or(o.Timeout, 30*time.Second)
	o.UserAgent = cmp.Or(o.UserAgent, "Daybook")
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

// Fetcher sends requests of scripts. It is safe for concurrent use. It keeps no connection
// after a response, so that no tenant uses the connection of another one and each request
// is subject to the check of its address.
type Fetcher struct {
	opts      Options
	rules     []rule // of opts.Headers
	transport *http.Transport
}

// New returns a Fetcher. The error is that of the first wrong rule for headers.
func New(o Options) (*Fetcher, error) {
	for _, r := range o.Headers {
		if err := r.Check(); err != nil {
			return nil, err
		}
	}
	o = o.withDefaults()
	f := &Fetcher{opts: o, transport: newTransport(o, net.InterfaceAddrs)}
	for _, r := range o.Headers {
		one := rule{HeaderRule: r}
		if r.OAuth != nil {
			one.tokens = newTokenSource(r, o)
		}
		f.rules = append(f.rules, one)
	}
	return f, nil
}

// Caller is the run that a script belongs to. The policy sees it.
type Caller struct {
	Tenant string
	// Actor is the authenticated identity of the client that submitted the run.
	Actor string
	// Session is the name of the session of the run, or empty. Execution is its id.
	Session, Execution string
}

// Outcome is the way in which a fetch ended.
type Outcome string

// The outcomes of fetches.
const (
	OK        Outcome = "ok"
	Failed    Outcome = "error"   // denied, refused or failed
	TimedOut  Outcome = "timeout" // no complete response in time
	Cancelled Outcome = "cancelled"
)

// Result is the result of a fetch.
type Result struct {
	Outcome Outcome
	// Text is the response as JSON if Outcome is OK, and otherwise a human-readable message.
	// It is valid UTF-8 and contains no secret.
	Text []byte
	// Hops are the request of the script and the redirects, in order. The last one may be
	// denied.
	Hops []Hop
	// RequestBody and ResponseBody are the bodies; nil without a body. The latter is the one
	// that the script gets: decompressed and without secrets.
	RequestBody, ResponseBody []byte

	held Held // nil if no memory is held
}

// Release returns the memory of Text to its budget. It may be called more than once.
func (r Result) Release() {
	if r.held != nil {
		r.held.Release()
	}
}

// Hop is one request of a fetch with the decision about it.
type Hop struct {
	Method, URL string
	// Allowed is the decision of the policy with the hash Policy, by the rule Rule; see
	// policy.Decision. Problem says why the rule had no boolean value, if so.
	Allowed      bool
	Policy, Rule string
	Problem      string
	// Added has the names of the headers that rules added.
	Added []string
	// Status is the status of the response, 0 for none.
	Status int
}

// Fetch performs the request of a script, which is in JSON. It returns failures as a
// Result too, so that there is always a result for the script. The caller MUST call
// Result.Release.
func (f *Fetcher) Fetch(ctx context.Context, c Caller, text []byte) Result {
	r, err := decodeRequest(text, f.opts)
	if err != nil {
		code := codeRequest
		if own, ok := errors.AsType[*message](err); ok {
			code = own.code
		}
		return Result{Outcome: Failed, Text: []byte(withCode("fetch: "+err.Error(), code))}
	}
	ctx, stop := context.WithTimeoutCause(ctx, f.opts.Timeout, errTimeout)
	defer stop()
	x := &exchange{fetcher: f, caller: c, first: r}
	defer x.releaseTokens()
	res, err := x.perform(ctx)
	if err != nil {
		res = x.failure(ctx, err)
	}
	res.Hops, res.RequestBody = x.hops, r.body
	return res
}

// exchange is one fetch with its redirects.
type exchange struct {
	fetcher *Fetcher
	caller  Caller
	first   *request
	hops    []Hop
	// hosts are the URLs that were requested. Secrets that are bound to their hosts are
	// removed from the answer.
	hosts []*url.URL
	// tokens are the access tokens that were added to requests.
	tokens []usedToken
}

func (x *exchange) releaseTokens() {
	for _, t := range x.tokens {
		t.source.release(t.token)
	}
}

// perform sends the request and follows its redirects.
func (x *exchange) perform(ctx context.Context) (Result, error) {
	r := *x.first
	for {
		resp, err := x.request(ctx, &r)
		if err != nil {
			return Result{}, err
		}
		location := resp.Header.Get("Location")
		if !isRedirect(resp.StatusCode) || location == "" || r.redirect == redirectManual {
			res, err := x.answer(ctx, &r, resp)
			_ = resp.Body.Close() // the body was read, or is not wanted
			return res, err
		}
		_ = resp.Body.Close()
		if err := x.follow(&r, resp.StatusCode, location); err != nil {
			return Result{}, err
		}
	}
}

// request asks the policy and sends one request.
func (x *exchange) request(ctx context.Context, r *request) (*http.Response, error) {
	o := &x.fetcher.opts
	d := o.Policy.Evaluate(ctx, policyInput(x.caller, r))
	hop := Hop{Method: r.method, URL: r.target.String(), Allowed: d.Allowed, Policy: d.Policy, Rule: d.Rule, Problem: d.Problem}
	if !d.Allowed {
		x.hops = append(x.hops, hop)
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return nil, &deniedError{hop}
	}
	x.hosts = append(x.hosts, r.target)
	before := len(x.tokens)
	headers, added, err := x.inject(ctx, r)
	hop.Added = added
	x.hops = append(x.hops, hop)
	if err != nil {
		return nil, err
	}
	resp, err := x.fetcher.send(ctx, r, headers)
	if err == nil {
		x.hops[len(x.hops)-1].Status = resp.StatusCode
		if resp.StatusCode == http.StatusUnauthorized {
			for _, t := range x.tokens[before:] {
				t.source.drop(t.token)
			}
		}
	}
	return resp, err
}

// policyInput returns what the policy sees of a request. Added headers are not part of it.
func policyInput(c Caller, r *request) map[string]any {
	headers := map[string]any{}
	for _, h := range r.headers {
		value := latin1Text(h.value)
		if before, ok := headers[h.name]; ok {
			value = fmt.Sprintf("%s, %s", before, value)
		}
		headers[h.name] = value
	}
	u := r.target
	parsed := map[string]any{"scheme": u.Scheme, "host": u.Hostname(), "port": nil, "path": u.EscapedPath(), "query": u.RawQuery}
	if strings.HasPrefix(u.Host, "[") {
		parsed["host"] = "[" + u.Hostname() + "]"
	}
	if u.Port() != "" {
		var port int
		_, _ = fmt.Sscan(u.Port(), &port) // parseTarget has checked it
		parsed["port"] = port
	}
	return map[string]any{
		"operation": "fetch", "url": u.String(), "method": r.method, "headers": headers, "url_parsed": parsed,
		"tenant": c.Tenant, "actor": c.Actor, "session": c.Session, "execution": c.Execution,
	}
}

// Input returns the input of the policy for a request in the form of scripts, and what is
// wrong with the request. It is for tests of policies.
func Input(c Caller, method, target string, headers [][2]string) (map[string]any, error) {
	o := Options{}.withDefaults()
	m, err := checkMethod(method)
	if err != nil {
		return nil, err
	}
	u, err := parseTarget(target, nil)
	if err != nil {
		return nil, err
	}
	list, err := checkHeaders(headers, o.MaxHeaderBytes)
	if err != nil {
		return nil, err
	}
	return policyInput(c, &request{method: m, target: u, headers: list}), nil
}

func isRedirect(status int) bool {
	switch status {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		return true
	}
	return false
}

// follow changes a request to the one that a redirect leads to, as browsers do.
func (x *exchange) follow(r *request, status int, location string) error {
	switch {
	case r.redirect == redirectError:
		return messagef(codeRedirect, "the server answered with a redirect, and the request has redirect: %q", redirectError)
	case len(x.hops) > maxRedirects:
		return messagef(codeRedirect, "there are more than %d redirects", maxRedirects)
	case x.hider().contains(location):
		return messagef(codeRedirect, "the redirect of the server contains a secret that was added to the request")
	}
	next, err := parseTarget(location, r.target)
	if err != nil {
		return messagef(codeRedirect, "the server's redirect cannot be followed: %s", err)
	}
	dropped := []string{}
	isPost := (status == http.StatusMovedPermanently || status == http.StatusFound) && r.method == "POST"
	if isPost || status == http.StatusSeeOther && r.method != "GET" && r.method != "HEAD" {
		r.method, r.body = "GET", nil
		dropped = append(dropped, "content-encoding", "content-language", "content-location", "content-type")
	}
	if !isSameOrigin(next, r.target) {
		dropped = append(dropped, "authorization", "cookie")
	}
	r.target = next
	r.headers = slices.DeleteFunc(slices.Clone(r.headers), func(h header) bool { return slices.Contains(dropped, h.name) })
	return nil
}

// hider returns the hider for the secrets that are bound to the requested hosts. Other
// secrets are not hidden: what is hidden tells a script that sends guesses which one is right.
func (x *exchange) hider() hider {
	var values []string
	for _, r := range x.fetcher.rules {
		isBound := slices.ContainsFunc(x.hosts, r.isBoundTo)
		if r.tokens == nil {
			if isBound {
				values = append(values, r.Value)
			}
			continue
		}
		if isTokenHost := slices.ContainsFunc(x.hosts, r.OAuth.isAt); isBound || isTokenHost {
			values = append(values, r.tokens.secrets(isTokenHost)...)
		}
	}
	return newHider(values)
}

package fetcher

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"
)

const (
	// maxTokenAnswer is the maximum size of an answer of a token endpoint, in bytes, and
	// maxToken that of a token.
	maxTokenAnswer = 64 << 10
	maxToken       = 16 << 10
	// unknownTokenLife is the life of a token whose expiry the token endpoint does not tell.
	unknownTokenLife = 5 * time.Minute
)

// tokenClient sends the requests for tokens of one rule.
type tokenClient struct {
	auth    OAuth
	http    *http.Client
	timeout time.Duration // for texts
	opts    Options       // for texts
}

// newTokenClient returns a client for the token endpoint of a rule. The operator has chosen
// its address, so that it may be private.
func newTokenClient(auth OAuth, o Options, timeout time.Duration) tokenClient {
	dialer := &net.Dialer{Timeout: dialTimeout, Resolver: o.Resolver}
	transport := &http.Transport{
		Proxy:                  nil, // as for fetches
		DialContext:            dialer.DialContext,
		TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: o.Roots},
		TLSHandshakeTimeout:    dialTimeout,
		DisableKeepAlives:      true,
		DisableCompression:     true,
		MaxResponseHeaderBytes: maxTokenAnswer,
		ForceAttemptHTTP2:      true,
	}
	return tokenClient{auth, &http.Client{
		Transport:     boundedTransport{transport, o.UserAgent},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}, timeout, o}
}

// boundedTransport reads each answer within the limit before it returns it.
type boundedTransport struct {
	next      *http.Transport
	userAgent string
}

var errLongAnswer = errors.New("the answer is too long")

// RoundTrip implements http.RoundTripper.
func (t boundedTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context()) // a RoundTripper must not change a request
	r.Header.Set("User-Agent", t.userAgent)
	r.Header.Set("Accept", "application/json")
	resp, err := t.next.RoundTrip(r)
	if err != nil {
		return nil, err //nolint:wrapcheck // http.Client wraps it
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxTokenAnswer+1))
	switch {
	case err != nil:
		return nil, err //nolint:wrapcheck // http.Client wraps it
	case len(body) > maxTokenAnswer:
		return nil, errLongAnswer
	}
	if bytes.HasPrefix(bytes.TrimSpace(body), []byte("{")) {
		resp.Header.Set("Content-Type", "application/json") // the library would read text/plain as a form
	}
	resp.Body = io.NopCloser(bytes.NewReader(body))
	return resp, nil
}

// issuedToken is a token that a token endpoint issued.
type issuedToken struct {
	value   string
	life    time.Duration
	refresh string           // a refresh token, or empty
	style   oauth2.AuthStyle // where the token endpoint takes the credentials
}

// tokenError says why there is no token. Its texts have nothing of the answer, which may
// repeat the secret.
type tokenError struct {
	forScript, forLog string
	// isRefusedClient is whether the credentials may be accepted in another place.
	isRefusedClient bool
}

func tokenProblem(text string) *tokenError { return &tokenError{forScript: text, forLog: text} }

// token gets a token, with the refresh token if there is one and it is accepted, otherwise with
// the credentials.
func (c tokenClient) token(ctx context.Context, refresh string, style oauth2.AuthStyle) (issuedToken, *tokenError) {
	if refresh != "" && style != oauth2.AuthStyleAutoDetect {
		if got, err := c.ask(ctx, refresh, style); err == nil {
			return got, nil
		}
	}
	if style != oauth2.AuthStyleAutoDetect {
		return c.ask(ctx, "", style)
	}
	// Most token endpoints take the credentials in the body, as those of users of mcp-v8 do. The
	// library would try the header first, and ask twice after any failure.
	got, err := c.ask(ctx, "", oauth2.AuthStyleInParams)
	if err != nil && err.isRefusedClient {
		if again, err := c.ask(ctx, "", oauth2.AuthStyleInHeader); err == nil {
			return again, nil
		}
	}
	return got, err
}

// ask sends one request for a token.
func (c tokenClient) ask(ctx context.Context, refresh string, style oauth2.AuthStyle) (issuedToken, *tokenError) {
	ctx = context.WithValue(ctx, oauth2.HTTPClient, c.http)
	var got *oauth2.Token
	var err error
	if refresh == "" {
		grant := clientcredentials.Config{ClientID: c.auth.ClientID, ClientSecret: c.auth.ClientSecret, TokenURL: c.auth.TokenURL, AuthStyle: style}
		if c.auth.Scope != "" {
			grant.Scopes = []string{c.auth.Scope}
		}
		got, err = grant.Token(ctx)
	} else {
		grant := oauth2.Config{ClientID: c.auth.ClientID, ClientSecret: c.auth.ClientSecret, Endpoint: oauth2.Endpoint{TokenURL: c.auth.TokenURL, AuthStyle: style}}
		got, err = grant.TokenSource(ctx, &oauth2.Token{RefreshToken: refresh}).Token()
	}
	if err != nil {
		return issuedToken{}, c.explain(ctx, err)
	}
	return accept(got, style)
}

// accept returns a token if it can be used.
func accept(t *oauth2.Token, style oauth2.AuthStyle) (issuedToken, *tokenError) {
	got := issuedToken{value: t.AccessToken, life: unknownTokenLife, refresh: t.RefreshToken, style: style}
	if !t.Expiry.IsZero() {
		got.life = time.Until(t.Expiry)
	}
	isForeign := func(c rune) bool { return c <= ' ' || c >= 0x7f }
	switch kind := strings.ToLower(t.TokenType); {
	case kind != "" && !strings.HasPrefix(kind, "bearer"): // some say BearerToken
		return got, tokenProblem("the token of the token endpoint is not a bearer token")
	case len(t.AccessToken) > maxToken || len(t.RefreshToken) > maxToken:
		return got, tokenProblem(fmt.Sprintf("the token of the token endpoint is longer than %d KiB", maxToken>>10))
	case strings.ContainsFunc(t.AccessToken, isForeign):
		return got, tokenProblem("the token of the token endpoint has characters that no header can have")
	case got.life <= 0:
		return got, tokenProblem("the token of the token endpoint has expired already")
	}
	return got, nil
}

// oauthCodes are the codes of errors in RFC 6749. Other codes are not repeated.
var oauthCodes = []string{"invalid_request", "invalid_client", "invalid_grant", "unauthorized_client", "unsupported_grant_type", "invalid_scope"}

// explain words the error of a request. Texts of the answer are not repeated.
func (c tokenClient) explain(ctx context.Context, err error) *tokenError {
	if ctx.Err() != nil {
		return tokenProblem(fmt.Sprintf("the token endpoint did not answer within %s", c.timeout))
	}
	if refused, ok := errors.AsType[*oauth2.RetrieveError](err); ok {
		status, code := refused.Response.StatusCode, refused.ErrorCode
		text := fmt.Sprintf("the token endpoint answered with status %d", status)
		switch {
		case slices.Contains(oauthCodes, code):
			text += fmt.Sprintf(" and the error %s", code)
		case status >= 300 && status < 400:
			text += "; a redirect is not followed"
		}
		problem := tokenProblem(text)
		problem.isRefusedClient = (status == http.StatusBadRequest || status == http.StatusUnauthorized) && slices.Contains([]string{"", "invalid_request", "invalid_client", "unauthorized_client"}, code)
		return problem
	}
	if errors.Is(err, errLongAnswer) {
		return tokenProblem(fmt.Sprintf("the answer of the token endpoint is longer than %d KiB", maxTokenAnswer>>10))
	}
	if _, isTransport := errors.AsType[*url.Error](err); isTransport {
		why, _, _ := describe(err, c.opts)
		return &tokenError{forScript: "the token endpoint cannot be reached", forLog: "the token endpoint cannot be reached: " + why}
	}
	return tokenProblem("the answer of the token endpoint has no access token")
}

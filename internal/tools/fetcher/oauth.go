package fetcher

import (
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// oauthType is the type of OAuth rules in files.
const oauthType = "oauth_client_credentials"

// defaultOAuthHeader is the header of OAuth rules that name none.
const defaultOAuthHeader = "Authorization"

const (
	defaultRefreshBuffer = 30 * time.Second
	maxRefreshBuffer     = 24 * time.Hour
)

// OAuth gets the access tokens of a HeaderRule with the client credentials grant of OAuth 2.0.
type OAuth struct {
	// TokenURL is the token endpoint. It must be https, unless HeaderRule.Plain is set. It may
	// have a private address, and redirects of it are not followed.
	TokenURL string
	// ClientID and ClientSecret are the credentials.
	ClientID, ClientSecret string
	// Scope has the scopes of the tokens, separated by spaces. Default: none are asked for.
	Scope string
	// RefreshBuffer is the time before its expiry in which a token is replaced, at most half of
	// its life. Default: 30 s. A negative value means none. At most 24 h.
	RefreshBuffer time.Duration
}

// String returns the name of the host of the token endpoint.
func (o OAuth) String() string {
	u, err := url.Parse(o.TokenURL)
	if err != nil || u.Host == "" {
		return "OAuth"
	}
	return "OAuth with tokens of " + u.Host
}

// GoString returns String, because %#v would print the secret.
func (o OAuth) GoString() string { return o.String() }

// LogValue returns String.
func (o OAuth) LogValue() slog.Value { return slog.StringValue(o.String()) }

// check returns what is wrong, without the values.
func (o OAuth) check(isPlain bool) error {
	u, err := parseTarget(o.TokenURL, nil)
	switch {
	case o.TokenURL == "":
		return errors.New("token_url is missing")
	case err != nil || strings.Contains(o.TokenURL, "#"):
		return errors.New("token_url must be a URL such as https://issuer.example.com/oauth2/token")
	case u.Scheme != "https" && !isPlain:
		return errors.New("token_url must begin with https://, because the secret is sent to it; plain=true permits http")
	case o.ClientID == "":
		return errors.New("client_id is missing")
	case o.ClientSecret == "":
		return errors.New("client_secret is missing")
	case o.RefreshBuffer > maxRefreshBuffer:
		return fmt.Errorf("refresh_buffer_secs must be at most %d", int(maxRefreshBuffer.Seconds()))
	}
	return nil
}

// isAt reports whether a URL is on the host and port of the token endpoint.
func (o OAuth) isAt(u *url.URL) bool {
	at, err := parseTarget(o.TokenURL, nil)
	return err == nil && at.Hostname() == u.Hostname() && portOf(at) == portOf(u)
}

// refreshBuffer returns RefreshBuffer for the number of seconds of a rule.
func refreshBuffer(seconds int) (time.Duration, error) {
	switch limit := int(maxRefreshBuffer.Seconds()); {
	case seconds < 0 || seconds > limit:
		return 0, fmt.Errorf("refresh_buffer_secs must be a number of seconds, 0 to %d", limit)
	case seconds == 0:
		return -1, nil
	}
	return time.Duration(seconds) * time.Second, nil
}

// setFlag sets the value of a key of ParseHeaderFlag. The secret must be a reference.
func (o *OAuth) setFlag(key, value string, lookup func(string) (string, bool)) (err error) {
	switch key {
	case "token_url":
		o.TokenURL = value
	case "client_id":
		o.ClientID, err = expand(value, lookup)
	case "client_secret":
		if !reference.MatchString(value) {
			return errVisible
		}
		o.ClientSecret, err = expand(value, lookup)
	case "scope":
		o.Scope = value
	case "refresh_buffer_secs":
		seconds, wrong := strconv.Atoi(value)
		if wrong != nil {
			seconds = -1
		}
		o.RefreshBuffer, err = refreshBuffer(seconds)
	}
	return err
}

// fileAuth is the member auth of a rule in a file.
type fileAuth struct {
	Type              string `json:"type"`
	Header            string `json:"header"`
	TokenURL          string `json:"token_url"`
	ClientID          string `json:"client_id"`
	ClientSecret      string `json:"client_secret"`
	Scope             string `json:"scope"`
	RefreshBufferSecs *int   `json:"refresh_buffer_secs"`
}

// oauth returns the member with the references replaced.
func (a fileAuth) oauth(lookup func(string) (string, bool)) (*OAuth, error) {
	if a.Type != oauthType {
		return nil, fmt.Errorf("the type of auth must be %q", oauthType)
	}
	o := &OAuth{TokenURL: strings.TrimSpace(a.TokenURL), Scope: strings.TrimSpace(a.Scope)}
	var wrongID, wrongSecret, wrongBuffer error
	o.ClientID, wrongID = expand(strings.TrimSpace(a.ClientID), lookup)
	o.ClientSecret, wrongSecret = expand(strings.TrimSpace(a.ClientSecret), lookup)
	if a.RefreshBufferSecs != nil {
		o.RefreshBuffer, wrongBuffer = refreshBuffer(*a.RefreshBufferSecs)
	}
	return o, errors.Join(wrongID, wrongSecret, wrongBuffer)
}

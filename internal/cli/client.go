package cli

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
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
	switch {
	case u != nil && u.User != nil, (err != nil || u.Host == "") && strings.Contains(f.Server, "@"): // the message must not print a password
		return errors.New("--server: the URL has user information; give a token with --token-file or $DAYBOOK_TOKEN")
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return fmt.Errorf("--server %q: give a URL such as http://127.0.0.1:8080", f.Server)
	case strings.ContainsAny(f.Server, "?#"): // a query may have a token
		return fmt.Errorf("--server %q: give the URL without a query or fragment, such as http://127.0.0.1:8080", f.Server[:strings.IndexAny(f.Server, "?#")])
	}
	return nil
}

// api returns a client of the server that the flags name. It sends no request. The first
// request returns the error of a mistake in the flags.
func (f clientFlags) api() *client.Client {
	token, err := f.token()
	name := f.Server
	switch {
	case name == "" && f.DataDir == "":
		name = "the server"
	case name == "":
		name = "the process that owns " + f.DataDir
	}
	return client.New(cmp.Or(f.Server, defaultServer), client.Options{Token: token, HTTP: reach{f, err}, UserAgent: "daybook-cli/" + version(), Name: name})
}

// token returns the token, or an empty string. A flag takes precedence over an
// environment variable, for --token and --token-file alike.
func (f clientFlags) token() (string, error) {
	text := f.Token != "" && f.Token != os.Getenv("DAYBOOK_TOKEN")
	switch {
	case text && f.TokenFile != "":
		return "", usageError{errors.New("give --token or --token-file, not both")}
	case f.TokenFile == "" && f.Token != "" && !isToken(f.Token):
		name := "--token"
		if !text {
			name = "DAYBOOK_TOKEN"
		}
		return "", usageError{fmt.Errorf("%s has spaces, line breaks or other characters that no token has", name)}
	case f.TokenFile == "":
		return f.Token, nil
	}
	raw, err := os.ReadFile(f.TokenFile)
	if err != nil {
		return "", usageError{fmt.Errorf("--token-file: %w", err)}
	}
	token := strings.TrimSpace(string(raw))
	if !isToken(token) {
		return "", usageError{fmt.Errorf("--token-file %s: the file must hold one token and nothing else", f.TokenFile)}
	}
	return token, nil
}

// isToken reports whether a text can be a token in a header.
func isToken(text string) bool {
	return text != "" && !strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' })
}

// isLoopback reports whether host is this machine.
func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return strings.EqualFold(host, "localhost") || ip != nil && ip.IsLoopback()
}

// httpClient returns the client for --server. It trusts the certificates of --ca
// besides those of the system.
func (f clientFlags) httpClient() (*http.Client, error) {
	if f.CA == "" {
		return direct, nil
	}
	raw, err := os.ReadFile(f.CA)
	if err != nil {
		return nil, usageError{fmt.Errorf("--ca: %w", err)}
	}
	roots, err := x509.SystemCertPool()
	if err != nil {
		roots = x509.NewCertPool() // the system has no certificates
	}
	if !roots.AppendCertsFromPEM(raw) {
		return nil, usageError{fmt.Errorf("--ca %s: the file holds no certificate in PEM", f.CA)}
	}
	return &http.Client{CheckRedirect: direct.CheckRedirect, Transport: &http.Transport{
		Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: true, DisableKeepAlives: true,
		TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
	}}, nil
}

// certificateHint adds the remedy to an error about an untrusted certificate.
func certificateHint(err error) error {
	if _, ok := errors.AsType[x509.UnknownAuthorityError](err); ok {
		return fmt.Errorf("%w; name the certificate of the server, or of its authority, with --ca FILE or DAYBOOK_CA", err)
	}
	if _, ok := errors.AsType[x509.HostnameError](err); ok {
		return fmt.Errorf("%w; name the server with --server as its certificate does", err)
	}
	return err
}

package cli

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"os"
)

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

// certificateHint adds to an error about an untrusted certificate what the user can do.
func certificateHint(err error) error {
	if _, ok := errors.AsType[x509.UnknownAuthorityError](err); ok {
		return fmt.Errorf("%w; name the certificate of the server, or of its authority, with --ca FILE or DAYBOOK_CA", err)
	}
	if _, ok := errors.AsType[x509.HostnameError](err); ok {
		return fmt.Errorf("%w; name the server with --server as its certificate does", err)
	}
	return err
}

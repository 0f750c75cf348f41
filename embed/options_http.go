package embed

import (
	"errors"
	"net/url"
	"slices"
	"strings"

	"daybook/internal/web"
)

// HTTPOptions configure the HTTP listener.
type HTTPOptions struct {
	// Addr is the listen address, such as "127.0.0.1:8080". If it is empty, no address
	// is opened and only Handler serves. Fallback permits a free port if the port is
	// busy.
	Addr     string
	Fallback bool
	// Hosts are the accepted Host headers besides loopback names.
	Hosts []string
	// PublicURL is the address that clients use if a proxy changes it. Default: the
	// address of the request. Its host is accepted like Hosts.
	PublicURL string
	// CertFile and KeyFile make HTTP use TLS. The files may be replaced at any time.
	CertFile, KeyFile string
	// MaxConnections is the maximum number of open connections. Default: half of the
	// descriptors that the process may open, at most 4096. MaxConnectionsPerAddress is
	// the maximum from one address. Default: half of MaxConnections for an address of
	// another machine, and no separate limit for a loopback address, because all
	// clients of a proxy on this machine share it.
	MaxConnections           int
	MaxConnectionsPerAddress int
}

// validate returns the errors of the fields.
func (o HTTPOptions) validate() error {
	connections := optionRange[int]{most: maxCount, zero: "is the default"}
	problems := []error{
		connections.check("HTTP.MaxConnections", o.MaxConnections),
		connections.check("HTTP.MaxConnectionsPerAddress", o.MaxConnectionsPerAddress),
	}
	for _, host := range o.Hosts {
		problems = append(problems, ofField("HTTP.Hosts", web.CheckHost(host)))
	}
	if _, err := o.publicURL(); err != nil {
		problems = append(problems, err)
	}
	if (o.CertFile == "") != (o.KeyFile == "") {
		problems = append(problems, errors.New("HTTP.CertFile and HTTP.KeyFile belong together: give both or none"))
	}
	return errors.Join(problems...)
}

// publicURL returns PublicURL, or nil if it is not set.
func (o HTTPOptions) publicURL() (*url.URL, error) {
	if o.PublicURL == "" {
		return nil, nil
	}
	u, err := url.Parse(o.PublicURL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || web.CheckHost(u.Host) != nil || strings.Trim(u.Path, "/") != "" {
		return nil, fieldIs("HTTP.PublicURL", "%q: give a URL without a path, such as https://book.example.com", o.PublicURL)
	}
	return u, nil
}

// withDefaults adds the host of PublicURL to Hosts. The options MUST be valid.
func (o HTTPOptions) withDefaults() HTTPOptions {
	if u, err := o.publicURL(); err == nil && u != nil {
		o.PublicURL = u.Scheme + "://" + u.Host
		o.Hosts = append(slices.Clip(o.Hosts), u.Host)
	}
	return o
}

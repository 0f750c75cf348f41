package embed

import (
	"errors"
	"net/url"
	"slices"
	"strings"
	"time"

	"daybook/internal/redact"
	"daybook/internal/web"
)

// OwnerOptions configure how the process owns the data directory.
type OwnerOptions struct {
	// TakeOver makes Start and Rebuild ask an owner with Background to hand the data
	// directory over, and wait for it.
	TakeOver bool
	// Background makes an owner that releases the data directory on request of another
	// process, or after neither a client nor a run used it for IdleExit. If IdleExit is
	// 0 or less it is released only on request. The owner closes Released; the program
	// MUST then call Close.
	Background bool
	IdleExit   time.Duration
	// Settings are the flags of the program, as --name=value. Clients with other flags
	// receive the names of those that differ.
	Settings []string
	// Notice, if set, is called with each message to the user while Start waits. A
	// message is one line.
	Notice func(text string)
}

// validate returns the errors of the fields.
func (o OwnerOptions) validate() error {
	return optionRange[time.Duration]{least: 1, negative: "is unlimited"}.check("Owner.IdleExit", o.IdleExit)
}

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
		return nil, fieldIs("HTTP.PublicURL", "%q: give a URL without a path, such as https://book.example.com", redact.Address(o.PublicURL))
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

// AccessOptions select the accepted clients and the limits of tenants.
type AccessOptions struct {
	// TokenFile and OIDC select the bearer tokens that HTTP accepts. With neither,
	// every client that reaches the address is accepted. "daybook token create" creates
	// a TokenFile.
	TokenFile string
	OIDC      OIDC
	// Limits are the limits of each tenant.
	Limits Limits
	// SessionTurns is the maximum number of waiting turns in one logical session.
	// Default: 1,000. A negative number is unlimited.
	SessionTurns int
}

// validate returns the errors of the fields.
func (o AccessOptions) validate() error {
	return errors.Join(
		validateLimits(o.Limits),
		optionRange[int]{least: 1, most: maxCount, negative: "is unlimited"}.check("Access.SessionTurns", o.SessionTurns),
	)
}

// validateLimits returns the errors of the limits.
func validateLimits(l Limits) error {
	count, bytes := optionRange[int]{most: maxCount, zero: "is unlimited"}, optionRange[int64]{most: maxStoredBytes, zero: "is unlimited"}
	return errors.Join(
		optionRange[float64]{least: minRate, most: maxRate, unit: " a second", zero: "is unlimited"}.check("Access.Limits.RequestsPerSecond", l.RequestsPerSecond),
		count.check("Access.Limits.Runs", l.Runs),
		bytes.check("Access.Limits.OutputBytes", l.OutputBytes),
		bytes.check("Access.Limits.HeapBytes", l.HeapBytes),
		count.check("Access.Limits.Streams", l.Streams),
		count.check("Access.Limits.Sessions", l.Sessions),
		count.check("Access.Limits.TaggedHeaps", l.TaggedHeaps),
	)
}

// NATSOptions configure the NATS server that stores the ledger, and the listener of
// subscribers.
type NATSOptions struct {
	// Addr is the listen address for subscribers, such as "127.0.0.1:4222". If it is
	// empty, no address is opened. Fallback permits a free port if the port is busy.
	Addr     string
	Fallback bool
	// URL is the address of an outside NATS server or cluster that stores the ledger
	// instead of the embedded server. The data directory records the address and then
	// cannot be started without URL. A directory with a ledger of its own cannot be
	// started with URL, and a directory of an outside ledger cannot be started on a
	// server with another ledger.
	URL string
	// Replicas is the number of copies of each stream on a cluster. Default: 1.
	Replicas int
	// NoSync acknowledges events before they are on disk. Only for tests.
	NoSync bool
}

// validate returns the errors of the fields.
func (o NATSOptions) validate() error {
	var problem error
	if o.URL != "" && o.Addr != "" {
		problem = errors.New("NATS.URL and NATS.Addr exclude each other: an outside server does its own listening")
	}
	return errors.Join(problem, optionRange[int]{least: 1}.check("NATS.Replicas", o.Replicas))
}

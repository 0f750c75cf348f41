package embed

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

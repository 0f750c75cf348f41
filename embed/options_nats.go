package embed

import "errors"

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

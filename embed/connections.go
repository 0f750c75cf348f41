package embed

import (
	"context"
	"fmt"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sys/unix"

	"daybook/httpapi"
	"daybook/internal/owner"
	"daybook/internal/web/connections"
)

// bounds are the maximum numbers of connections of the listeners. Together they leave a
// quarter of the descriptors of the process to the ledger, the projections, the workers
// and everything else.
type bounds struct{ http, socket, nats int }

const (
	// maxConnections is the maximum number of open HTTP connections, unless the
	// operator sets another one. Each takes some 20 KiB, or 50 KiB with the largest
	// header.
	maxConnections = 4096
	// fewestConnections is the minimum for a listener, even if the process may open
	// only few descriptors.
	fewestConnections = 16
)

// connectionBounds divides the descriptors that this process may open. asked is the
// maximum number of HTTP connections that the operator set, or 0.
func connectionBounds(descriptors uint64, asked int) (bounds, error) {
	share := func(part uint64, most int) int {
		return max(fewestConnections, int(min(descriptors/part, uint64(most))))
	}
	b := bounds{http: share(2, maxConnections), socket: share(8, 512), nats: share(8, 1024)}
	if asked == 0 {
		return b, nil
	}
	if spare := uint64(b.socket + b.nats); uint64(asked)+spare > descriptors/4*3 {
		return b, fmt.Errorf("%d HTTP connections (--limit-connections) are too many: this process may open %d files, and the ledger, its workers and other listeners need some; choose at most %d, or raise the limit (ulimit -n %d)",
			asked, descriptors, max(0, int(descriptors/4*3)-int(spare)), (uint64(asked)+spare+2)*4/3)
	}
	b.http = asked
	return b, nil
}

// boundConnections sets the bounds of all listeners. The Go runtime has raised the soft
// limit of descriptors of the process to the hard limit. Children do not inherit that.
func (d *Daybook) boundConnections(context.Context) error {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return fmt.Errorf("read the limit of open files: %w", err)
	}
	b, err := connectionBounds(limit.Cur, d.opts.HTTP.MaxConnections)
	if err != nil {
		return asOption(err)
	}
	d.bounds = b
	limiter := func(name string, total, perAddress int) *connections.Limiter {
		return connections.New(connections.Options{
			Name: name, Total: total, PerAddress: perAddress,
			Refuse: httpapi.RefuseConnection, Health: isHealth, Logger: d.opts.Logger,
		})
	}
	d.httpConns = limiter("HTTP", b.http, d.opts.HTTP.MaxConnectionsPerAddress)
	d.socketConns = limiter(owner.SocketName, b.socket, 0)
	return nil
}

// isHealth reports whether a request is answered even if there are too many
// connections.
func isHealth(r *http.Request) bool {
	switch r.URL.Path {
	case "/healthz", "/readyz", "/metrics":
		return r.Method == http.MethodGet || r.Method == http.MethodHead
	}
	return false
}

// connectionMetrics sends the numbers of connections.
func (c *collector) connectionMetrics(out chan<- prometheus.Metric) {
	for _, l := range []struct {
		name    string
		limiter *connections.Limiter
		limit   int
	}{{"http", c.d.httpConns, c.d.bounds.http}, {"socket", c.d.socketConns, c.d.bounds.socket}} {
		s := l.limiter.Stats()
		out <- prometheus.MustNewConstMetric(desc("connections", "Open connections.", "listener"), prometheus.GaugeValue, float64(s.Open), l.name)
		out <- prometheus.MustNewConstMetric(desc("connections_busy", "Open connections that have a request.", "listener"), prometheus.GaugeValue, float64(s.Busy), l.name)
		out <- prometheus.MustNewConstMetric(desc("connections_limit", "Maximum number of open connections.", "listener"), prometheus.GaugeValue, float64(l.limit), l.name)
		out <- prometheus.MustNewConstMetric(desc("connections_closed_total", "Connections without a request that were closed for new ones.", "listener"), prometheus.CounterValue, float64(s.Closed), l.name)
		out <- prometheus.MustNewConstMetric(desc("connections_refused_total", "Connections that were refused because all others had requests.", "listener"), prometheus.CounterValue, float64(s.Refused), l.name)
	}
}

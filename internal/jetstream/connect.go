package jetstream

import (
	"log/slog"
	"time"

	"github.com/nats-io/nats.go"
)

// Conn is a connection to a NATS server. Who makes one closes it.
type Conn = nats.Conn

// Connect reaches an outside server or cluster; credentials are part of the
// URL.
func Connect(url, name string, log *slog.Logger) (*Conn, error) {
	return nats.Connect(url,
		nats.Name(name),
		nats.MaxReconnects(-1),
		nats.ReconnectWait(200*time.Millisecond),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			log.Warn("nats connection", slog.String("connection", name), slog.Any("error", err))
		}))
}

package jet

import (
	"log/slog"
	"time"

	"github.com/nats-io/nats.go"
)

// Conn is a connection to a NATS server. Who makes one closes it.
type Conn = nats.Conn

// syncQueueLen is how many messages the client holds of a subscription that is read one
// by one, at most: more than a runner asks for at once for a tenant. The client's default
// takes 512 KiB for each tenant that asked for a run in the last minute.
const syncQueueLen = 1024

// writeTime is how long a write to an outside server may take. The connection is locked
// meanwhile, also for those who only want to know whether there is one, and made again
// afterwards.
const writeTime = 3 * time.Second

// Connect reaches an outside server or cluster; credentials are part of the
// URL.
func Connect(url, name string, log *slog.Logger) (*Conn, error) {
	return nats.Connect(url,
		nats.Name(name),
		nats.SyncQueueLen(syncQueueLen),
		nats.MaxReconnects(-1),
		nats.ReconnectWait(200*time.Millisecond),
		nats.FlusherTimeout(writeTime),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			log.Warn("nats connection", slog.String("connection", name), slog.Any("error", err))
		}))
}

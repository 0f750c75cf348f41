package torture_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"daybook/internal/dev/tier"
	"daybook/internal/web/client"
)

// startFiles lists files in the order in which a first start creates them.
var startFiles = []string{
	"lock", "mark",
	"jetstream/jetstream/$G/streams/LEDGER-0001",
	"jetstream/jetstream/$G/streams/LEDGER-0001/meta.inf",
	"jetstream/jetstream/$G/streams/LEDGER-0001/meta.sum",
	"jetstream/jetstream/$G/streams/OBJ_BLOBS",
	"jetstream/jetstream/$G/streams/OBJ_BLOBS/meta.inf",
	"jetstream/jetstream/$G/streams/OBJ_BLOBS/meta.sum",
	"descriptions/LEDGER-0001/meta.inf",
	"descriptions/OBJ_BLOBS/meta.sum",
	"projections.db",
	"audit", "audit/key", "audit/ledger.json",
	"jetstream/jetstream/$G/streams/LEDGER-0001/obs/runners-default=default",
	"jetstream/jetstream/$G/streams/LEDGER-0001/obs/runners-default=default/meta.inf",
}

// TestKillAtStart kills servers with SIGKILL while they create a data directory, a random
// time after one of its files appears. Each next start succeeds: no operator has to accept
// damage.
func TestKillAtStart(t *testing.T) {
	runInParallel(t)
	setSeed()
	rounds, lanes := tier.Choose(2, 60), 2
	t.Logf("%d directories, -seed=%d", rounds, *seed)
	for lane := range lanes {
		t.Run(fmt.Sprint("lane ", lane), func(t *testing.T) {
			t.Parallel()
			killAtStart(t, rounds/lanes, rand.New(rand.NewPCG(*seed, uint64(10+lane))))
		})
	}
}

func killAtStart(t *testing.T, rounds int, random *rand.Rand) {
	for range rounds {
		s := newServer(t)
		for at := random.IntN(len(startFiles)); at < len(startFiles); at += 1 + random.IntN(len(startFiles)) {
			s.launch()
			s.killAfter(startFiles[at], time.Duration(random.Int64N(int64(4*time.Millisecond))))
		}
		s.start()
		if _, err := s.api().Submit(t.Context(), client.Run{Code: "6 * 7"}); err != nil {
			t.Fatalf("after the kills a run is answered %v:\n%s", err, s.log.String())
		}
		s.kill()
		s.start()
		s.kill()
	}
}

// killAfter kills the server a time after a file exists. If the file does not appear within
// 2 s, the server is ready, and killAfter kills it then.
func (s *server) killAfter(file string, pause time.Duration) {
	s.t.Helper()
	deadline := time.Now().Add(2 * time.Second) // longer than a start takes
	for time.Now().Before(deadline) && !s.exited() {
		if _, err := os.Stat(filepath.Join(s.dir, file)); err == nil {
			break
		}
		time.Sleep(50 * time.Microsecond) // polling another process
	}
	if s.exited() {
		s.t.Fatalf("the server ended without a stop:\n%s", s.log.String())
	}
	time.Sleep(pause)
	s.kill()
}

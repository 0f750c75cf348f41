package embed_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"sync"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"daybook/embed"
	"daybook/events"
	"daybook/internal/dev/tier"
)

const (
	crowd        = 50 // MCP connections
	crowdedNames = 7  // sessions that they share
)

var runsEach = tier.Choose(2, 20)

// Fifty MCP clients over every transport, several for each session, run scripts while the
// server restarts. Every acknowledged run has one entry in the log of its session. Every log
// is contiguous and in the order in which the runs ended.
func TestCrowdOfMCPClients(t *testing.T) {
	t.Parallel()
	ctx, stop := context.WithTimeout(t.Context(), 5*time.Minute)
	defer stop()
	v := &venue{dir: t.TempDir(), opened: make(chan struct{})}
	v.open(t)
	defer func() { closeBook(t, v.book) }()

	halfway := make(chan struct{}, crowd)
	acknowledged := make([]map[string]string, crowd) // execution -> its code
	var clients sync.WaitGroup
	for n := range crowd {
		acknowledged[n] = map[string]string{}
		clients.Go(func() {
			c := &visitor{n: n, venue: v, accepted: acknowledged[n]}
			defer c.leave()
			for run := range runsEach {
				if run == runsEach/2 {
					halfway <- struct{}{}
				}
				if err := c.run(ctx, fmt.Sprintf("'%s by %d, run %d'", c.session(), n, run)); err != nil {
					t.Errorf("client %d over %s, run %d: %v", n, c.how(), run, err)
					return
				}
			}
		})
	}
	for range crowd / 2 { // some clients have half of their runs behind them, others do not
		select {
		case <-halfway:
		case <-ctx.Done():
			t.Fatal("the clients make no progress")
		}
	}
	v.restart(t)
	clients.Wait()
	for n := range acknowledged {
		for id := range acknowledged[n] {
			if _, err := v.book.Wait(ctx, id); err != nil {
				t.Fatalf("client %d's run %s: %v", n, id, err)
			}
		}
	}
	checkCrowd(ctx, t, v.book, acknowledged)
}

// checkCrowd compares the session logs in the ledger with the answers to the clients.
func checkCrowd(ctx context.Context, t *testing.T, book *embed.Daybook, acknowledged []map[string]string) {
	t.Helper()
	waiting := map[string]string{} // acknowledged execution without an entry so far -> its session
	total := 0
	for n, runs := range acknowledged {
		for id := range runs {
			waiting[id] = sessionOf(n)
			total++
		}
	}
	if total < crowd*runsEach {
		t.Errorf("%d runs were acknowledged, want %d", total, crowd*runsEach)
	}
	next := map[string]int64{}
	last := map[string]uint64{} // position of the end of the run logged last
	seen := map[string]bool{}
	err := book.Follow(ctx, 0, func(batch []events.Event, _ uint64) error {
		for _, e := range batch {
			d, ok := e.Data.(*events.SessionEntryRecorded)
			if !ok {
				continue
			}
			if d.Index != next[d.Session] {
				t.Errorf("entry %d of %s is at index %d of the log", d.Index, d.Session, next[d.Session])
			}
			if d.TerminalSeq <= last[d.Session] {
				t.Errorf("entry %d of %s is of a run that ended before the run of the entry before", d.Index, d.Session)
			}
			if want, ok := waiting[d.ExecutionID]; ok && want != d.Session {
				t.Errorf("a run of %s is in the log of %s", want, d.Session)
			}
			if seen[d.ExecutionID] {
				t.Errorf("run %s has two entries", d.ExecutionID)
			}
			next[d.Session]++
			last[d.Session], seen[d.ExecutionID] = d.TerminalSeq, true
			delete(waiting, d.ExecutionID)
		}
		if len(waiting) == 0 {
			return io.EOF
		}
		return nil
	})
	if err != io.EOF {
		t.Fatalf("%d runs have no entry: %v", len(waiting), err)
	}
	if len(next) != crowdedNames {
		t.Errorf("%d sessions have entries, want %d", len(next), crowdedNames)
	}
}

// venue is a Daybook that may be closed and opened again.
type venue struct {
	dir string

	mu     sync.Mutex // guards the fields below
	book   *embed.Daybook
	opened chan struct{} // closed while the book is open
}

func (v *venue) open(t *testing.T) {
	t.Helper()
	book, err := embed.Start(within(t), embed.Options{DataDir: v.dir, HTTP: embed.HTTPOptions{Addr: "127.0.0.1:0"}, NATS: embed.NATSOptions{NoSync: true}, Runs: embed.RunOptions{DrainWait: -1}})
	if err != nil {
		t.Fatal(err)
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.book = book
	close(v.opened)
}

func (v *venue) restart(t *testing.T) {
	t.Helper()
	v.mu.Lock()
	book := v.book
	v.opened = make(chan struct{})
	v.mu.Unlock()
	closeBook(t, book)
	v.open(t)
}

// url waits until the venue is open and returns its address.
func (v *venue) url(ctx context.Context) (string, error) {
	v.mu.Lock()
	opened := v.opened
	v.mu.Unlock()
	select {
	case <-opened:
	case <-ctx.Done():
		return "", ctx.Err()
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.book.URL(), nil
}

// visitor is an MCP client that connects again when its connection breaks.
type visitor struct {
	n        int
	venue    *venue
	accepted map[string]string

	conn *sdk.ClientSession
	hang func() // ends the resources of the connection
}

func sessionOf(n int) string { return fmt.Sprintf("session %d", n%crowdedNames) }

func (c *visitor) session() string { return sessionOf(c.n) }

// how returns the name of the transport of the visitor.
func (c *visitor) how() string {
	return []string{"Streamable HTTP of 2025-11-25", "Streamable HTTP of 2026-07-28", "SSE", "stdio"}[c.n%4]
}

// run submits a script until it is accepted. A try that fails without an answer may have been
// accepted too; only answered tries count.
func (c *visitor) run(ctx context.Context, code string) error {
	for {
		err := c.try(ctx, code)
		if err == nil || ctx.Err() != nil {
			return err
		}
		c.leave()
		select {
		case <-time.After(10 * time.Millisecond): // the server is being restarted
		case <-ctx.Done():
			return err
		}
	}
}

func (c *visitor) try(ctx context.Context, code string) error {
	ctx, stop := context.WithTimeout(ctx, patience)
	defer stop()
	if c.conn == nil {
		if err := c.enter(ctx); err != nil {
			return err
		}
	}
	r, err := c.conn.CallTool(ctx, &sdk.CallToolParams{Name: "run_js", Arguments: map[string]any{"code": code}})
	if err != nil {
		return err
	}
	raw, err := json.Marshal(r.Content)
	if err != nil || r.IsError || len(r.Content) != 1 {
		return fmt.Errorf("run_js: %s, %w", raw, err)
	}
	var answer struct {
		ExecutionID string `json:"execution_id"`
	}
	if err := json.Unmarshal([]byte(r.Content[0].(*sdk.TextContent).Text), &answer); err != nil || answer.ExecutionID == "" {
		return fmt.Errorf("run_js: %s, %w", raw, err)
	}
	c.accepted[answer.ExecutionID] = code
	return nil
}

// enter connects over the transport of the visitor, with its session name.
func (c *visitor) enter(ctx context.Context) error {
	url, err := c.venue.url(ctx)
	if err != nil {
		return err
	}
	client := sdk.NewClient(&sdk.Implementation{Name: "visitor", Version: "1"}, nil)
	pool := &http.Transport{}
	web := &http.Client{Transport: named{pool, c.session()}}
	c.hang = pool.CloseIdleConnections
	var transport sdk.Transport
	opts := &sdk.ClientSessionOptions{ProtocolVersion: "2025-11-25"}
	switch c.n % 4 {
	case 0:
		transport = &sdk.StreamableClientTransport{Endpoint: url + "/mcp", HTTPClient: web, MaxRetries: -1}
	case 1:
		opts.ProtocolVersion = "2026-07-28"
		transport = &sdk.StreamableClientTransport{Endpoint: url + "/mcp", HTTPClient: web, MaxRetries: -1}
	case 2:
		transport = &sdk.SSEClientTransport{Endpoint: url + "/sse", HTTPClient: web}
	default:
		theirs, in := io.Pipe()
		out, mine := io.Pipe()
		life, end := context.WithCancel(context.Background())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			err := embed.Attach(life, embed.Client{DataDir: c.venue.dir, SessionID: c.session()}, theirs, mine)
			mine.CloseWithError(err)
			theirs.CloseWithError(io.ErrClosedPipe)
		}()
		c.hang = func() {
			end()
			in.Close()
			<-ended
		}
		transport = &sdk.IOTransport{Reader: out, Writer: in}
	}
	c.conn, err = client.Connect(ctx, transport, opts)
	if err != nil {
		c.hang()
		c.conn, c.hang = nil, nil
	}
	return err
}

func (c *visitor) leave() {
	if c.conn == nil {
		return
	}
	_ = c.conn.Close() // it may be broken already
	c.hang()
	c.conn, c.hang = nil, nil
}

// named sends the name of a session with every request.
type named struct {
	next    http.RoundTripper
	session string
}

func (n named) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("X-MCP-Session-Id", n.session)
	return n.next.RoundTrip(r)
}

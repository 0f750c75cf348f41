package link_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"daybook/internal/link"
)

// A client that receives its messages too slowly loses the connection. The server then
// ends, and nothing waits.
func TestSlowClients(t *testing.T) {
	t.Parallel()
	const window = 50 * time.Millisecond
	for name, read := range map[string]func(io.Reader){
		"reads nothing": func(io.Reader) {},
		"reads a little": func(r io.Reader) {
			for p := make([]byte, 512); ; time.Sleep(time.Millisecond) {
				if _, err := r.Read(p); err != nil {
					return
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			near, far := pair(t)
			defer near.Close()
			ctx, detach := context.WithCancel(t.Context())
			defer detach()
			conn := link.NewConn(far, bufio.NewReader(far), link.Options{
				Protocol: link.MCP, Connection: "c", Pace: link.Pace{Bytes: 1 << 20, Window: window}, OnStall: detach,
			})
			go read(near)
			ended := make(chan error, 1)
			go func() {
				ended <- conn.Serve(ctx, func(ctx context.Context, _ io.Reader, out io.Writer) error {
					line := `{"jsonrpc":"2.0","method":"x","params":{"text":"` + strings.Repeat("x", 64<<10) + "\"}}\n"
					for {
						if _, err := io.WriteString(out, line); err != nil {
							<-ctx.Done()
							return err
						}
					}
				})
			}()
			select {
			case err := <-ended:
				if err == nil || !strings.Contains(err.Error(), "too slowly") {
					t.Errorf("the server's write fails with %v", err)
				}
			case <-time.After(patience):
				t.Fatal("the client is served on")
			}
		})
	}
}

// A client that reads at once is not slow, for any number of messages.
func TestSteadyClient(t *testing.T) {
	t.Parallel()
	const window, total = patience, 32
	near, far := pair(t)
	defer near.Close()
	conn := link.NewConn(far, bufio.NewReader(far), link.Options{
		Protocol: link.MCP, Connection: "c", Pace: link.Pace{Bytes: 64 << 10, Window: window}, OnStall: func() { t.Error("it counts as slow") },
	})
	var got atomic.Int64
	read := make(chan struct{})
	go func() {
		defer close(read)
		n, _ := io.Copy(io.Discard, near)
		got.Store(n)
	}()
	err := conn.Serve(t.Context(), func(_ context.Context, _ io.Reader, out io.Writer) error {
		line := `{"jsonrpc":"2.0","method":"x","params":{"text":"` + strings.Repeat("x", 256<<10) + "\"}}\n"
		for range total {
			if _, err := io.WriteString(out, line); err != nil {
				return err
			}
		}
		return nil
	})
	if <-read; err != nil || got.Load() < total*256<<10 {
		t.Errorf("%d bytes arrive, %v", got.Load(), err)
	}
}

// Memory for a large line is held from before it is read until the server has it.
func TestLinesHoldMemory(t *testing.T) {
	t.Parallel()
	near, far := pair(t)
	defer near.Close()
	var held atomic.Int64
	allowed := make(chan struct{})
	conn := link.NewConn(far, bufio.NewReader(far), link.Options{
		Protocol: link.MCP, Connection: "c",
		HoldLine: func(n int64) (func(), error) {
			held.Add(n)
			<-allowed
			return func() { held.Add(-n) }, nil
		},
	})
	small, large := `{"small":true}`, strings.Repeat(" ", 100<<10)
	go func() {
		for i, line := range []string{small, large} {
			if err := link.WriteLine(near, uint64(i+1), line); err != nil {
				t.Error(err)
			}
		}
	}()
	go io.Copy(io.Discard, near)
	err := conn.Serve(t.Context(), func(_ context.Context, in io.Reader, _ io.Writer) error {
		r := bufio.NewReader(in)
		if line, err := r.ReadString('\n'); err != nil || line != small+"\n" {
			return errors.Join(err, errors.New("the small line is "+line))
		}
		if line := make([]byte, 1); r.Buffered() != 0 {
			t.Errorf("%q comes before there is memory", line)
		}
		for deadline := time.Now().Add(patience); held.Load() != 3*100<<10; time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				return errors.New("no memory is held")
			}
		}
		close(allowed)
		_, err := r.ReadString('\n')
		return err
	})
	if err != nil {
		t.Error(err)
	}
	for deadline := time.Now().Add(patience); held.Load() != 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d bytes are held after the server has the line", held.Load())
		}
	}
}

package mcp

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// After the end of the input the connection waits while calls are answered, and ends if
// no call is answered for eofTimeout.
func TestAnswersAfterTheEndOfTheInput(t *testing.T) {
	t.Parallel()
	const grace, pause = 1500 * time.Millisecond, time.Second
	for _, test := range []struct {
		answers int // of 4 calls
		want    time.Duration
	}{
		{4, 4 * pause},
		{2, 2*pause + grace},
		{0, grace},
	} {
		t.Run(fmt.Sprintf("%d answers", test.answers), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var in strings.Builder
				for id := range 4 {
					fmt.Fprintf(&in, `{"jsonrpc":"2.0","id":%d,"method":"ping"}`+"\n", id+1)
				}
				var out bytes.Buffer
				c := newLineConn(t.Context(), strings.NewReader(in.String()), &out, grace)
				ids := make([]jsonrpc.ID, 4)
				for i := range ids {
					msg, err := c.Read(t.Context())
					if err != nil {
						t.Fatal(err)
					}
					ids[i] = msg.(*jsonrpc.Request).ID
				}
				begin := time.Now()
				go func() {
					for _, id := range ids[:test.answers] {
						time.Sleep(pause)
						if err := c.Write(t.Context(), &jsonrpc.Response{ID: id, Result: []byte("{}")}); err != nil {
							t.Error(err)
						}
					}
				}()
				if _, err := c.Read(t.Context()); !errors.Is(err, io.EOF) {
					t.Errorf("Read at the end: %v, want EOF", err)
				}
				if took := time.Since(begin); took != test.want {
					t.Errorf("the connection ended after %v, want %v", took, test.want)
				}
				if n := bytes.Count(out.Bytes(), []byte("\n")); n != test.answers {
					t.Errorf("%d answers were written, want %d", n, test.answers)
				}
			})
		})
	}
}

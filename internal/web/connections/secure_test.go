package connections

import (
	"crypto/tls"
	"net"
	"testing"
)

// A connection whose handshake completes when the listener is closed is closed and no
// longer counted.
func TestCloseAfterHandshake(t *testing.T) {
	t.Parallel()
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := New(Options{Name: "test", Total: 10})
	s := l.SecureListener(inner, &tls.Config{Certificates: []tls.Certificate{certificate()}, NextProtos: []string{"h2"}})
	client, err := tls.Dial("tcp", inner.Addr().String(), &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	(&testServer{limiter: l}).eventually(t, "the connection is ready", func(Stats) bool { return l.surplus.connections.Load() == 1 })
	s.Close()
	if _, err := client.Read(make([]byte, 1)); err == nil {
		t.Error("the connection is open")
	}
	(&testServer{limiter: l}).eventually(t, "no connection is counted", func(st Stats) bool { return st.Open == 0 && l.surplus.connections.Load() == 0 })
}

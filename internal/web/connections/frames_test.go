package connections

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// ownErrors lists the errors by which a frameConn is stricter than net/http.
var ownErrors = []error{errTooManyFrames, errOutOfOrder, errPadding, errNoPreface, errEarlier, errIdle, errTableSize, errEmpty, errLarge, errStalled}

// seenFrame is a frame, or a header with its CONTINUATION frames, as a Framer reads it.
type seenFrame struct {
	header    http2.FrameHeader
	fields    int
	size      int
	truncated bool
	refused   bool // the stream is
}

// readFrames returns the frames that a Framer reads, and calls each after each frame.
func readFrames(r io.Reader, each func(seenFrame)) (err error) {
	framer := http2.NewFramer(io.Discard, r)
	framer.SetMaxReadFrameSize(frameBytes)
	framer.ReadMetaHeaders = hpack.NewDecoder(hpackTable, nil)
	framer.MaxHeaderListSize = 1 << 20
	for {
		f, err := framer.ReadFrame()
		var seen seenFrame
		switch f := f.(type) {
		case nil:
			if _, ok := errors.AsType[http2.StreamError](err); !ok {
				return err
			}
			seen.refused = true
		case *http2.MetaHeadersFrame:
			if err != nil {
				return err
			}
			seen.header, seen.truncated = f.Header(), f.Truncated
			for _, field := range f.Fields {
				seen.fields++
				seen.size += int(field.Size())
			}
		default:
			seen.header = f.Header()
		}
		each(seen)
	}
}

// wireOf returns the frames that a function writes.
func wireOf(write func(*http2.Framer)) []byte {
	var b bytes.Buffer
	f := http2.NewFramer(&b, nil)
	f.AllowIllegalWrites = true
	write(f)
	return b.Bytes()
}

// indexed is a request that uses only the static table. growing adds entries to the
// dynamic table. reference uses the newest of them.
var (
	indexed   = []byte{0x82, 0x84, 0x87}
	holding   = []byte{0x82, 0x85, 0x87}
	growing   = []byte("\x82\x84\x87\x40\x03x-a\x05value")
	reference = []byte("\x82\x84\x87\xbe")
	smaller   = []byte("\x20\x3f\xe1\x1f\x82\x84\x87") // a table of 0 bytes, then of 4,096
)

func framesOfSeeds() [][]byte {
	head := func(f *http2.Framer, stream uint32, block []byte, flags http2.Flags) {
		f.WriteRawFrame(http2.FrameHeaders, flags|flagEndHeaders, stream, block)
	}
	return [][]byte{
		wireOf(func(f *http2.Framer) {
			head(f, 1, growing, flagEndStream)
			head(f, 3, reference, flagEndStream)
			f.WriteSettings(http2.Setting{ID: http2.SettingHeaderTableSize, Val: 0})
			head(f, 5, reference, flagEndStream)
			head(f, 7, smaller, 0)
			head(f, 9, reference, 0)
		}),
		wireOf(func(f *http2.Framer) {
			f.WriteRawFrame(http2.FrameHeaders, 0, 1, growing[:9])
			f.WriteContinuation(1, false, nil)
			f.WriteContinuation(1, true, growing[9:])
			f.WriteRawFrame(http2.FrameHeaders, flagPadded|flagPriority|flagEndHeaders, 3, append([]byte{3, 0, 0, 0, 1, 7}, "\x82\x84\x87\xbepad"...))
			f.WriteRawFrame(http2.FrameHeaders, flagPadded, 5, []byte{9, 0x82})
			f.WriteContinuation(5, true, growing)
			head(f, 7, reference, 0)
		}),
		wireOf(func(f *http2.Framer) {
			head(f, 1<<31-1, malformedHeader, flagEndStream)
			for stream := uint32(1); stream < 9; stream += 2 {
				head(f, stream, holding, flagEndStream)
			}
		}),
		wireOf(func(f *http2.Framer) {
			head(f, 1, malformedHeader, 0)
			head(f, 1, holding, flagEndStream)
			f.WriteWindowUpdate(3, 0)
			head(f, 3, holding, flagEndStream)
			f.WritePriority(5, http2.PriorityParam{StreamDep: 5})
			head(f, 5, holding, flagEndStream)
		}),
		wireOf(func(f *http2.Framer) {
			head(f, 1, holding, 0)
			f.WriteData(1, false, []byte("body"))
			f.WriteDataPadded(1, false, []byte("body"), []byte("pad"))
			head(f, 1, []byte{0x40, 1, 'a', 1, 'b'}, flagEndStream)
			f.WriteData(1, true, nil)
			f.WriteRSTStream(1, http2.ErrCodeCancel)
			head(f, 3, indexed, 0)
			f.WriteRSTStream(3, http2.ErrCodeCancel)
			head(f, 3, []byte{0x40, 1, 'a', 1, 'b'}, flagEndStream)
		}),
		wireOf(func(f *http2.Framer) {
			head(f, 1, holding, flagEndStream)
			f.WriteRawFrame(0xfa, 0xff, 1, []byte("unknown"))
			f.WritePushPromise(http2.PushPromiseParam{StreamID: 1, PromiseID: 2, BlockFragment: indexed, EndHeaders: true})
		}),
		wireOf(func(f *http2.Framer) {
			head(f, 1, holding, flagEndStream)
			f.WriteGoAway(0, http2.ErrCodeNo, []byte("why"))
			head(f, 3, growing, flagEndStream)
			head(f, 5, reference, flagEndStream)
			f.WriteSettingsAck()
			f.WriteWindowUpdate(0, 1<<30)
			f.WriteWindowUpdate(1, 1<<31-1)
			f.WriteRSTStream(1, http2.ErrCodeNo)
		}),
		wireOf(func(f *http2.Framer) {
			head(f, 2, indexed, flagEndStream)
			f.WriteRawFrame(http2.FrameRSTStream, 0, 2, []byte{0})
			f.WriteRawFrame(http2.FramePriority, 0, 2, []byte{0, 0, 0, 2})
			f.WriteRawFrame(http2.FramePing, 0, 0, []byte("short"))
			f.WriteRawFrame(http2.FrameHeaders, flagPadded|flagPriority|flagEndHeaders, 3, []byte{0, 1})
			f.WriteContinuation(9, true, indexed)
		}),
		wireOf(func(f *http2.Framer) {
			head(f, 1, nil, 0)
		}),
	}
}

// FuzzFrames compares the frames and headers that a frameConn follows with those that a
// Framer reads, for any division of their bytes. The frameConn may end earlier.
func FuzzFrames(f *testing.F) {
	for i, wire := range framesOfSeeds() {
		f.Add(wire, uint16(i+1))
		f.Add(wire, uint16(len(wire)))
	}
	f.Fuzz(func(t *testing.T, wire []byte, size uint16) {
		if len(wire) > maxPlaces*frameHeaderBytes {
			return // more streams than have places: they would wait
		}
		var want []seenFrame
		wantErr := readFrames(bytes.NewReader(wire), func(f seenFrame) { want = append(want, f) })
		all := append([]byte(preface), wire...)
		inner := &wireConn{Reader: dividedReader{bytes.NewReader(all), max(1, int(size))}, closed: make(chan struct{})}
		c := newFrameConn(inner, &conn{Conn: inner, limiter: New(Options{Total: 1000})})
		defer c.Close()
		if _, err := io.ReadFull(c, make([]byte, prefaceBytes)); err != nil {
			t.Fatal(err)
		}
		got := 0
		err := readFrames(c, func(f seenFrame) {
			if got == len(want) || f != want[got] {
				t.Fatalf("frame %d is %+v, a Framer alone reads %+v", got, f, want[min(got, len(want)-1):])
			}
			got++
			if f.refused || c.failed != nil {
				return
			}
			now := c.in.current
			if c.block.open || c.in.skip != 0 || c.in.have != 0 {
				t.Fatalf("behind frame %+v the frameConn is at %+v, skips %d, has %d", f.header, now, c.in.skip, c.in.have)
			}
			if f.header.Type != http2.FrameHeaders {
				if now != (frame{byte(f.header.Type), byte(f.header.Flags), f.header.StreamID, int(f.header.Length)}) {
					t.Fatalf("frame %+v is followed as %+v", f.header, now)
				}
				return
			}
			if f.truncated && c.block.size > 1<<20 {
				return
			}
			if c.block.fields != f.fields || c.block.size != f.size || now.stream != f.header.StreamID {
				t.Fatalf("a header of stream %d with %d fields, %d bytes is followed as %d, %d, %d",
					f.header.StreamID, f.fields, f.size, now.stream, c.block.fields, c.block.size)
			}
		})
		own := slices.ContainsFunc(ownErrors, func(own error) bool { return errors.Is(err, own) })
		switch {
		case own || got == len(want) && wantErr != nil && (c.failed == nil) == (fmt.Sprint(err) == fmt.Sprint(wantErr)):
		case got == len(want) && c.failed != nil: // net/http decodes after the header has ended
		case got < len(want) && want[got].refused: // a field that is not decoded, behind one that is refused
		default:
			t.Fatalf("behind %d of %d frames: %v, a Framer alone: %v", got, len(want), err, wantErr)
		}
	})
}

// frameServer serves frameConns of in-memory connections with net/http.
type frameServer struct {
	listener wireListener
	limiter  *Limiter
	mu       sync.Mutex
	conns    map[*conn]*frameConn
	held     map[*conn]int
	excess   map[*conn]string
}

func startFrameServer(t testing.TB) *frameServer {
	s := &frameServer{listener: wireListener{make(chan net.Conn), make(chan struct{})},
		conns: map[*conn]*frameConn{}, held: map[*conn]int{}, excess: map[*conn]string{}}
	server := &http.Server{Handler: http.HandlerFunc(s.serve), ErrorLog: log.New(io.Discard, "", 0), MaxHeaderBytes: 16 << 10}
	s.limiter = New(Options{Total: 1 << 20, Health: func(*http.Request) bool { return false }, Refuse: func(http.ResponseWriter, *http.Request) {}})
	s.limiter.Bind(server)
	go func() { _ = server.Serve(s.listener) }() // ends with Close
	t.Cleanup(func() { server.Close() })
	return s
}

// serve answers requests of "/" and holds others. It checks that each one has a place.
func (s *frameServer) serve(w http.ResponseWriter, r *http.Request) {
	below := r.Context().Value(connKey{}).(*conn)
	s.mu.Lock()
	c := s.conns[below]
	s.mu.Unlock()
	c.mu.Lock() // no place is released meanwhile
	running, places := s.limiter.countRunning(below), c.places
	c.mu.Unlock()
	if below.hasLateStream.Load() {
		places++
	}
	hold := r.URL.Path != "/"
	s.mu.Lock()
	if running > places {
		s.excess[below] = fmt.Sprintf("%d requests are served and have %d places", running, places)
	}
	if hold {
		s.held[below]++
	}
	s.mu.Unlock()
	if hold {
		<-r.Context().Done()
		s.mu.Lock()
		s.held[below]--
		s.mu.Unlock()
		return
	}
	_, _ = io.WriteString(w, "ok")
}

// send sends frames to the server and waits until it has handled all of them. It
// returns an error if the connection ends earlier.
func (s *frameServer) send(t testing.TB, wire []byte) (c *frameConn, done func(), err error) {
	t.Helper()
	mine, theirs := net.Pipe()
	below := s.limiter.admit(theirs)
	below.secure = &tls.ConnectionState{}
	c = newFrameConn(theirs, below)
	s.mu.Lock()
	s.conns[below] = c
	s.mu.Unlock()
	s.listener.conns <- c
	mine.SetDeadline(time.Now().Add(20 * time.Second))
	framer := http2.NewFramer(mine, mine)
	last := [8]byte{'t', 'h', 'e', ' ', 'e', 'n', 'd', '.'}
	var sent sync.WaitGroup
	sent.Go(func() {
		_, _ = io.WriteString(mine, preface) // the reader reports the error
		_ = framer.WriteSettings()
		_, _ = mine.Write(wire)
		_ = framer.WritePing(false, last)
	})
	for err == nil {
		var f http2.Frame
		f, err = framer.ReadFrame()
		if ping, ok := f.(*http2.PingFrame); ok && ping.IsAck() && ping.Data == last {
			break
		}
		if f, ok := f.(*http2.GoAwayFrame); ok && f.ErrCode != http2.ErrCodeNo {
			err = fmt.Errorf("the server closes the connection: %v", f.ErrCode)
		}
	}
	if e, ok := errors.AsType[net.Error](err); ok && e.Timeout() {
		t.Fatalf("no answer to %q: %v", wire, err)
	}
	go io.Copy(io.Discard, mine)
	return c, func() {
		mine.Close()
		sent.Wait()
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.conns, below)
		delete(s.held, below)
		if e := s.excess[below]; e != "" {
			t.Errorf("%s: %q", e, wire)
		}
	}, err
}

// wholeFrames returns the start of wire that ends with a complete frame.
func wholeFrames(wire []byte) []byte {
	used := 0
	var f frames
	for p := wire; len(p) > 0; {
		n, _ := f.next(p)
		p = p[n:]
		if f.skip == 0 && f.have == 0 {
			used = len(wire) - len(p)
		}
	}
	return wire[:used]
}

// FuzzStreams compares the streams that have places with the requests that net/http
// serves. Each request has a place, and no ended stream keeps one.
func FuzzStreams(f *testing.F) {
	for _, wire := range framesOfSeeds() {
		f.Add(wire)
	}
	s := startFrameServer(f)
	f.Fuzz(func(t *testing.T, wire []byte) {
		if len(wire) > maxPlaces*frameHeaderBytes {
			return // more streams than have places: they would wait
		}
		c, done, err := s.send(t, wholeFrames(wire))
		defer done()
		if err != nil {
			return
		}
		for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(time.Millisecond) {
			c.mu.Lock()
			open, closed := len(c.streams), c.closed
			c.mu.Unlock()
			s.mu.Lock()
			held := s.held[c.below]
			s.mu.Unlock()
			if open <= held || closed {
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("%d streams have places and %d requests are served: %q", open, held, wire)
			}
		}
	})
}

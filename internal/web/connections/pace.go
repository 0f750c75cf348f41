package connections

import (
	"container/list"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"
)

// pace lets the connections with surplus work take turns: it costs processor time that
// those without it need. A turn is one portion. Addresses take turns with each other, and
// the connections of an address take its turns one after the other: an address waits for
// one portion of each other address, however many connections that has.
//
// A connection is in the line at most once, and leaves it when it is closed. The bounds of
// the Limiter are those of the line.
type pace struct {
	// connections counts those of HTTP/2.
	connections atomic.Int64

	mu    sync.Mutex
	next  time.Time // until when the portions take that were given out
	line  list.List // of *lane, the next one first
	of    map[netip.Prefix]*list.Element
	timer *time.Timer // for the next portion, while the line is not empty
}

// lane holds the connections of an address that wait. It is in the line while it has some.
type lane struct {
	address netip.Prefix
	waiting list.List // of *waitingTurn, the next one first
}

// waitingTurn is a connection that waits for some portions.
type waitingTurn struct {
	portions int           // to wait for
	had      int           // given out of them
	complete chan struct{} // closed with the last one
}

// parts is into how many parts the free work of a connection is divided.
func (p *pace) parts() int {
	return min(max(1, int(p.connections.Load()+fewConnections-1)/fewConnections), mostParts)
}

// spend waits for the turns of some portions, or until done is closed: then they are not
// counted. Connections that share an address share its turns.
func (p *pace) spend(address netip.Prefix, portions int, done <-chan struct{}) error {
	w := &waitingTurn{portions: portions, complete: make(chan struct{})}
	p.mu.Lock()
	l, at := p.join(address, w)
	p.giveOut()
	p.mu.Unlock()
	select {
	case <-w.complete:
		return nil
	default:
	}
	select {
	case <-w.complete:
		return nil
	case <-done:
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if w.had == w.portions {
		return nil // meanwhile
	}
	p.next = p.next.Add(-time.Duration(w.had) * portionTime)
	p.leave(l, at)
	p.giveOut()
	return net.ErrClosed
}

// join puts a connection at the end of its lane. The caller must hold mu.
func (p *pace) join(address netip.Prefix, w *waitingTurn) (l *lane, at *list.Element) {
	e := p.of[address]
	if e == nil {
		if p.of == nil {
			p.of = map[netip.Prefix]*list.Element{}
		}
		e = p.line.PushBack(&lane{address: address})
		p.of[address] = e
	}
	l = e.Value.(*lane)
	return l, l.waiting.PushBack(w)
}

// leave takes a connection out of its lane, and an empty lane out of the line. The caller
// must hold mu.
func (p *pace) leave(l *lane, at *list.Element) {
	l.waiting.Remove(at)
	if l.waiting.Len() == 0 {
		p.line.Remove(p.of[l.address])
		delete(p.of, l.address)
	}
}

// giveOut gives out the portions whose time has come, and sets the timer for the next one.
// The caller must hold mu.
func (p *pace) giveOut() {
	now := time.Now()
	if burst := now.Add(-portionBurst * portionTime); p.next.Before(burst) {
		p.next = burst
	}
	for p.line.Len() > 0 {
		next := p.next.Add(portionTime)
		if wait := next.Sub(now); wait > 0 {
			if p.timer == nil {
				p.timer = time.AfterFunc(wait, p.giveNext)
			} else {
				p.timer.Reset(wait)
			}
			return
		}
		p.next = next
		e := p.line.Front()
		l := e.Value.(*lane)
		p.line.MoveToBack(e)
		first := l.waiting.Front()
		l.waiting.MoveToBack(first)
		if w := first.Value.(*waitingTurn); w.had+1 == w.portions {
			p.leave(l, first)
			w.had++
			close(w.complete)
		} else {
			w.had++
		}
	}
}

// giveNext is giveOut for the timer.
func (p *pace) giveNext() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.giveOut()
}

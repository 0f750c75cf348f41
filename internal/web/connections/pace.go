package connections

import (
	"container/list"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"
)

// turnQueue gives turns to connections with surplus work, because that work takes processor
// time from all others. In one turn a connection gets one portion. Addresses take turns
// with each other, and the connections of an address get its turns one after the other. So
// between two of its turns, an address waits for one portion of each other address, however
// many connections the other addresses have.
//
// A connection is in the line at most once, and leaves the line when the connection is
// closed. So the Limiter's limits also bound the line.
type turnQueue struct {
	// connections is the number of HTTP/2 connections.
	connections atomic.Int64

	mu        sync.Mutex
	next      time.Time // time at which the last given portion ends
	line      list.List // of *lane, in the order of their turns
	byAddress map[netip.Prefix]*list.Element
	timer     *time.Timer // for the next portion; set while the line is not empty
}

// lane holds the waiting connections of an address. Only a lane with connections is in
// the line.
type lane struct {
	address netip.Prefix
	waiting list.List // of *waitingTurn, in the order of their turns
}

// waitingTurn is a connection that waits for portions.
type waitingTurn struct {
	portions int           // to wait for
	received int           // received so far
	complete chan struct{} // closed with the last portion
}

// parts returns the number of parts that the free work of a connection is divided into.
func (p *turnQueue) parts() int {
	return min(max(1, int(p.connections.Load()+fewConnections-1)/fewConnections), maxParts)
}

// spend waits for a number of portions. If done is closed before spend has received all of
// them, it gives the received portions back and returns net.ErrClosed. Connections of the
// same address share the turns of the address.
func (p *turnQueue) spend(address netip.Prefix, portions int, done <-chan struct{}) error {
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
	if w.received == w.portions {
		return nil // received the last portion meanwhile
	}
	p.next = p.next.Add(-time.Duration(w.received) * portionTime)
	p.leave(l, at)
	p.giveOut()
	return net.ErrClosed
}

// join adds a connection to the end of its lane. The caller must hold mu.
func (p *turnQueue) join(address netip.Prefix, w *waitingTurn) (l *lane, at *list.Element) {
	e := p.byAddress[address]
	if e == nil {
		if p.byAddress == nil {
			p.byAddress = map[netip.Prefix]*list.Element{}
		}
		e = p.line.PushBack(&lane{address: address})
		p.byAddress[address] = e
	}
	l = e.Value.(*lane)
	return l, l.waiting.PushBack(w)
}

// leave removes a connection from its lane, and an empty lane from the line. The caller
// must hold mu.
func (p *turnQueue) leave(l *lane, at *list.Element) {
	l.waiting.Remove(at)
	if l.waiting.Len() == 0 {
		p.line.Remove(p.byAddress[l.address])
		delete(p.byAddress, l.address)
	}
}

// giveOut gives out the portions whose time has come, and sets the timer for the next
// one. The caller must hold mu.
func (p *turnQueue) giveOut() {
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
		if w := first.Value.(*waitingTurn); w.received+1 == w.portions {
			p.leave(l, first)
			w.received++
			close(w.complete)
		} else {
			w.received++
		}
	}
}

// giveNext calls giveOut for the timer.
func (p *turnQueue) giveNext() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.giveOut()
}

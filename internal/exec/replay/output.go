package replay

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"iter"
	"strings"
	"time"
	"unicode/utf8"

	"daybook/events"
)

// errReached stops the replay of a run that was stopped, once all of its record is
// reproduced.
var errReached = errors.New("the whole record is reproduced")

// errDiffers stops a replay whose output differs.
var errDiffers = errors.New("the output differs")

// outputComparison compares the output of a replay with the record while it is written. It
// holds no more than one piece of a line of each.
type outputComparison struct {
	// isStopped is true if the recorded run was stopped: further output of the replay is
	// then no difference. isTruncated is true if the record has only the beginning of the
	// output.
	isStopped, isTruncated bool

	next func() (events.Line, error, bool)
	stop func()

	// recorded is the rest of the recorded piece that is compared, with its line end;
	// start is the piece. After the last piece recorded is empty and isAtEnd is true.
	recorded string
	start    events.Line
	isAtEnd  bool
	err      error // the failure to read the record

	isNewPiece bool   // the level and the time of the recorded piece are not compared yet
	line       int64  // the number of the line that is compared
	isMidLine  bool   // a part of it is compared, and is equal
	equal      string // the last bytes of that part
	difference *Difference
	// readSum is that of the recorded pieces read so far, replaySum that of the replay.
	readSum, replaySum outputSum
}

// outputSum counts and hashes output.
type outputSum struct {
	lines, bytes int64
	hash         hash.Hash
}

func newOutputSum() outputSum { return outputSum{hash: sha256.New()} }

func (s *outputSum) add(text string) {
	s.hash.Write([]byte(text))
	s.bytes += int64(len(text))
	if strings.HasSuffix(text, "\n") {
		s.lines++
	}
}

// compareOutput returns a comparison with recorded output, which begins at a line. The
// caller MUST call stop.
func compareOutput(ctx context.Context, output func(context.Context, func(events.Line) error) error, firstLine int64) *outputComparison {
	errStop := errors.New("no further line is needed")
	next, stop := iter.Pull2(func(yield func(events.Line, error) bool) {
		err := output(ctx, func(l events.Line) error {
			if !yield(l, nil) {
				return errStop
			}
			return nil
		})
		if err != nil && !errors.Is(err, errStop) {
			yield(events.Line{}, err)
		}
	})
	return &outputComparison{next: next, stop: stop, line: firstLine, readSum: newOutputSum(), replaySum: newOutputSum()}
}

// load makes sure that recorded is not empty. It returns false after the last piece.
func (c *outputComparison) load() (bool, error) {
	for c.recorded == "" && !c.isAtEnd {
		if c.err != nil {
			return false, c.err
		}
		l, err, ok := c.next()
		if err != nil {
			c.err = err
			continue
		}
		c.start, c.recorded, c.isNewPiece, c.isAtEnd = l, textOf(l), true, !ok
		if !ok {
			c.recorded = ""
		}
		c.readSum.add(c.recorded)
	}
	return c.recorded != "", nil
}

// textOf returns the bytes of a piece in the output.
func textOf(l events.Line) string {
	if l.Continued {
		return l.Text
	}
	return l.Text + "\n"
}

// take compares a piece of the replay's output. It returns errDiffers at the first
// difference, and errors of the record.
func (c *outputComparison) take(l events.Line) error {
	text := textOf(l)
	c.replaySum.add(text)
	for text != "" {
		ok, err := c.load()
		if err != nil {
			return err
		}
		if !ok {
			return c.beyondRecord(text)
		}
		if c.isNewPiece {
			c.isNewPiece = false
			if err := c.compareStart(l); err != nil {
				return err
			}
		}
		n := min(len(text), len(c.recorded))
		if text[:n] != c.recorded[:n] {
			return c.differs(text)
		}
		c.advance(text[:n])
		text, c.recorded = text[n:], c.recorded[n:]
	}
	return nil
}

// compareStart compares the level and the time of a recorded piece with those of the line.
func (c *outputComparison) compareStart(l events.Line) error {
	recorded, replayed := cmp.Or(c.start.Level, events.LevelLog), cmp.Or(l.Level, events.LevelLog)
	if recorded == replayed && c.start.TimeMillis == l.TimeMillis {
		return nil
	}
	describe := func(l events.Line, level events.Level) string {
		at := time.UnixMilli(l.TimeMillis).UTC().Format("2006-01-02T15:04:05.000Z")
		return fmt.Sprintf("%s at %s: %s", level, at, excerpt(l.Text, 0, 0))
	}
	return c.report(describe(c.start, recorded), describe(l, replayed))
}

// advance notes that both outputs have text, which holds at most one line end, at its end.
func (c *outputComparison) advance(text string) {
	if strings.HasSuffix(text, "\n") {
		c.line++
		c.isMidLine, c.equal = false, ""
		return
	}
	c.isMidLine = true
	c.equal += text
	c.equal = c.equal[max(len(c.equal)-excerptBefore, 0):]
}

// beyondRecord is called for output after the last recorded piece.
func (c *outputComparison) beyondRecord(text string) error {
	switch {
	case c.isTruncated, c.isStopped:
		return nil // the end compares the hash of truncated output
	case c.isMidLine:
		return c.differs(text)
	}
	return c.report("(no further line)", excerpt(strings.TrimSuffix(text, "\n"), 0, 0))
}

// differs is called if the current line continues in different ways. The last line of a run
// that was stopped may have been cut: the record ends it where the worker had not.
func (c *outputComparison) differs(text string) error {
	recorded := c.recorded
	if c.isStopped && recorded == "\n" {
		c.recorded = ""
		ok, err := c.load()
		if err != nil {
			return err
		}
		if !ok {
			return nil
		}
	}
	return c.report(excerpts(c.equal+strings.TrimSuffix(recorded, "\n"), c.equal+strings.TrimSuffix(text, "\n")))
}

func (c *outputComparison) report(recorded, replayed string) error {
	c.difference = &Difference{Part: events.ReplayOutput, Line: c.line, Recorded: recorded, Replayed: replayed}
	return errDiffers
}

// isReproduced reports whether the replay has written all recorded output.
func (c *outputComparison) isReproduced() (bool, error) {
	left, err := c.load()
	return !left, err
}

// end compares the end of the output with its recorded totals, which count the output of
// earlier attempts too; nil for none. It returns errDiffers if recorded output is missing, or
// if the totals differ: from those of the replay, or for a run that was stopped, from those
// of the recorded output.
func (c *outputComparison) end(t *totals) error {
	left, err := c.load()
	switch {
	case err != nil:
		return err
	case left:
		return c.report(excerpt(c.equal+strings.TrimSuffix(c.recorded, "\n"), 0, len(c.equal)), c.equal+"(no further output)")
	case t == nil:
		return nil
	}
	// The record of truncated output ends at the limit, or before the character that exceeds it.
	if c.isTruncated && (t.limit <= 0 || t.recorded.Bytes-t.bytesBefore <= t.limit || c.readSum.bytes <= t.limit-utf8.UTFMax) {
		return c.report("(output is missing)", fmt.Sprintf("output is recorded up to %d bytes", t.limit))
	}
	found := &c.replaySum
	switch {
	case c.isStopped && c.isTruncated:
		return nil
	case c.isStopped:
		found = &c.readSum
	}
	sum, err := t.keyedHash(hex.EncodeToString(found.hash.Sum(nil)))
	if err != nil {
		return err
	}
	describe := func(lines, bytes int64, sum string) string {
		return fmt.Sprintf("%d lines, %d bytes, SHA-256 of the output %s", lines, bytes, sum)
	}
	recorded := describe(t.recorded.Lines, t.recorded.Bytes, t.recorded.SHA256)
	replayed := describe(t.linesBefore+found.lines, t.bytesBefore+found.bytes, sum)
	if recorded == replayed {
		return nil
	}
	return c.report(recorded, replayed)
}

// totals are the recorded totals of the output of a run.
type totals struct {
	recorded events.OutputTotals
	// linesBefore and bytesBefore count the output of earlier attempts.
	linesBefore, bytesBefore int64
	limit                    int64 // of the recorded output of an attempt in bytes
	// keyedHash returns a hash in the form of the record.
	keyedHash func(hash string) (string, error)
}

package streamfiles

import "daybook/internal/spans"

// Checked are the blocks in which a Check found no fault, by stream and name of the file. Another
// Check need not read a block that has the same size and time of modification: a server never changes
// the content of a file without changing its time. It is encoded as JSON.
type Checked map[string]map[string]CheckedBlock

// CheckedBlock is what a Check found in one block.
type CheckedBlock struct {
	// Size is in bytes, ModTime in nanoseconds since 1970. Both are from before the block was read.
	Size    int64 `json:"size"`
	ModTime int64 `json:"mod_time"`
	// First, Last, Highest and Gaps are those of Stream, for this block alone.
	First   uint64       `json:"first,omitempty"`
	Last    uint64       `json:"last,omitempty"`
	Highest uint64       `json:"highest,omitempty"`
	Gaps    []spans.Span `json:"gaps,omitempty"`
}

// find returns the entry of a block if the block has not changed.
func (c Checked) find(stream string, b block) (CheckedBlock, bool) {
	found, ok := c[stream][b.name]
	return found, ok && found.Size == b.size && found.ModTime == b.modTime
}

// add adds the positions of a block, which follows the blocks before it.
func (s *Stream) add(b CheckedBlock) {
	s.Highest = max(s.Highest, b.Highest)
	if b.First == 0 || b.Last <= s.Last {
		return
	}
	if s.First == 0 {
		s.First = b.First
	} else if b.First > s.Last+1 {
		s.Gaps = append(s.Gaps, spans.Span{From: s.Last + 1, To: b.First - 1})
	}
	for _, g := range b.Gaps {
		if g.To > s.Last {
			s.Gaps = append(s.Gaps, spans.Span{From: max(g.From, s.Last+1), To: g.To})
		}
	}
	s.Last = b.Last
}

// found adds a record of the block.
func (c *CheckedBlock) found(r Record) {
	c.Highest = max(c.Highest, r.Seq)
	switch {
	case r.isDeleted || r.Seq == 0:
	case c.First == 0:
		c.First, c.Last = r.Seq, r.Seq
	case r.Seq > c.Last:
		if r.Seq > c.Last+1 {
			c.Gaps = append(c.Gaps, spans.Span{From: c.Last + 1, To: r.Seq - 1})
		}
		c.Last = r.Seq
	}
}

package connections

import "time"

// Costs, in units, of work that a client causes without an answered request.
const (
	// resetWork is the cost of a reset stream. Its header costs one unit more for each
	// headerBytes. With a body the cost is bodyWork: most such requests are changes,
	// which are recorded in spite of the reset. answerWork is the cost of a frame that
	// is answered immediately.
	resetWork   = 512
	bodyWork    = 3 * resetWork
	headerBytes = 16
	answerWork  = 128
	// frameWork is the cost of any other frame without progress. Its payload costs one
	// unit more for each payloadBytes. Bytes of a body are progress: progressBytes of
	// them reduce the cost of their frame by one unit.
	frameWork     = 8
	payloadBytes  = 512
	progressBytes = 64
	// maxPadding is the maximum padding of a frame, including its length, in bytes.
	maxPadding = 256
	// A client sends a WINDOW_UPDATE for received answers, so earnBytes of answers pay
	// for one frame, and a request pays for requestFrames. maxEarned bounds the
	// credit, in frames.
	earnBytes     = 512
	requestFrames = 4
	maxEarned     = 8192
	// freeWork is the work that a connection may cause at once without waiting, and
	// freeRate the work per second. Further work waits for its turn, in portions. If there
	// are more than fewConnections connections, they share the free work of fewConnections
	// connections: freeWork and freeRate of each one are divided by a number, which is
	// maxParts at most.
	freeWork       = 16 * resetWork
	fewConnections = 64
	maxParts       = 16
	freeRate       = resetWork
	freeEach       = time.Second / freeRate
	portion        = resetWork
	// portionTime is the time between two portions, whichever connections get them.
	// portionBurst is the number of portions that may come at once.
	portionTime  = 2 * time.Millisecond
	portionBurst = 250
)

// surplus counts the work that the client of a connection causes without answered requests.
type surplus struct {
	work   int
	at     time.Time // time up to which the free rate is subtracted
	parts  int       // divides freeWork and freeRate, see turnQueue.parts; 0 means 1
	earned int       // bytes of credit for frames
}

// earn adds bytes of credit for frames.
func (s *surplus) earn(bytes int) { s.earned = min(s.earned+bytes, maxEarned*earnBytes) }

// frame counts a frame without progress.
func (s *surplus) frame(length int, now time.Time) {
	if s.earned >= earnBytes {
		s.earned -= earnBytes
		return
	}
	s.add(frameWork+length/payloadBytes, now)
}

// body counts a frame of a request's body.
func (s *surplus) body(length int, padded bool, now time.Time) {
	progress := length
	if padded {
		progress = max(0, length-maxPadding)
	}
	if work := frameWork - progress/progressBytes; work > 0 {
		s.add(work, now)
	}
}

func (s *surplus) add(work int, now time.Time) {
	each := freeEach * time.Duration(max(1, s.parts))
	free := int(now.Sub(s.at) / each)
	if s.work <= free {
		s.work, s.at = 0, now
	} else {
		s.work -= free
		s.at = s.at.Add(time.Duration(free) * each)
	}
	s.work += work
}

// due returns the number of portions that the client must wait for, and subtracts them.
func (s *surplus) due(now time.Time) (portions int) {
	free := freeWork / max(1, s.parts)
	if s.work < free+portion {
		return 0
	}
	s.add(0, now)
	portions = max(0, s.work-free) / portion
	s.work -= portions * portion
	return portions
}

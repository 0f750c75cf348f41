package connections

import "time"

// Work that a client causes without a request that is answered, in units.
const (
	// resetWork is that of a stream that is reset, beside its header of headerBytes for each
	// unit. With a body it is bodyWork: most such requests are changes, which are recorded
	// all the same. answerWork is that of a frame that is answered at once.
	resetWork   = 512
	bodyWork    = 3 * resetWork
	headerBytes = 16
	answerWork  = 128
	// frameWork is that of any other frame without progress, beside its payload of
	// payloadBytes for each unit. The bytes of a body are progress: progressBytes of them
	// make up for one unit of their frame.
	frameWork     = 8
	payloadBytes  = 512
	progressBytes = 64
	// maxPadding is the most padding of a frame, with its length, in bytes.
	maxPadding = 256
	// A client returns the window of what it gets: earnBytes of answers make up for one
	// frame, a request for requestFrames of them. mostEarned bounds that, in frames.
	earnBytes     = 512
	requestFrames = 4
	mostEarned    = 8192
	// freeWork and freeRate are how much of it a connection causes without a wait, at
	// once and in each second. What is beyond waits for its turn in portions. More
	// connections than fewConnections share what so many have, and each has at least
	// one of mostParts parts of it.
	freeWork       = 16 * resetWork
	fewConnections = 64
	mostParts      = 16
	freeRate       = resetWork
	freeEach       = time.Second / freeRate
	portion        = resetWork
	// portionTime is the time between two portions of all connections, portionBurst how
	// many of them come at once.
	portionTime  = 2 * time.Millisecond
	portionBurst = 250
)

// surplus counts such work of a connection.
type surplus struct {
	work   int
	at     time.Time // until when the free rate is subtracted
	parts  int       // into which freeWork and freeRate are divided, see pace.parts; 0 is 1
	earned int       // bytes that make up for frames
}

// earn counts bytes that make up for frames.
func (s *surplus) earn(bytes int) { s.earned = min(s.earned+bytes, mostEarned*earnBytes) }

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

// add counts work.
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

// due returns for how many portions the client has to wait, and counts them as done.
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

package natsserver

// FailWrites puts a server into the state after a failed write to the disk.
func FailWrites(s *Server, cause error) { s.writes.Load().fail(cause) }

// Halt stops the nats-server, as the first step of Reopen does.
func Halt(s *Server) { s.stop() }

// PendingAnswers returns the number of return paths for answers to subscribers that the
// server keeps.
func PendingAnswers(s *Server) int { return s.nats().GlobalAccount().NumPendingAllResponses() }

// PullBurst and PullRate bound the pulls with several answers.
const (
	PullBurst = pullBurst
	PullRate  = pullRate
)

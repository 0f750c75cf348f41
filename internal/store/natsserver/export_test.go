package natsserver

// FailWrites makes a server as it is when a write to the disk has failed.
func FailWrites(s *Server, cause error) { s.writes.Load().fail(cause) }

// Halt stops the nats-server, as the first step of Reopen does.
func Halt(s *Server) { s.stop() }

// PendingAnswers is how many ways back for answers to subscribers the server keeps.
func PendingAnswers(s *Server) int { return s.nats().GlobalAccount().NumPendingAllResponses() }

// PullBurst and PullRate bound the pulls with several answers.
const (
	PullBurst = pullBurst
	PullRate  = pullRate
)

package cli

import (
	"time"

	"daybook/embed"
)

// contextFlags are the flags of embed.ContextOptions.
type contextFlags struct {
	ContextIdle      time.Duration `name:"context-idle" option:"Contexts.Idle" help:"Idle time after which a conversation context is reset." default:"30m" placeholder:"DURATION"`
	ContextSessions  int           `name:"context-max-sessions" option:"Contexts.MaxSessions" help:"Conversation contexts held in memory; others are read when needed." default:"10000" placeholder:"N"`
	ContextMemory    int           `name:"context-memory" option:"Contexts.MaxMB" help:"Memory for conversation contexts, in MB." default:"64" placeholder:"MB"`
	ContextHighWater int           `name:"context-high-water" option:"Contexts.HighWaterMB" help:"Size of the Go heap, in MB, above which conversation contexts are dropped from memory." default:"512" placeholder:"MB"`
	ContextScope     string        `name:"context-scope" option:"Contexts.TenantScope" help:"Sharing of the conversation context of a session name with --auth: principal (each has its own) or tenant (one for all)." default:"principal" enum:"principal,tenant" placeholder:"SCOPE"`
	ContextSecrets   []string      `name:"context-secret-key" option:"Contexts.SecretKeys" help:"Part of the names whose values are kept out of conversation contexts, besides the usual ones; may be repeated." placeholder:"NAME"`
}

func (f contextFlags) options() embed.ContextOptions {
	return embed.ContextOptions{
		Idle: refuseZero(f.ContextIdle), MaxSessions: refuseZero(f.ContextSessions), MaxMB: refuseZero(f.ContextMemory), HighWaterMB: refuseZero(f.ContextHighWater),
		TenantScope: f.ContextScope == "tenant", SecretKeys: f.ContextSecrets,
	}
}

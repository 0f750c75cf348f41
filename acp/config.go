package acp

import (
	"context"
	"fmt"
	"strconv"

	sdk "github.com/coder/acp-go-sdk"

	"daybook/events"
)

// modeTexts describes the modes, in the order in which clients list them.
var modeTexts = []struct {
	mode              events.AgentMode
	name, description string
}{
	{events.AgentModeAsk, "Ask", "Ask before calling a tool that may destroy data"},
	{events.AgentModeAuto, "Auto", "Call every tool without asking"},
	{events.AgentModeReadOnly, "Read only", "Call only tools that declare that they change nothing"},
}

func modes(c events.AgentConfig) *sdk.SessionModeState {
	m := &sdk.SessionModeState{CurrentModeId: sdk.SessionModeId(c.Mode)}
	for _, t := range modeTexts {
		m.AvailableModes = append(m.AvailableModes, sdk.SessionMode{Id: sdk.SessionModeId(t.mode), Name: t.name, Description: &t.description})
	}
	return m
}

// The options of a session.
const (
	optionMode    = "mode"
	optionMemory  = "heap_memory"
	optionTimeout = "timeout"
)

// The values that a client can choose for the limits of a run, in MB and seconds.
var (
	memoryChoices  = []int{8, 16, 32, 64, 128, 256, 512, 1024}
	timeoutChoices = []int{5, 10, 30, 60, 120, 300}
)

// options returns the options of a session with their current values.
func (s *Server) options(c events.AgentConfig) []sdk.SessionConfigOption {
	byMode := make([]choice, 0, len(modeTexts))
	for _, t := range modeTexts {
		byMode = append(byMode, choice{string(t.mode), t.name, t.description})
	}
	memory := c.HeapMemoryMaxMB
	if memory == 0 {
		memory = s.opts.HeapMemoryMB
	}
	timeout := c.ExecutionTimeoutSecs
	if timeout == 0 {
		timeout = s.opts.TimeoutSecs
	}
	return []sdk.SessionConfigOption{
		option(optionMode, "Mode", "Tools that may be called without asking", "mode", string(c.Mode), byMode),
		option(optionMemory, "Heap memory", "Memory limit of a script", "", strconv.Itoa(memory), numberChoices(memoryChoices, memory, s.opts.HeapMemoryCeilingMB, "%d MB")),
		option(optionTimeout, "Time limit", "Time limit of a script", "", strconv.Itoa(timeout), numberChoices(timeoutChoices, timeout, 300, "%d s")),
	}
}

type choice struct{ value, name, description string }

// numberChoices returns the offered values up to limit, and the current value, in
// ascending order.
func numberChoices(offered []int, current, limit int, format string) []choice {
	var list []choice
	known := false
	add := func(n int) { list = append(list, choice{strconv.Itoa(n), fmt.Sprintf(format, n), ""}) }
	for _, n := range offered {
		if !known && n > current {
			known = true
			add(current)
		}
		if n == current {
			known = true
		}
		if n <= limit || n == current {
			add(n)
		}
	}
	if !known {
		add(current)
	}
	return list
}

func option(id, name, description, category, current string, choices []choice) sdk.SessionConfigOption {
	var list sdk.SessionConfigSelectOptionsUngrouped
	for _, c := range choices {
		o := sdk.SessionConfigSelectOption{Value: sdk.SessionConfigValueId(c.value), Name: c.name}
		if c.description != "" {
			o.Description = &c.description
		}
		list = append(list, o)
	}
	o := sdk.SessionConfigOptionSelect{
		Id: sdk.SessionConfigId(id), Name: name, Description: &description, Type: "select",
		CurrentValue: sdk.SessionConfigValueId(current), Options: sdk.SessionConfigSelectOptions{Ungrouped: &list},
	}
	if category != "" {
		kind := sdk.SessionConfigOptionCategory(category)
		o.Category = &kind
	}
	return sdk.SessionConfigOption{Select: &o}
}

func (c *client) setMode(ctx context.Context, p sdk.SetSessionModeRequest) (sdk.SetSessionModeResponse, error) {
	config, err := c.configure(ctx, string(p.SessionId), optionMode, string(p.ModeId))
	if err != nil {
		return sdk.SetSessionModeResponse{}, err
	}
	// The client knows the new mode from its own request, but not that the option of
	// the same name has changed.
	ctx = context.WithoutCancel(ctx)
	c.afterAnswer = func() {
		_ = c.sendUpdate(ctx, string(p.SessionId), sdk.SessionUpdate{ConfigOptionUpdate: &sdk.SessionConfigOptionUpdate{ConfigOptions: c.server.options(config)}})
	}
	return sdk.SetSessionModeResponse{}, nil
}

func (c *client) setOption(ctx context.Context, p sdk.SetSessionConfigOptionRequest) (sdk.SetSessionConfigOptionResponse, error) {
	if p.ValueId == nil {
		return sdk.SetSessionConfigOptionResponse{}, invalid("no option is a boolean; value must be the id of one of the option's values")
	}
	id := string(p.ValueId.SessionId)
	config, err := c.configure(ctx, id, string(p.ValueId.ConfigId), string(p.ValueId.Value))
	if err != nil {
		return sdk.SetSessionConfigOptionResponse{}, err
	}
	if p.ValueId.ConfigId == optionMode {
		ctx = context.WithoutCancel(ctx)
		c.afterAnswer = func() {
			_ = c.sendUpdate(ctx, id, sdk.SessionUpdate{CurrentModeUpdate: &sdk.SessionCurrentModeUpdate{CurrentModeId: sdk.SessionModeId(config.Mode)}})
		}
	}
	return sdk.SetSessionConfigOptionResponse{ConfigOptions: c.server.options(config)}, nil
}

// configure sets an option of a session. It reads and writes n.config in two steps. No
// other request changes n.config in between, because relay handles such requests one
// after another.
func (c *client) configure(ctx context.Context, id, option, value string) (events.AgentConfig, error) {
	n, err := c.session(ctx, id)
	if err != nil {
		return events.AgentConfig{}, err
	}
	config := n.settings()
	switch option {
	case optionMode:
		config.Mode = events.AgentMode(value)
	case optionMemory:
		config.HeapMemoryMaxMB, err = strconv.Atoi(value)
	case optionTimeout:
		config.ExecutionTimeoutSecs, err = strconv.Atoi(value)
	default:
		return config, invalid(fmt.Sprintf("unknown option %.60q; use mode, heap_memory or timeout", option))
	}
	if err != nil {
		return config, invalid(fmt.Sprintf("option %s must be a whole number, not %.60q", option, value))
	}
	seq, err := c.server.opts.Commands.ConfigureAgentSession(ctx, tenant, id, config, c.actor())
	if err != nil {
		return config, err
	}
	n.mu.Lock()
	n.config = config
	n.mu.Unlock()
	return config, c.server.opts.Queries.Wait(ctx, seq)
}

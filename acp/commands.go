package acp

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	sdk "github.com/coder/acp-go-sdk"

	"daybook/events"
	"daybook/internal/tools/toolserver"
	"daybook/ledger"
	"daybook/projections"
)

// command is a prompt that acts on the session and runs no code.
type command struct {
	name, description string
	// hint describes the argument; empty if the command takes none.
	hint string
	do   func(c *client, ctx context.Context, n *session, argument string) (reply, error)
}

// reply is the answer to a command, in Markdown.
type reply struct {
	text string
	// clearsConversation is set if the command clears the conversation, so that the next
	// prompt starts a new one.
	clearsConversation bool
}

// commandList returns the commands, in the order in which clients list them.
func commandList() []command {
	return []command{
		{"help", "Describe prompts and list the commands", "", (*client).help},
		{"heap", "Show the heap that the next prompt starts from", "", (*client).showHeap},
		{"tags", "Show the tags of the heap that the next prompt starts from, or set them", "key=value ...", (*client).tags},
		{"history", "List the prompts of this session", "", (*client).history},
		{"fork", "Create a session that continues from this one", "", (*client).forkHere},
		{"load", "Start the next prompt from another heap", "the heap's hash", (*client).loadHeap},
		{"tools", "List the MCP servers of this session and their tools", "", (*client).listTools},
		{"reset", "Start the next prompt from an empty heap", "", (*client).reset},
		{"clear", "Clear the conversation and keep the heap", "", (*client).clear},
	}
}

func isCommand(name string) bool {
	return slices.ContainsFunc(commandList(), func(c command) bool { return c.name == name })
}

func commandsUpdate() sdk.SessionUpdate {
	var list []sdk.AvailableCommand
	for _, c := range commandList() {
		a := sdk.AvailableCommand{Name: c.name, Description: c.description}
		if c.hint != "" {
			a.Input = &sdk.AvailableCommandInput{Unstructured: &sdk.UnstructuredCommandInput{Hint: c.hint}}
		}
		list = append(list, a)
	}
	return sdk.SessionUpdate{AvailableCommandsUpdate: &sdk.SessionAvailableCommandsUpdate{AvailableCommands: list}}
}

// command performs a command and records its answer. A *ledger.Error or events.ErrNotFound
// becomes the answer, because the prompt itself was valid. command returns other errors.
func (c *client) command(ctx context.Context, n *session, r rendering) (sdk.PromptResponse, error) {
	answer := reply{text: r.parsed.note}
	if answer.text == "" {
		answer.text = fmt.Sprintf("Unknown command /%s. /help lists the commands.", r.parsed.command)
	}
	for _, one := range commandList() {
		if one.name != r.parsed.command {
			continue
		}
		var err error
		if answer, err = one.do(c, ctx, n, r.parsed.argument); err != nil {
			var known *ledger.Error
			if !errors.As(err, &known) && !errors.Is(err, events.ErrNotFound) {
				return sdk.PromptResponse{}, err
			}
			answer = reply{text: "The command failed: " + err.Error()}
		}
	}
	seq, err := c.server.opts.Commands.AnswerCommand(ctx, tenant, n.id, r.prompt.PromptID, answer.text, answer.clearsConversation)
	if err != nil {
		return sdk.PromptResponse{}, err
	}
	if err := c.server.opts.Queries.Wait(ctx, seq); err != nil {
		return sdk.PromptResponse{}, err
	}
	return endTurnResponse, c.sendUpdates(ctx, n.id, r.answerUpdates(answer.text))
}

func (c *client) help(context.Context, *session, string) (reply, error) {
	var b strings.Builder
	b.WriteString("Prompts are JavaScript or TypeScript. They run in the heap of this session, so a prompt can use the definitions of earlier ones. If a prompt has ```js fences, only the code in them is run.\n\n")
	for _, one := range commandList() {
		fmt.Fprintf(&b, "- `/%s`", one.name)
		if one.hint != "" {
			fmt.Fprintf(&b, " %s", one.hint)
		}
		fmt.Fprintf(&b, ": %s\n", one.description)
	}
	return reply{text: b.String()}, nil
}

const noHeap = "The next prompt starts from an empty heap."

func (c *client) showHeap(ctx context.Context, n *session, _ string) (reply, error) {
	hash, err := c.server.opts.Commands.SessionHeap(ctx, tenant, n.id)
	if err != nil || hash == "" {
		return reply{text: noHeap}, err
	}
	h, err := c.server.opts.Queries.Heap(ctx, tenant, hash)
	if err != nil {
		return reply{}, err
	}
	text := fmt.Sprintf("The next prompt starts from heap `%s`", hash)
	if h.Size != nil {
		text += fmt.Sprintf(", %d KiB", *h.Size>>10)
	}
	if h.CreatedAt != nil {
		text += ", created at " + *h.CreatedAt
	}
	if h.Lost != nil {
		text += fmt.Sprintf(". The content of the heap is lost, as event %d records", *h.Lost)
	}
	return reply{text: text + "."}, nil
}

func (c *client) tags(ctx context.Context, n *session, argument string) (reply, error) {
	hash, err := c.server.opts.Commands.SessionHeap(ctx, tenant, n.id)
	if err != nil || hash == "" {
		return reply{text: noHeap + " It has no tags."}, err
	}
	h, err := c.server.opts.Queries.Heap(ctx, tenant, hash)
	if err != nil {
		return reply{}, err
	}
	tags := map[string]string{}
	maps.Copy(tags, h.Tags)
	if argument != "" {
		for _, pair := range strings.Fields(argument) {
			key, value, ok := strings.Cut(pair, "=")
			if !ok {
				return reply{text: fmt.Sprintf("`%s` is not of the form key=value. Nothing was changed.", pair)}, nil
			}
			tags[key] = value
		}
		seq, err := c.server.opts.Commands.SetTags(ctx, tenant, hash, tags, c.actor())
		if err != nil {
			return reply{}, err
		}
		if err := c.server.opts.Queries.Wait(ctx, seq); err != nil {
			return reply{}, err
		}
	}
	if len(tags) == 0 {
		return reply{text: fmt.Sprintf("Heap `%s` has no tags.", hash)}, nil
	}
	var b strings.Builder
	fmt.Fprintf(&b, "Heap `%s` is tagged:\n\n", hash)
	for _, key := range slices.Sorted(maps.Keys(tags)) {
		fmt.Fprintf(&b, "- %s = %s\n", key, tags[key])
	}
	return reply{text: b.String()}, nil
}

// maxHistoryLines bounds the answer to /history.
const maxHistoryLines = 50

func (c *client) history(ctx context.Context, n *session, _ string) (reply, error) {
	prompts, err := c.server.opts.Queries.AgentPrompts(ctx, tenant, n.id)
	if err != nil {
		return reply{}, err
	}
	prompts = prompts[:max(len(prompts)-1, 0)] // without the current one
	var b strings.Builder
	if len(prompts) == 0 {
		return reply{text: "This is the first prompt."}, nil
	}
	skipped := max(len(prompts)-maxHistoryLines, 0)
	if skipped > 0 {
		fmt.Fprintf(&b, "The last %d of %d prompts:\n\n", maxHistoryLines, len(prompts))
	}
	for i, p := range prompts[skipped:] {
		a := promptOf(p.Blocks)
		fmt.Fprintf(&b, "%d. `%s`", skipped+i+1, strings.ReplaceAll(a.title, "`", "'"))
		if p.ExecutionID != "" {
			t, err := c.server.opts.Queries.Trace(ctx, tenant, p.ExecutionID, projections.MarkPastLines())
			if err == nil {
				fmt.Fprintf(&b, " %s, run %s", t.Status, p.ExecutionID)
				if t.Artifacts > 0 {
					fmt.Fprintf(&b, ", artifacts: %d", t.Artifacts)
				}
			}
		}
		b.WriteByte('\n')
	}
	return reply{text: b.String()}, nil
}

func (c *client) forkHere(ctx context.Context, n *session, _ string) (reply, error) {
	on, err := c.server.opts.Queries.AgentSession(ctx, tenant, n.id)
	if err != nil {
		return reply{}, err
	}
	id, seq, err := c.server.opts.Commands.OpenAgentSession(ctx, ledger.AgentOpening{
		Tenant: tenant, Parent: n.id, Config: n.settings(), Actor: c.actor(),
		Workspace: events.AgentWorkspace{Cwd: on.Cwd, AdditionalDirectories: on.AdditionalDirectories},
	})
	if err != nil {
		return reply{}, err
	}
	return reply{text: fmt.Sprintf("Session `%s` continues from this point, independently of this one. Load it to use it.", id)}, c.server.opts.Queries.Wait(ctx, seq)
}

func (c *client) loadHeap(ctx context.Context, n *session, hash string) (reply, error) {
	if hash == "" {
		return reply{text: "Give the hash of a heap: `/load 3f79bb…`. To start from an empty heap, use /reset."}, nil
	}
	if _, err := c.server.opts.Commands.SetSessionHeap(ctx, tenant, n.id, hash, c.actor()); err != nil {
		return reply{}, err
	}
	return reply{text: fmt.Sprintf("The next prompt starts from heap `%s`.", hash)}, nil
}

func (c *client) reset(ctx context.Context, n *session, _ string) (reply, error) {
	_, err := c.server.opts.Commands.SetSessionHeap(ctx, tenant, n.id, "", c.actor())
	return reply{text: noHeap}, err
}

func (c *client) clear(context.Context, *session, string) (reply, error) {
	return reply{text: "The conversation starts here. The ledger keeps the earlier prompts, and the heap stays.", clearsConversation: true}, nil
}

func (c *client) listTools(ctx context.Context, n *session, _ string) (reply, error) {
	status := maps.Clone(n.unusableServers)
	byServer := map[string][]toolserver.Tool{}
	if n.tools != nil {
		for _, t := range n.tools.Tools(ctx, tenant) {
			byServer[t.Server] = append(byServer[t.Server], t)
		}
		maps.Copy(status, n.tools.Status())
	}
	if len(status) == 0 {
		return reply{text: "This session has no MCP servers: the client gave none when it opened it."}, nil
	}
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(status)) {
		fmt.Fprintf(&b, "**%s**: %s\n", name, status[name])
		for _, t := range byServer[name] {
			fmt.Fprintf(&b, "- `%s`", callText(name, t.Name))
			if line, _, _ := strings.Cut(t.Description, "\n"); line != "" {
				fmt.Fprintf(&b, ": %s", line)
			}
			b.WriteByte('\n')
		}
		b.WriteByte('\n')
	}
	return reply{text: b.String()}, nil
}

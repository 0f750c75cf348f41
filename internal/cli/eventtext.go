package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"daybook/events"
	"daybook/internal/cli/terminal"
)

// eventKind returns the type of an event without the parts that all types share.
func eventKind(t string) string {
	t = strings.TrimPrefix(t, "daybook.")
	if i := strings.LastIndex(t, ".v"); i > 0 {
		t = t[:i]
	}
	return t
}

func payload[T any](e events.CloudEvent) T {
	var d T
	_ = json.Unmarshal(e.Data, &d) // members that cannot be decoded stay empty
	return d
}

// eventText summarizes an event in one line. The text may hold control characters.
func eventText(e events.CloudEvent) string {
	switch events.Type(e.Type) {
	case events.TypeExecutionRequested:
		d := payload[events.ExecutionRequested](e)
		source := d.Content.Value().Source
		return requestText(d) + ": " + terminal.OneLine(bodyText(&source), 200)
	case events.TypeExecutionStarted:
		return startText(payload[events.ExecutionStarted](e))
	case events.TypeExecutionOutput:
		return outputText(payload[events.ExecutionOutput](e))
	case events.TypeExecutionOutputTruncated:
		return "the output reached its limit; later output is not stored"
	case events.TypeExecutionCancelRequested:
		return "by " + actorText(payload[events.ExecutionCancelRequested](e).Actor)
	case events.TypeExecutionHandedBack:
		d := payload[events.ExecutionHandedBack](e)
		return fmt.Sprintf("attempt %d: %s", d.Attempt, d.Reason)
	case events.TypeExecutionCompleted, events.TypeExecutionFailed, events.TypeExecutionTimedOut, events.TypeExecutionCancelled:
		return terminal.OneLine(endText(payload[events.Ending](e)), 300)
	case events.TypeHeapTagged:
		d := payload[events.HeapTagged](e)
		return fmt.Sprintf("%s by %s: %s", d.Edit, actorText(d.Actor), pairs(d.Content.Value().Tags))
	case events.TypeSessionEntryRecorded:
		d := payload[events.SessionEntryRecorded](e)
		return fmt.Sprintf("entry %d of %q: %s", d.Index, d.Session, d.Status)
	case events.TypeHostCalled:
		d := payload[events.HostCalled](e)
		return fmt.Sprintf("call %d: %s.%s(%s)", d.Number, d.Server, d.Tool, terminal.OneLine(bodyText(d.Content.Value().Arguments), 120))
	case events.TypeHostReturned:
		d := payload[events.HostReturned](e)
		return fmt.Sprintf("call %d: %s after %d ms: %s", d.Number, d.Outcome, d.DurationMillis, terminal.OneLine(bodyText(d.Content.Value().Result), 120))
	case events.TypeExecutionArtifactCreated:
		d := payload[events.ExecutionArtifactCreated](e)
		content := d.Content.Value()
		return artifactText(content.Name, content.MIME, d.Size)
	case events.TypeExecutionReplayed:
		return replayedText(payload[events.ExecutionReplayed](e))
	case events.TypeHeapMigrated:
		return migratedText(payload[events.HeapMigrated](e))
	case events.TypeModuleAdmitted:
		d := payload[events.ModuleAdmitted](e)
		return fmt.Sprintf("%s by %s: %s", d.Specifier, actorText(d.Actor), terminal.CountNoun(len(d.Packages), "package"))
	case events.TypeModuleRemoved:
		d := payload[events.ModuleRemoved](e)
		return fmt.Sprintf("%s by %s", strings.Join(d.Packages, " "), actorText(d.Actor))
	case events.TypeExecutionModulesLoaded:
		d := payload[events.ExecutionModulesLoaded](e).Content.Value()
		return terminal.OneLine(strings.TrimSpace(strings.Join(d.Specifiers, " ")+" "+d.Error), 120)
	case events.TypeLedgerCheckpointed:
		d := payload[events.LedgerCheckpointed](e)
		return fmt.Sprintf("%s, tree hash %s", terminal.CountNoun(d.Size, "event"), d.RootHash)
	case events.TypeLedgerProjectionsCopied:
		d := payload[events.LedgerProjectionsCopied](e)
		return fmt.Sprintf("projections as of %d, sha256 %s", d.Position, d.SHA256)
	default:
		return memberText(e.Data)
	}
}

func replayedText(d events.ExecutionReplayed) string {
	text := fmt.Sprintf("%s, by %s", strings.ReplaceAll(string(d.Verdict), "_", " "), actorText(d.Actor))
	switch {
	case d.Part != "":
		text += fmt.Sprintf(": %s", d.Part)
	case d.Reason != "":
		text += ": " + d.Reason
	}
	if d.Line > 0 {
		text += fmt.Sprintf(", line %d", d.Line)
	}
	if d.Call > 0 {
		text += fmt.Sprintf(", call %d", d.Call)
	}
	if d.Artifact > 0 {
		text += fmt.Sprintf(", artifact %d", d.Artifact)
	}
	return text
}

func migratedText(d events.HeapMigrated) string {
	text := fmt.Sprintf("%s, by %s: ", strings.ReplaceAll(string(d.Verdict), "_", " "), actorText(d.Actor))
	switch {
	case d.Verdict == events.MigrationDone:
		return text + fmt.Sprintf("to heap %s, with %s", shortHash(d.NewHeap), terminal.CountNoun(d.Executions, "replay"))
	case d.Part != "":
		text += fmt.Sprintf("execution %s, %s", d.ExecutionID, d.Part)
	default:
		text += d.Reason
		if d.ExecutionID != "" {
			text += ", execution " + d.ExecutionID
		}
	}
	if d.Line > 0 {
		text += fmt.Sprintf(", line %d", d.Line)
	}
	if d.Call > 0 {
		text += fmt.Sprintf(", call %d", d.Call)
	}
	if d.Artifact > 0 {
		text += fmt.Sprintf(", artifact %d", d.Artifact)
	}
	return text
}

// filesText lists the paths of the files of a run. whole is the JSON of the files, if it is
// known. Otherwise the event has the beginning of a long list, which is followed by "…".
func filesText(b events.Body, whole []byte) string {
	text, size := b.Text, int64(len(b.Text))
	if b.Blob != nil {
		text, size = b.Blob.Preview, b.Blob.Size
		if whole != nil {
			text = string(whole)
		}
	}
	dec := json.NewDecoder(strings.NewReader(text))
	var paths []string
	_, err := dec.Token() // the beginning of the object
	for err == nil && dec.More() {
		var path json.Token
		if path, err = dec.Token(); err == nil {
			paths = append(paths, fmt.Sprint(path))
			_, err = dec.Token() // the source
		}
	}
	if err == nil {
		_, err = dec.Token() // the end of the object
	}
	if err != nil {
		paths = append(paths, "…")
	}
	list := strings.Join(paths, ", ") + fmt.Sprintf("; %s as JSON", terminal.CountNoun(size, "byte"))
	if b.Blob != nil {
		list += ", in text " + shortHash(b.Blob.SHA256)
	}
	return list
}

// artifactText describes an artifact in one line.
func artifactText(name, mime string, size int64) string {
	return terminal.OneLine(fmt.Sprintf("%q, %s, %s", name, mime, terminal.CountNoun(size, "byte")), 200)
}

func requestText(d events.ExecutionRequested) string {
	text := "by " + actorText(d.Actor)
	switch {
	case d.Turn != nil:
		text += fmt.Sprintf(", turn %d of session %s", d.Turn.Number, d.Turn.SessionID)
	case d.Heap != "":
		text += ", heap " + shortHash(d.Heap)
	}
	if d.Session != "" {
		text += fmt.Sprintf(", session %q", d.Session)
	}
	return text
}

func startText(d events.ExecutionStarted) string {
	from := "a fresh isolate"
	if d.InputHeap != "" {
		from = "heap " + shortHash(d.InputHeap)
	}
	if d.MigratedFrom != "" {
		from += ", a migration of heap " + shortHash(d.MigratedFrom)
	}
	return fmt.Sprintf("attempt %d, from %s", d.Attempt, from)
}

func outputText(d events.ExecutionOutput) string {
	lines := d.Content.Value().Lines
	if len(lines) == 0 {
		return "encrypted"
	}
	more := ""
	if n := len(lines) - 1; n > 0 {
		more = fmt.Sprintf(" (and %d more)", n)
	}
	return fmt.Sprintf("line %d: %s%s", d.FirstLine, terminal.OneLine(lines[0].Text, 200), more)
}

// endText returns the result or the error of an execution.
func endText(d events.Ending) string {
	content := d.Content.Value()
	var parts []string
	if content.Error != nil {
		text := bodyText(content.Error)
		if d.Reason == outOfMemory {
			text = replaceMemoryField(text)
		}
		parts = append(parts, text)
	}
	if content.Result != nil {
		parts = append(parts, "result "+bodyText(content.Result))
	}
	if d.Heap != nil {
		parts = append(parts, "heap "+shortHash(d.Heap.SHA256))
	}
	return strings.Join(parts, "; ")
}

// actorText describes the actor of a request and the interface of the request.
func actorText(a events.Actor) string {
	text := a.Principal
	if text == "" {
		text = "the server"
	}
	if a.Transport != "" {
		text += " over " + a.Transport
	}
	return text
}

// bodyText returns a text, or its beginning if it is stored as a blob.
func bodyText(b *events.Body) string {
	switch {
	case b == nil:
		return ""
	case b.Blob != nil:
		return b.Blob.Preview + "…"
	default:
		return b.Text
	}
}

// shortHash returns the beginning of a hash, enough to identify it.
func shortHash(hash string) string { return hash[:min(len(hash), 12)] }

// memberText lists the members of an object that are neither objects nor lists.
func memberText(raw json.RawMessage) string {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	if _, err := dec.Token(); err != nil {
		return ""
	}
	var parts []string
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			break
		}
		var value any
		if dec.Decode(&value) != nil {
			break
		}
		switch v := value.(type) {
		case string:
			if v != "" {
				parts = append(parts, fmt.Sprintf("%s=%s", key, terminal.OneLine(v, 60)))
			}
		case json.Number, bool:
			parts = append(parts, fmt.Sprintf("%s=%v", key, v))
		}
	}
	return strings.Join(parts, " ")
}

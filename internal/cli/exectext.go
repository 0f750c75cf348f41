package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
)

type execTextCmd struct {
	clientFlags
	oneExecution
	Text string `arg:"" optional:"" help:"Text to print: code, result, error, or files as JSON." default:"result" enum:"code,result,error,files" placeholder:"TEXT"`
}

// Help is shown by "daybook exec text --help".
func (c *execTextCmd) Help() string {
	return "Prints the complete recorded text, also if it is larger than one answer of the server and \"daybook exec get\" shows only its beginning. With --json the text is a JSON string."
}

// Run prints the text.
func (c *execTextCmd) Run(ctx context.Context, std *streams) error {
	id, err := c.execution(ctx, c.ID)
	if err != nil {
		return err
	}
	if !c.JSON {
		return c.copyText(ctx, std, id, c.Text)
	}
	text, err := c.api().Text(ctx, id, c.Text)
	if err != nil {
		return err
	}
	defer text.Close()
	whole, err := io.ReadAll(text)
	if err != nil {
		return err
	}
	raw, err := json.Marshal(string(whole))
	if err != nil {
		return err
	}
	return std.out.WriteJSON(string(raw))
}

// copyText prints a text of an execution and ends the line.
func (f clientFlags) copyText(ctx context.Context, std *streams, id, name string) error {
	text, err := f.api().Text(ctx, id, name)
	if err != nil {
		return err
	}
	defer text.Close()
	if _, err := io.Copy(std.out, text); err != nil {
		return err
	}
	_, err = fmt.Fprintln(std.out)
	return err
}

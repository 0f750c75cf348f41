package cli

import "context"

type replCmd struct {
	clientFlags
}

func (c *replCmd) Run(ctx context.Context, std *streams) error { return nil }

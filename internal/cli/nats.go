package cli

import (
	"path/filepath"
	"time"

	"daybook/internal/cli/terminal"
	"daybook/internal/store/natscreds"
)

type natsCmd struct {
	Credentials natsCredentialsCmd `cmd:"" help:"Create, list, rotate and revoke credentials."`
}

type natsCredentialsCmd struct {
	Create natsCreateCmd `cmd:"" help:"Create a credential for the events of a tenant."`
	List   natsListCmd   `cmd:"" help:"List credentials without their keys."`
	Rotate natsRotateCmd `cmd:"" help:"Replace the key of a credential."`
	Revoke natsRevokeCmd `cmd:"" help:"Revoke a credential permanently."`
}

// credentialFlags are the flags of the commands about credentials. These commands need
// no running server.
type credentialFlags struct {
	DataDir string `help:"Data directory of the server." default:"${datadir}" placeholder:"DIR"`
}

func (f credentialFlags) dir() string { return filepath.Join(f.DataDir, "nats") }

type natsCreateCmd struct {
	credentialFlags
	Tenant string `help:"Tenant whose events the credential reads: 1 to 64 characters of a-z, 0-9, _ and -." default:"default" placeholder:"NAME"`
	Name   string `help:"Name of the credential and its file, in the same characters. Default: that of the tenant." placeholder:"NAME"`
}

// Help is shown by "daybook nats credentials create --help".
func (c *natsCreateCmd) Help() string {
	return "Run it on the server's machine, with the --data-dir of the server. It prints the path of a credentials file, which only its owner can read. Every NATS client accepts the file: nats --server URL --creds FILE sub 'events.TENANT.>'. " +
		"The file holds the only copy of the private key; give it to the subscriber and keep it secret. A running server accepts the credential within a second. " +
		"A subscriber reads the events of the tenant, live and from the streams, and cannot change anything. A server that was started with --auth listens for subscribers only with --nats-addr."
}

func (c *natsCreateCmd) Run(std *streams) error {
	if err := checkLedgerIn(c.DataDir, ""); err != nil {
		return inputError(err)
	}
	name := c.Name
	if name == "" {
		name = c.Tenant
	}
	made, err := natscreds.Create(c.dir(), name, c.Tenant, time.Now())
	if err != nil {
		return inputError(err)
	}
	std.err.Printf("credential %s reads the events of tenant %s\n", made.Name, made.Tenant)
	std.out.Printf("%s\n", made.File(c.dir()))
	return nil
}

type natsListCmd struct {
	credentialFlags
	JSON bool `help:"Print JSON."`
}

type listedCredential struct {
	ID      string     `json:"id"`
	Name    string     `json:"name"`
	Tenant  string     `json:"tenant"`
	Created time.Time  `json:"created"`
	Rotated *time.Time `json:"rotated"`
	Revoked *time.Time `json:"revoked"`
	// File is null for a revoked credential.
	File *string `json:"file"`
}

// Run prints one credential per line, oldest first.
func (c *natsListCmd) Run(std *streams) error {
	if err := checkLedgerIn(c.DataDir, ""); err != nil {
		return inputError(err)
	}
	list, err := natscreds.List(c.dir())
	if err != nil {
		return inputError(err)
	}
	answer := struct {
		Credentials []listedCredential `json:"credentials"`
	}{[]listedCredential{}}
	w := terminal.Table(std.out, "ID", "NAME", "TENANT", "CREATED", "ROTATED", "STATE", "FILE")
	for _, one := range list {
		shown := listedCredential{one.ID, one.Name, one.Tenant, one.Created, one.Rotated, one.Revoked, nil}
		state, rotated, file := "active", "-", "-"
		if one.IsActive() {
			file = one.File(c.dir())
			shown.File = &file
		} else {
			state = "revoked " + one.Revoked.Format(time.RFC3339)
		}
		if one.Rotated != nil {
			rotated = one.Rotated.Format(time.RFC3339)
		}
		answer.Credentials = append(answer.Credentials, shown)
		w.Row(one.ID, one.Name, one.Tenant, one.Created.Format(time.RFC3339), rotated, state, file)
	}
	if c.JSON {
		return std.out.PrintJSON(answer)
	}
	return w.Flush()
}

type natsRotateCmd struct {
	credentialFlags
	Which string `arg:"" help:"Name or id of the credential, or a unique prefix of the id." placeholder:"NAME"`
}

// Help is shown by "daybook nats credentials rotate --help".
func (c *natsRotateCmd) Help() string {
	return "Writes a new credentials file in place of the old one and prints its path. A running server closes the connections of the old key within a second and refuses it from then on. Consumers keep their position."
}

func (c *natsRotateCmd) Run(std *streams) error {
	if err := checkLedgerIn(c.DataDir, ""); err != nil {
		return inputError(err)
	}
	rotated, err := natscreds.Rotate(c.dir(), c.Which, time.Now())
	if err != nil {
		return inputError(err)
	}
	std.err.Printf("credential %s of tenant %s has a new key\n", rotated.Name, rotated.Tenant)
	std.out.Printf("%s\n", rotated.File(c.dir()))
	return nil
}

type natsRevokeCmd struct {
	credentialFlags
	Which string `arg:"" help:"Name or id of the credential, or a unique prefix of the id." placeholder:"NAME"`
}

// Help is shown by "daybook nats credentials revoke --help".
func (c *natsRevokeCmd) Help() string {
	return "Deletes the credentials file. A running server closes the connections of the credential within a second and refuses it from then on."
}

// Run revokes the credential.
func (c *natsRevokeCmd) Run(std *streams) error {
	if err := checkLedgerIn(c.DataDir, ""); err != nil {
		return inputError(err)
	}
	ended, err := natscreds.Revoke(c.dir(), c.Which, time.Now())
	if err != nil {
		return inputError(err)
	}
	std.err.Printf("credential %s of tenant %s is revoked\n", ended.Name, ended.Tenant)
	return nil
}
